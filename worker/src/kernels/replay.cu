// The replay memory on the device: rows, their priorities in a tree of sums, the draw of a batch, and what an update says
// of it. Each gives the bits of the host's form: replay/sum_tree.rs, replay/prioritized.rs, replay/ring.rs.

// Fields as in kernels/replay.rs.
struct Replay {
    u64 capacity, width; // rows, values of an observation
    u64 batch, shards;   // rows of a batch, and the shards that it is split into
    u64 leaves;          // of the tree, a power of two; 0 if rows are drawn uniformly
    u64 records;         // places for what updates said
    double alpha, eps;
    double *tree;        // [2][leaves]: the root at 1, the children of i at 2i and 2i + 1
    float *now, *next;   // [capacity][width]
    float *meta;         // [capacity][3]: reward, discount, action
    double *state;       // update, rows, beta, largest priority, 1 + the update that was no finite one
    u32 *indices;        // [batch]
    double *weights;     // [batch]
    double *record;      // [records][7 + 2 shards]
};

#define NUMBER 0
#define LENGTH 1
#define BETA 2
#define LARGEST 3
#define HALTED 4

// Computes the parents of the leaf at `node` anew, where `mine`; all threads of the block go up level by level. The
// same sum may be written by several.
__device__ void climb(double *tree, u64 leaves, u64 node, bool mine) {
    for (u64 level = leaves; level > 1; level /= 2) {
        __syncthreads();
        node /= 2;
        if (mine) {
            double2 children = *(const double2 *)(tree + 2 * node);
            tree[node] = children.x + children.y;
        }
    }
    __syncthreads();
}

// Says what the next update is, and puts in rows: for each its place, action, reward, discount, S and S', words of 32
// bits. New rows get the largest priority. No place stands twice; one block, `count` of at most its threads.
extern "C" __global__ void replay_insert(Replay r, const u32 *rows, u32 count, u64 number, u64 length, double beta) {
    if (r.state[HALTED] != 0.0) return;
    u64 words = 4 + 2 * r.width;
    for (u64 i = threadIdx.x; i < count * words; i += blockDim.x) {
        const u32 *row = rows + i / words * words;
        u64 at = row[0], word = i % words;
        if (word >= 4 + r.width) r.next[at * r.width + word - 4 - r.width] = __uint_as_float(row[word]);
        else if (word >= 4) r.now[at * r.width + word - 4] = __uint_as_float(row[word]);
        else if (word == 1) r.meta[3 * at + 2] = (float)row[word];
        else if (word > 1) r.meta[3 * at + word - 2] = __uint_as_float(row[word]);
    }
    if (threadIdx.x == 0) r.state[NUMBER] = (double)number, r.state[LENGTH] = (double)length, r.state[BETA] = beta;
    if (r.leaves == 0 || count == 0) return;
    bool mine = threadIdx.x < count;
    u64 node = r.leaves + (mine ? rows[threadIdx.x * words] : 0);
    if (mine) r.tree[node] = exact_power(r.state[LARGEST], r.alpha);
    climb(r.tree, r.leaves, node, mine);
}

__device__ u64 found(const double *tree, u64 leaves, double mass) {
    u64 node = 1;
    while (node < leaves) {
        double2 children = *(const double2 *)(tree + 2 * node);
        if (mass < children.x || children.y <= 0.0) {
            node = 2 * node;
        } else {
            mass -= children.x;
            node = 2 * node + 1;
        }
    }
    return node - leaves;
}

// As `below` in seed.rs. Rejections, of which there is one in 10^14 or so, move all that follow: one thread walks then.
__device__ void draw_uniformly(const Replay &r, const Key &key, u64 number, u64 n) {
    __shared__ int rejected;
    if (threadIdx.x == 0) rejected = 0;
    __syncthreads();
    u64 reject_under = (0 - n) % n;
    for (u64 k = threadIdx.x; k < r.batch; k += blockDim.x) {
        u64 word = drawn(key, number, 0, k);
        if (word * n < reject_under) rejected = 1;
        r.indices[k] = (u32)__umul64hi(word, n);
    }
    __syncthreads();
    if (!rejected || threadIdx.x != 0) return;
    for (u64 k = 0, at = 0; k < r.batch; at++) {
        u64 word = drawn(key, number, 0, at);
        if (word * n >= reject_under) r.indices[k++] = (u32)__umul64hi(word, n);
    }
}

// Numbers that an update draws: the noise of an operation, or levels of quantiles.
struct Drawn {
    Key key;
    u64 levels;        // whether they are levels
    u64 number;        // of the operation; or of the draw's first number
    u64 start, length; // their place
    u64 first_block;   // of the launch, the first that works on it
};

#define DRAW_THREADS 512

// The rows of the next batch with their weights, by block 0; the others draw noise, four normal numbers a thread, and
// levels, eight.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS) replay_draw(Replay r, Key key, const Drawn *table, u32 count, float *out) {
    if (r.state[HALTED] != 0.0) return;
    u64 number = (u64)r.state[NUMBER];
    if (blockIdx.x > 0) {
        u32 which = count - 1;
        while (table[which].first_block > blockIdx.x) which--;
        const Drawn *of = table + which;
        u64 part = (blockIdx.x - of->first_block) * blockDim.x + threadIdx.x;
        float *to = out + of->start;
        u32 words[16];
        if (of->levels) {
            u64 first = of->number, block = first / 8 + part;
            if (8 * block >= first + of->length) return;
            chacha8(of->key, number, block, words);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                u64 at = 8 * block + i;
                if (at < first || at >= first + of->length) continue;
                to[at - first] = (float)uniform_of((u64)words[2 * i + 1] << 32 | words[2 * i]);
            }
            return;
        }
        if (4 * part >= of->length) return;
        chacha8(of->key, of->number, (number << 16) + part, words);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u64 first = (u64)words[4 * i + 1] << 32 | words[4 * i], second = (u64)words[4 * i + 3] << 32 | words[4 * i + 2];
            float x = (float)normal_of(first, second);
            float root = sqrtf(fabsf(x));
            if (4 * part + i < of->length) to[4 * part + i] = x < 0.0f ? -root : root;
        }
        return;
    }
    u64 n = (u64)r.state[LENGTH];
    if (r.leaves == 0) {
        draw_uniformly(r, key, number, n);
        return;
    }
    __shared__ double largest[DRAW_THREADS];
    double total = r.tree[1], share = total / (double)r.batch, top = 0.0;
    for (u64 k = threadIdx.x; k < r.batch; k += blockDim.x) {
        double place = uniform_of(drawn(key, number, 0, k));
        u64 at = found(r.tree, r.leaves, ((double)k + place) * share);
        if (at > n - 1) at = n - 1;
        double weight = exact_power((double)n * (r.tree[r.leaves + at] / total), -r.state[BETA]);
        r.indices[k] = (u32)at;
        r.weights[k] = weight;
        top = fmax(top, weight);
    }
    largest[threadIdx.x] = top;
    for (u32 half = DRAW_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) largest[threadIdx.x] = fmax(largest[threadIdx.x], largest[threadIdx.x + half]);
    }
    __syncthreads();
    for (u64 k = threadIdx.x; k < r.batch; k += blockDim.x) r.weights[k] /= largest[0];
}

// Rows `first` and on of the batch, a block each: S and S', and rewards, discounts, weights and actions, [4][rows].
extern "C" __global__ void replay_gather(Replay r, u32 first, float *now, float *next, float *meta) {
    u64 row = blockIdx.x, rows = gridDim.x, at = r.indices[first + row];
    for (u64 i = threadIdx.x; i < r.width; i += blockDim.x) {
        now[row * r.width + i] = r.now[at * r.width + i];
        next[row * r.width + i] = r.next[at * r.width + i];
    }
    if (threadIdx.x == 0) {
        meta[row] = r.meta[3 * at];
        meta[rows + row] = r.meta[3 * at + 1];
        meta[2 * rows + row] = r.leaves ? (float)r.weights[first + row] : 1.0f;
        meta[3 * rows + row] = r.meta[3 * at + 2];
    }
}

#define FINISH_THREADS 256

// After the step, of what rode behind the gradients: what the host will read of this update, and the rows' new
// priorities. An update that was no finite one gives none, and is the last. One block.
extern "C" __global__ void __launch_bounds__(FINISH_THREADS) replay_finish(Replay r, const float *extras, const double *clip) {
    if (r.state[HALTED] != 0.0) return;
    __shared__ int is_bad;
    __shared__ float read[FINISH_THREADS];
    __shared__ double weighed[FINISH_THREADS], tops[FINISH_THREADS];
    u64 number = (u64)r.state[NUMBER], fields = 7 + 2 * r.shards;
    double *record = r.record + number % r.records * fields;
    const float *errors = extras + 3 + 2 * r.shards;
    if (threadIdx.x == 0) is_bad = !isfinite(clip[0]);
    __syncthreads();
    for (u64 i = threadIdx.x; i < r.shards; i += blockDim.x)
        if (!isfinite(extras[3 + i])) is_bad = 1;
    for (u64 i = threadIdx.x; i < 3 + 2 * r.shards; i += blockDim.x) record[3 + i] = extras[i];

    // sums in the order of the rows; every row's priority, of equal rows the last one's
    double errors_sum = 0, weights_sum = 0, top = 0, largest = r.state[LARGEST];
    for (u64 from = 0; from < r.batch; from += FINISH_THREADS) {
        u64 k = from + threadIdx.x;
        u32 count = r.batch - from < FINISH_THREADS ? (u32)(r.batch - from) : FINISH_THREADS;
        bool there = threadIdx.x < count;
        __syncthreads();
        read[threadIdx.x] = there ? errors[k] : 0.0f;
        weighed[threadIdx.x] = there && r.leaves ? r.weights[k] : 0.0;
        __syncthreads();
        bool stop = is_bad != 0;
        if (threadIdx.x == 0) {
            for (u32 i = 0; i < count; i++) errors_sum += read[i];
        } else if (threadIdx.x == 32) {
            for (u32 i = 0; i < count; i++) weights_sum += weighed[i];
        }
        if (there) top = fmax(top, (double)read[threadIdx.x]);
        if (r.leaves && !stop) {
            double priority = there ? fabs((double)read[threadIdx.x]) + r.eps : 0.0;
            largest = fmax(largest, priority);
            // a batch is drawn in the order of its rows' places, so equal rows are neighbours
            bool mine = there && (k + 1 == r.batch || r.indices[k + 1] != r.indices[k]);
            u64 node = r.leaves + (there ? r.indices[k] : 0);
            if (mine) r.tree[node] = exact_power(priority, r.alpha);
            climb(r.tree, r.leaves, node, mine);
        }
    }
    __syncthreads();
    weighed[threadIdx.x] = largest;
    tops[threadIdx.x] = top;
    for (u32 half = FINISH_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            weighed[threadIdx.x] = fmax(weighed[threadIdx.x], weighed[threadIdx.x + half]);
            tops[threadIdx.x] = fmax(tops[threadIdx.x], tops[threadIdx.x + half]);
        }
    }
    if (threadIdx.x == 32) record[2] = weights_sum;
    if (threadIdx.x == 0) {
        record[0] = clip[0];
        record[1] = errors_sum;
        record[fields - 1] = tops[0];
        if (is_bad) r.state[HALTED] = (double)(number + 1);
        else r.state[LARGEST] = weighed[0];
    }
}
