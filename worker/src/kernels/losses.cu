// What a row of a batch costs, and the slope of that by the network's outputs: the device's form of trainers/heads.rs for
// plain and categorical values, a block for each row.

#define ALL 0xffffffffu
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

__device__ float warp_sum(float x) {
    for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(ALL, x, other);
    return x;
}

__device__ float warp_max(float x) {
    for (int other = 16; other > 0; other /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, other));
    return x;
}

// Softmax of n logits into p, which the warp shares and which may be where they are; gives log sum exp.
__device__ float softmax(const float *logits, float *p, unsigned n, unsigned lane) {
    float top = logits[0];
    for (unsigned j = lane; j < n; j += 32) top = fmaxf(top, logits[j]);
    top = warp_max(top);
    __syncwarp();
    float sum = 0.0f;
    for (unsigned j = lane; j < n; j += 32) sum += p[j] = expf(logits[j] - top);
    sum = warp_sum(sum);
    float share = 1.0f / sum;
    for (unsigned j = lane; j < n; j += 32) p[j] *= share;
    __syncwarp();
    return top + logf(sum);
}

// The mean of a distribution over atoms low, low + gap, ...
__device__ float mean_atom(const float *p, float low, float gap, unsigned n, unsigned lane) {
    float sum = 0.0f;
    for (unsigned j = lane; j < n; j += 32) sum += p[j] * (low + gap * (float)j);
    return warp_sum(sum);
}

#define LOSS_THREADS 256

// One row for each block. now, choice, next: [rows][actions][atoms], outputs for S, for S' by which a* is chosen, and for
// S' of the target network. meta: rewards, discounts, weights and actions (as numbers), [4][rows]. Leaves slopes in
// gradient (none that is a number where a loss is no finite one), and for each row loss, Q, delta and priority, [4][rows].
// Shared: 3 actions atoms + 4 atoms + 3 actions floats. All outputs of the row are read at once; then warps take
// distributions in turn.
extern "C" __global__ void __launch_bounds__(LOSS_THREADS)
    q_loss(const float *now, const float *choice, const float *next, const float *meta, float *gradient, float *costs,
           unsigned actions, unsigned atoms, float low, float high, float conservative) {
    extern __shared__ float room[];
    unsigned row = blockIdx.x, rows = gridDim.x, t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned width = actions * atoms;
    // logits of S, then probabilities of all three
    float *logits = room, *chosen = logits + width, *after = chosen + width;
    float *target = after + width, *lower = target + atoms, *upper = lower + atoms;
    unsigned *place = (unsigned *)(upper + atoms);
    float *q_now = (float *)(place + atoms), *q_choice = q_now + actions, *level_now = q_choice + actions;
    float gap = atoms > 1 ? (high - low) / (float)(atoms - 1) : 0.0f;
    float reward = meta[row], discount = meta[rows + row], weight = meta[2 * rows + row];
    unsigned action = (unsigned)meta[3 * rows + row];
    now += (u64)row * width, choice += (u64)row * width, next += (u64)row * width, gradient += (u64)row * width;
    for (unsigned j = t; j < width; j += LOSS_THREADS) {
        float a = now[j], b = choice[j], c = next[j];
        logits[j] = a, chosen[j] = b, after[j] = c;
    }
    __syncthreads();

    float loss = 0.0f, priority = 0.0f, delta = 0.0f, q = 0.0f;
    if (atoms == 1) {
        for (unsigned a = t; a < actions; a += LOSS_THREADS) q_now[a] = logits[a], q_choice[a] = chosen[a];
    } else {
        // of S the distribution of the action, and of all if the penalty asks; of S' all
        for (unsigned job = warp; job < 3 * actions; job += LOSS_THREADS / 32) {
            unsigned a = job % actions, which = job / actions;
            if (which == 0) {
                if (a != action && conservative == 0.0f) continue;
                float level = softmax(logits + a * atoms, logits + a * atoms, atoms, lane);
                float mean = mean_atom(logits + a * atoms, low, gap, atoms, lane);
                if (lane == 0) q_now[a] = mean, level_now[a] = level;
            } else if (which == 1) {
                softmax(chosen + a * atoms, chosen + a * atoms, atoms, lane);
                float mean = mean_atom(chosen + a * atoms, low, gap, atoms, lane);
                if (lane == 0) q_choice[a] = mean;
            } else {
                softmax(after + a * atoms, after + a * atoms, atoms, lane);
            }
        }
    }
    __syncthreads();
    unsigned best = 0;
    for (unsigned a = 1; a < actions; a++)
        if (q_choice[a] > q_choice[best]) best = a;

    float by_action = 0.0f; // the slope of plain values
    if (atoms == 1) {
        q = q_now[action];
        delta = reward + discount * after[best] - q;
        float size = fabsf(delta);
        loss = size < 1.0f ? 0.5f * delta * delta : size - 0.5f;
        float slope = size < 1.0f ? delta : delta > 0.0f ? 1.0f : delta < 0.0f ? -1.0f : delta;
        by_action = -weight * slope;
        priority = size;
    } else {
        const float *p = after + best * atoms;
        float last = (float)(atoms - 1);
        for (unsigned j = t; j < atoms; j += LOSS_THREADS) {
            float z = reward + discount * (low + gap * (float)j);
            z = z < low ? low : z > high ? high : z;
            float b = (z - low) / gap;
            b = b < 0.0f ? 0.0f : b > last ? last : b;
            float floor = floorf(b), upper_share = b - floor;
            // what is no number has no place, and makes a loss that is none
            place[j] = floor >= 0.0f ? (unsigned)floor : 0;
            lower[j] = p[j] * (1.0f - upper_share);
            upper[j] = p[j] * upper_share;
        }
        __syncthreads();
        // each atom looks for what falls on it, in order
        for (unsigned i = t; i < atoms; i += LOSS_THREADS) {
            float sum = 0.0f;
#pragma unroll 8
            for (unsigned j = 0; j < atoms; j++) {
                unsigned at = place[j], above = at + 1 < atoms ? at + 1 : atoms - 1;
                float x = lower[j], y = upper[j];
                if (at == i) sum += x;
                if (above == i) sum += y;
            }
            if (i == 0 && !isfinite(reward)) sum = reward - reward;
            target[i] = sum;
        }
        __syncthreads();
        if (warp == 0) {
            const float *probability = logits + action * atoms, *raw = now + action * atoms;
            float mass = 0.0f, cost = 0.0f, level = level_now[action];
            for (unsigned j = lane; j < atoms; j += 32) {
                mass += target[j];
                cost += target[j] * (level - raw[j]);
            }
            mass = warp_sum(mass);
            loss = warp_sum(cost);
            q = q_now[action];
            delta = mean_atom(target, low, gap, atoms, lane) - q;
            priority = loss;
            // the slope of the cross entropy, kept where the projection no longer is
            for (unsigned j = lane; j < atoms; j += 32) lower[j] = weight * (probability[j] * mass - target[j]);
        }
        __syncthreads();
    }

    float top = 0.0f, sum = 0.0f;
    if (conservative != 0.0f) { // log sum exp of Q(s, .) less Q(s, a), and its slope
        top = q_now[0];
        for (unsigned a = 1; a < actions; a++) top = fmaxf(top, q_now[a]);
        for (unsigned a = 0; a < actions; a++) sum += expf(q_now[a] - top);
        loss += conservative * (top + logf(sum) - q);
    }
    for (unsigned j = t; j < width; j += LOSS_THREADS) {
        unsigned a = j / atoms, atom = j % atoms;
        float g = 0.0f;
        if (a == action) g = atoms == 1 ? by_action : lower[atom];
        if (conservative != 0.0f) {
            float slope = weight * conservative * (expf(q_now[a] - top) / sum - (a == action ? 1.0f : 0.0f));
            g += atoms == 1 ? slope : slope * logits[j] * (low + gap * (float)atom - q_now[a]);
        }
        gradient[j] = g;
    }
    __syncthreads();
    if (t == 0) {
        // so that the step, which looks at the gradient alone, is not taken
        if (!isfinite(loss)) gradient[action * atoms] = loss - loss;
        costs[row] = weight * loss;
        costs[rows + row] = q;
        costs[2 * rows + row] = delta;
        costs[3 * rows + row] = priority;
    }
}

// What rides behind the gradients, from the costs of the rows `first` to `first` + rows of a batch: rows, Q and |delta|
// summed, for each of `shards` its loss and its largest Q, for each of the batch's rows its priority. 256 threads. What
// is others' is set to zero. Sums are in the order of the rows, each by one thread out of what all have read.
extern "C" __global__ void q_extras(const float *costs, float *extras, unsigned rows, unsigned shard, unsigned shards,
                                    unsigned first, unsigned batch) {
    __shared__ float read[3][256];
    double loss = 0, q = 0, delta = 0;
    float largest = -INFINITY;
    bool none = false;
    for (unsigned from = 0; from < rows; from += 256) {
        unsigned count = rows - from < 256 ? rows - from : 256;
        if (threadIdx.x < count)
            for (unsigned what = 0; what < 3; what++) read[what][threadIdx.x] = costs[what * rows + from + threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) {
            for (unsigned i = 0; i < count; i++) loss += read[0][i];
        } else if (threadIdx.x == 32) {
            for (unsigned i = 0; i < count; i++) q += read[1][i];
        } else if (threadIdx.x == 64) {
            for (unsigned i = 0; i < count; i++) delta += fabsf(read[2][i]);
        } else if (threadIdx.x == 96) {
            for (unsigned i = 0; i < count; i++) {
                largest = fmaxf(largest, read[1][i]);
                none |= isnan(read[1][i]);
            }
        }
        __syncthreads();
    }
    for (unsigned i = threadIdx.x; i < shards; i += 256)
        if (i != shard) extras[3 + i] = extras[3 + shards + i] = 0.0f;
    for (unsigned row = threadIdx.x; row < batch; row += 256)
        extras[3 + 2 * shards + row] = row >= first && row - first < rows ? costs[3 * rows + row - first] : 0.0f;
    if (threadIdx.x == 0) {
        extras[0] = (float)rows;
        extras[3 + shard] = (float)loss;
    } else if (threadIdx.x == 32) {
        extras[1] = (float)q;
    } else if (threadIdx.x == 64) {
        extras[2] = (float)delta;
    } else if (threadIdx.x == 96) {
        extras[3 + shards + shard] = none ? nanf("") : largest;
    }
}
