// The operations of networks on the device. Compiled by NVRTC without contraction: a fused multiply-add stands where the
// host has one (kernels/matrix), and nowhere else. Each element of a product is one sum in the order of its terms, as on
// the host, so linear layers give the host's bits.

#define TILE 32
#define ROWS 8  // rows of threads: 32 x 8, each of which computes four rows of a column

// One product of a grouped launch. Fields as in kernels/layers.rs.
struct Product {
    u64 kind;               // what: FORWARD, BY_INPUT, BY_WEIGHT or BY_BIAS
    u64 rows, columns;      // of the result
    u64 depth;              // terms of each sum
    u64 activation;         // 0 none, 1 rectifier, 2 tanh
    u64 add;                // whether the result is added to what is there
    u64 first_block;        // of the launch's blocks, the first that works on this product
    const float *left;      // x, or the gradient by the layer's output
    const float *output;    // the layer's output, by which dz = f'(z) dy; none if there is no activation
    const float *right;     // W, W, x
    const float *sigma;     // deviations of W, if it has noise
    const float *noise_out; // f(e) of outputs, if the noise is on
    const float *noise_in;  // f(e) of inputs
    const float *bias;
    const float *bias_sigma;
    float *result;
    float *by_sigma;        // the gradient by the deviations, if there are any
    u64 unused;
};

#define FORWARD 0
#define BY_INPUT 1
#define BY_WEIGHT 2
#define BY_BIAS 3

__device__ float slope(float dy, const float *output, u64 at, u64 activation) {
    if (activation == 0) return dy;
    float y = output[at];
    if (activation == 1) return y > 0.0f ? dy : 0.0f;
    return dy * (1.0f - y * y);
}

// The weight at (output, input), with noise if it has some.
__device__ float weight(const Product *p, u64 output, u64 input, u64 inputs) {
    float mu = p->right[output * inputs + input];
    if (!p->noise_out) return mu;
    return mu + p->sigma[output * inputs + input] * (p->noise_out[output] * p->noise_in[input]);
}

// Element (row, k) of the left side.
__device__ float left(const Product *p, u64 row, u64 k) {
    if (row >= p->rows || k >= p->depth) return 0.0f;
    if (p->kind == FORWARD) return p->left[row * p->depth + k];
    u64 at = p->kind == BY_INPUT ? row * p->depth + k : k * p->rows + row;
    return slope(p->left[at], p->output, at, p->activation);
}

// Element (k, column) of the right side.
__device__ float right(const Product *p, u64 k, u64 column) {
    if (column >= p->columns || k >= p->depth) return 0.0f;
    if (p->kind == FORWARD) return weight(p, column, k, p->depth);
    if (p->kind == BY_INPUT) return weight(p, k, column, p->columns);
    return p->right[k * p->columns + column];
}

// One more term of four rows' sums.
__device__ void add_term(float *sums, const float *left, float right) {
    float4 rows = *(const float4 *)left;
    sums[0] = fmaf(rows.x, right, sums[0]);
    sums[1] = fmaf(rows.y, right, sums[1]);
    sums[2] = fmaf(rows.z, right, sums[2]);
    sums[3] = fmaf(rows.w, right, sums[3]);
}

// Several products at once; block (32, 8), as many blocks as their tiles are. A result of 32 x 32 for each block.
extern "C" __global__ void __launch_bounds__(256) products(const Product *table, unsigned count) {
    // a by term, then row: four rows' values are read at once
    __shared__ __align__(16) float a[TILE][TILE + 4];
    __shared__ float b[TILE][TILE + 1];
    unsigned which = count - 1;
    while (table[which].first_block > blockIdx.x) which--;
    const Product product = table[which];
    const Product *p = &product;
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    u64 tile = blockIdx.x - p->first_block;

    if (p->kind == BY_BIAS) { // sums over rows for 32 outputs: all threads read, 32 of them add, in order
        u64 output = tile * TILE + tx;
        bool inside = output < p->columns;
        float sum = inside && p->add ? p->result[output] : 0.0f;
        for (u64 k0 = 0; k0 < p->depth; k0 += 2 * TILE) {
            for (int i = 0; i < 2 * TILE / ROWS; i++) {
                u64 row = ty + i * ROWS, k = k0 + row, at = k * p->columns + output;
                float value = inside && k < p->depth ? slope(p->left[at], p->output, at, p->activation) : 0.0f;
                if (row < TILE) a[row][tx] = value;
                else b[row - TILE][tx] = value;
            }
            __syncthreads();
            if (ty == 0) {
                u64 terms = p->depth - k0;
#pragma unroll 8
                for (int k = 0; k < TILE; k++)
                    if (k < terms) sum += a[k][tx];
#pragma unroll 8
                for (int k = 0; k < TILE; k++)
                    if (k + TILE < terms) sum += b[k][tx];
            }
            __syncthreads();
        }
        if (ty != 0 || !inside) return;
        p->result[output] = sum;
        if (p->by_sigma) p->by_sigma[output] = p->noise_out ? sum * p->noise_out[output] : 0.0f;
        return;
    }

    u64 across = (p->columns + TILE - 1) / TILE;
    u64 row0 = tile / across * TILE, column0 = tile % across * TILE;
    u64 column = column0 + tx;
    float sums[TILE / ROWS];
    for (int i = 0; i < TILE / ROWS; i++) {
        u64 row = row0 + ty * (TILE / ROWS) + i;
        sums[i] = 0.0f;
        if (row >= p->rows || column >= p->columns) continue;
        if (p->kind == FORWARD) {
            sums[i] = p->bias[column];
            if (p->noise_out) sums[i] += p->bias_sigma[column] * p->noise_out[column];
        } else if (p->add) {
            sums[i] = p->result[row * p->columns + column];
        }
    }

    // Each side is read along its rows in memory: along k, or along the result's rows or columns.
    bool left_by_row = p->kind == BY_WEIGHT, right_by_column = p->kind != FORWARD;
    float next_a[TILE / ROWS], next_b[TILE / ROWS];
    for (int i = 0; i < TILE / ROWS; i++) {
        unsigned other = ty + i * ROWS;
        next_a[i] = left_by_row ? left(p, row0 + tx, other) : left(p, row0 + other, tx);
        next_b[i] = right_by_column ? right(p, other, column0 + tx) : right(p, tx, column0 + other);
    }
    for (u64 k0 = 0; k0 < p->depth; k0 += TILE) {
        for (int i = 0; i < TILE / ROWS; i++) {
            unsigned other = ty + i * ROWS;
            if (left_by_row) a[other][tx] = next_a[i];
            else a[tx][other] = next_a[i];
            if (right_by_column) b[tx][other] = next_b[i];
            else b[other][tx] = next_b[i];
        }
        __syncthreads();
        u64 after = k0 + TILE; // read while this part is summed
        if (after < p->depth) {
            for (int i = 0; i < TILE / ROWS; i++) {
                u64 other = ty + i * ROWS;
                next_a[i] = left_by_row ? left(p, row0 + tx, after + other) : left(p, row0 + other, after + tx);
                next_b[i] = right_by_column ? right(p, after + other, column0 + tx) : right(p, after + tx, column0 + other);
            }
        }
        int terms = p->depth - k0 < TILE ? (int)(p->depth - k0) : TILE;
        if (terms == TILE) {
#pragma unroll
            for (int k = 0; k < TILE; k++) add_term(sums, &a[k][ty * 4], b[tx][k]);
        } else {
            for (int k = 0; k < terms; k++) add_term(sums, &a[k][ty * 4], b[tx][k]);
        }
        __syncthreads();
    }

    for (int i = 0; i < TILE / ROWS; i++) {
        u64 row = row0 + ty * (TILE / ROWS) + i;
        if (row >= p->rows || column >= p->columns) continue;
        u64 at = row * p->columns + column;
        float sum = sums[i];
        if (p->kind == FORWARD) {
            if (p->activation == 1) sum = sum < 0.0f ? 0.0f : sum;
            if (p->activation == 2) sum = tanhf(sum);
        }
        p->result[at] = sum;
        if (p->kind == BY_WEIGHT && p->by_sigma)
            p->by_sigma[at] = p->noise_out ? sum * (p->noise_out[row] * p->noise_in[column]) : 0.0f;
    }
}

// Q of V and A, as kernels/dueling.rs; one thread for each row and atom.
extern "C" __global__ void dueling(const float *value, const float *advantage, float *q, u64 rows, u64 actions,
                                   u64 atoms) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * atoms) return;
    u64 row = i / atoms, atom = i % atoms;
    const float *a = advantage + row * actions * atoms + atom;
    float share = 1.0f / (float)actions, sum = 0.0f;
    for (u64 k = 0; k < actions; k++) sum += a[k * atoms];
    float level = value[i] - sum * share;
    float *to = q + row * actions * atoms + atom;
    for (u64 k = 0; k < actions; k++) to[k * atoms] = level + a[k * atoms];
}

// The gradients by V and A from that by Q.
extern "C" __global__ void dueling_backward(const float *by_q, float *by_value, float *by_advantage, u64 rows,
                                            u64 actions, u64 atoms) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * atoms) return;
    u64 row = i / atoms, atom = i % atoms;
    const float *g = by_q + row * actions * atoms + atom;
    float share = 1.0f / (float)actions, sum = 0.0f;
    for (u64 k = 0; k < actions; k++) sum += g[k * atoms];
    by_value[i] = sum;
    float *to = by_advantage + row * actions * atoms + atom;
    for (u64 k = 0; k < actions; k++) to[k * atoms] = g[k * atoms] - sum * share;
}
