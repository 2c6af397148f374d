// The operations of networks on the device. Compiled by NVRTC without contraction: a fused multiply-add stands where the
// host has one (kernels/matrix), and nowhere else. Each element of a product is one sum in the order of its terms, as on
// the host, so linear layers give the host's bits.

// A block computes 16 rows and 32 columns of a result: it is bound by reading shared memory, so small parts on many
// multiprocessors are quicker than large ones on few. 32 x 4 threads, each of which computes four rows of a column.
#define TILE 32  // columns, and terms that are summed at a time
#define TALL 16  // rows
#define ROWS 4   // of threads
#define EACH 4   // rows of a thread; also terms of the left side that it reads
#define RIGHT 8  // terms of the right side that it reads
#define MOST 12  // products of a launch

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

// All products of a launch travel with it: nothing is waited for to find one's own.
struct Products {
    Product of[MOST];
};

#define FORWARD 0
#define BY_INPUT 1
#define BY_WEIGHT 2
#define BY_BIAS 3

// f'(z) dy by the layer's output y.
__device__ float slope(float dy, float y, u32 activation) {
    if (activation == 0) return dy;
    if (activation == 1) return y > 0.0f ? dy : 0.0f;
    return dy * (1.0f - y * y);
}

// What a block shares: terms `k` to `k` + 31 of its rows and columns, twice, so that one part is read while another is
// summed. Rows by term, so that four of a term are read at once.
struct Room {
    __align__(16) float a[2][TILE][TALL + 4];
    float b[2][TILE][TILE + 1];
};

// One more term of four rows' sums.
__device__ void add_term(float *sums, const float *left, float right) {
    float4 rows = *(const float4 *)left;
    sums[0] = fmaf(rows.x, right, sums[0]);
    sums[1] = fmaf(rows.y, right, sums[1]);
    sums[2] = fmaf(rows.z, right, sums[2]);
    sums[3] = fmaf(rows.w, right, sums[3]);
}

// This thread's share of the terms of a part, as it comes from memory: nothing looks at it before all of it is on its way,
// so that one part costs one wait, not one for each number.
struct Terms {
    float left[EACH], output[EACH], right[RIGHT], sigma[RIGHT], noise[RIGHT][2];
};

// The row and the term, both within the part, of a thread's number `i` of the left side.
template <int KIND> __device__ u32 left_row(int i) {
    return KIND == BY_WEIGHT ? threadIdx.x % TALL : threadIdx.y + i * ROWS;
}

template <int KIND> __device__ u32 left_term(int i) {
    return KIND == BY_WEIGHT ? threadIdx.y * 2 + threadIdx.x / TALL + i * 2 * ROWS : threadIdx.x;
}

// Where a thread's term `i` of the part from k0 on stands, on the left and on the right, and whether it is there. Each side
// is read along its rows in memory: along k, or along the result's rows or columns.
template <int KIND> __device__ bool left_at(const Product &p, u32 row0, u32 k0, int i, u32 &at) {
    const u32 rows = (u32)p.rows, depth = (u32)p.depth;
    const u32 row = row0 + left_row<KIND>(i), k = k0 + left_term<KIND>(i);
    const bool inside = row < rows && k < depth;
    at = inside ? (KIND == BY_WEIGHT ? k * rows + row : row * depth + k) : 0;
    return inside;
}

template <int KIND> __device__ bool right_at(const Product &p, u32 column0, u32 k0, int i, u32 &column, u32 &k) {
    const u32 tx = threadIdx.x, other = threadIdx.y + i * ROWS;
    column = column0 + (KIND == FORWARD ? other : tx), k = k0 + (KIND == FORWARD ? tx : other);
    const bool inside = column < (u32)p.columns && k < (u32)p.depth;
    if (!inside) column = k = 0;
    return inside;
}

template <int KIND> __device__ u32 right_place(const Product &p, u32 column, u32 k) {
    return KIND == FORWARD ? column * (u32)p.depth + k : k * (u32)p.columns + column;
}

template <int KIND> __device__ void read_terms(const Product &p, u32 row0, u32 column0, u32 k0, Terms &terms) {
    u32 at, column, k;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        left_at<KIND>(p, row0, k0, i, at);
        terms.left[i] = p.left[at];
    }
#pragma unroll
    for (int i = 0; i < RIGHT; i++) {
        right_at<KIND>(p, column0, k0, i, column, k);
        terms.right[i] = p.right[right_place<KIND>(p, column, k)];
    }
    if (KIND != FORWARD && p.activation != 0) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            left_at<KIND>(p, row0, k0, i, at);
            terms.output[i] = p.output[at];
        }
    }
    if (KIND != BY_WEIGHT && p.noise_out) {
#pragma unroll
        for (int i = 0; i < RIGHT; i++) {
            right_at<KIND>(p, column0, k0, i, column, k);
            terms.sigma[i] = p.sigma[right_place<KIND>(p, column, k)];
            terms.noise[i][0] = p.noise_out[KIND == FORWARD ? column : k];
            terms.noise[i][1] = p.noise_in[KIND == FORWARD ? k : column];
        }
    }
}

// Puts a part into shared memory: dz, and weights with their noise.
template <int KIND>
__device__ void share_terms(const Product &p, u32 row0, u32 column0, u32 k0, const Terms &terms, Room &room, u32 turn) {
    const u32 tx = threadIdx.x, ty = threadIdx.y;
    u32 at, column, k;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        float left = terms.left[i];
        if (KIND != FORWARD) left = slope(left, terms.output[i], (u32)p.activation);
        if (!left_at<KIND>(p, row0, k0, i, at)) left = 0.0f;
        room.a[turn][left_term<KIND>(i)][left_row<KIND>(i)] = left;
    }
#pragma unroll
    for (int i = 0; i < RIGHT; i++) {
        u32 other = ty + i * ROWS;
        float right = terms.right[i];
        if (KIND != BY_WEIGHT && p.noise_out) right += terms.sigma[i] * (terms.noise[i][0] * terms.noise[i][1]);
        if (!right_at<KIND>(p, column0, k0, i, column, k)) right = 0.0f;
        if (KIND == FORWARD) room.b[turn][tx][other] = right;
        else room.b[turn][other][tx] = right;
    }
}

// A tile of the result, each element one sum in the order of its terms.
template <int KIND> __device__ void tile_of(const Product &p, Room &room, u32 tile) {
    const u32 tx = threadIdx.x, ty = threadIdx.y;
    const u32 rows = (u32)p.rows, columns = (u32)p.columns, depth = (u32)p.depth;
    const u32 across = (columns + TILE - 1) / TILE, row0 = tile / across * TALL, column0 = tile % across * TILE;
    const u32 column = column0 + tx, first_row = row0 + ty * EACH;
    if (depth == 0) return;
    Terms part;
    float sums[EACH] = {0.0f, 0.0f, 0.0f, 0.0f};
    read_terms<KIND>(p, row0, column0, 0, part);
    if (column < columns) {
        if (KIND == FORWARD) {
            float start = p.bias[column];
            if (p.noise_out) start += p.bias_sigma[column] * p.noise_out[column];
#pragma unroll
            for (int i = 0; i < EACH; i++) sums[i] = start;
        } else if (p.add) {
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (first_row + i < rows) sums[i] = p.result[(first_row + i) * columns + column];
        }
    }
    for (u32 k0 = 0, turn = 0; k0 < depth; k0 += TILE, turn ^= 1) {
        share_terms<KIND>(p, row0, column0, k0, part, room, turn);
        __syncthreads();
        if (k0 + TILE < depth) read_terms<KIND>(p, row0, column0, k0 + TILE, part);
        u32 terms = depth - k0;
        if (terms >= TILE) {
#pragma unroll
            for (int k = 0; k < TILE; k++) add_term(sums, &room.a[turn][k][ty * EACH], room.b[turn][k][tx]);
        } else {
            for (u32 k = 0; k < terms; k++) add_term(sums, &room.a[turn][k][ty * EACH], room.b[turn][k][tx]);
        }
    }
    if (column >= columns) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        u32 row = first_row + i, at = row * columns + column;
        if (row >= rows) continue;
        float sum = sums[i];
        if (KIND == FORWARD) {
            if (p.activation == 1) sum = sum < 0.0f ? 0.0f : sum;
            if (p.activation == 2) sum = tanhf(sum);
        }
        p.result[at] = sum;
        if (KIND == BY_WEIGHT && p.by_sigma)
            p.by_sigma[at] = p.noise_out ? sum * (p.noise_out[row] * p.noise_in[column]) : 0.0f;
    }
}

// Sums over rows for 32 outputs: all threads read, 32 of them add, in order.
__device__ void bias_of(const Product &p, Room &room, u32 tile) {
    const u32 tx = threadIdx.x, ty = threadIdx.y, columns = (u32)p.columns, depth = (u32)p.depth;
    const u32 output = tile * TILE + tx;
    const bool inside = output < columns;
    float sum = inside && p.add ? p.result[output] : 0.0f;
    for (u32 k0 = 0, turn = 0; k0 < depth + TILE; k0 += TILE, turn ^= 1) {
        // the part before this one is summed while this one is on its way
        float values[RIGHT], outputs[RIGHT];
#pragma unroll
        for (int i = 0; i < RIGHT; i++) {
            u32 k = k0 + ty + i * ROWS;
            values[i] = p.left[inside && k < depth ? k * columns + output : 0];
        }
        if (p.activation != 0) {
#pragma unroll
            for (int i = 0; i < RIGHT; i++) {
                u32 k = k0 + ty + i * ROWS;
                outputs[i] = p.output[inside && k < depth ? k * columns + output : 0];
            }
        }
        if (k0 > 0 && ty == 0) {
            u32 terms = depth - (k0 - TILE);
#pragma unroll
            for (int k = 0; k < TILE; k++) {
                float term = room.b[turn ^ 1][k][tx];
                if (k < terms) sum += term;
            }
        }
#pragma unroll
        for (int i = 0; i < RIGHT; i++)
            room.b[turn][ty + i * ROWS][tx] = slope(values[i], outputs[i], (u32)p.activation);
        __syncthreads();
    }
    if (ty != 0 || !inside) return;
    p.result[output] = sum;
    if (p.by_sigma) p.by_sigma[output] = p.noise_out ? sum * p.noise_out[output] : 0.0f;
}

// Several products at once; block (32, 4), as many blocks as their tiles are.
extern "C" __global__ void __launch_bounds__(TILE *ROWS) products(const __grid_constant__ Products table, u32 count) {
    __shared__ Room room;
    u32 which = count - 1;
    while (table.of[which].first_block > blockIdx.x) which--;
    const Product &p = table.of[which];
    u32 tile = blockIdx.x - (u32)p.first_block;
    switch ((u32)p.kind) {
    case FORWARD: tile_of<FORWARD>(p, room, tile); break;
    case BY_INPUT: tile_of<BY_INPUT>(p, room, tile); break;
    case BY_WEIGHT: tile_of<BY_WEIGHT>(p, room, tile); break;
    default: bias_of(p, room, tile);
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
