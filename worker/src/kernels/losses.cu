// What a row of a batch costs, and the slope of that by the network's outputs: the device's form of trainers/heads.rs for
// plain and categorical values, a warp for each row.

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

// Softmax of n logits into p, which the warp shares; gives log sum exp.
__device__ float softmax(const float *logits, float *p, unsigned n, unsigned lane) {
    float top = logits[0];
    for (unsigned j = lane; j < n; j += 32) top = fmaxf(top, logits[j]);
    top = warp_max(top);
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

// Q of one action: its output, or the mean of its distribution, whose probabilities are left in p.
__device__ float value_of(const float *outputs, float *p, float low, float gap, unsigned atoms, unsigned lane) {
    if (atoms == 1) return outputs[0];
    softmax(outputs, p, atoms, lane);
    return mean_atom(p, low, gap, atoms, lane);
}

// One row for each block of 32 threads. now, choice, next: [rows][actions][atoms], outputs for S, for S' by which a* is
// chosen, and for S' of the target network. meta: rewards, discounts, weights and actions (as numbers), [4][rows].
// Leaves slopes in gradient (none that is a number where a loss is no finite one), and for each row loss, Q, delta and priority, [4][rows]. Shared: 5 atoms floats.
extern "C" __global__ void q_loss(const float *now, const float *choice, const float *next, const float *meta,
                                  float *gradient, float *costs, unsigned actions, unsigned atoms, float low,
                                  float high, float conservative) {
    extern __shared__ float room[];
    float *p = room, *target = p + atoms, *lower = target + atoms, *upper = lower + atoms;
    unsigned *place = (unsigned *)(upper + atoms);
    unsigned row = blockIdx.x, rows = gridDim.x, lane = threadIdx.x;
    unsigned width = actions * atoms;
    float gap = atoms > 1 ? (high - low) / (float)(atoms - 1) : 0.0f;
    float reward = meta[row], discount = meta[rows + row], weight = meta[2 * rows + row];
    unsigned action = (unsigned)meta[3 * rows + row];
    now += (u64)row * width, choice += (u64)row * width, next += (u64)row * width, gradient += (u64)row * width;
    for (unsigned j = lane; j < width; j += 32) gradient[j] = 0.0f;
    __syncwarp();

    unsigned best = 0;
    float largest = 0.0f;
    for (unsigned a = 0; a < actions; a++) {
        float q = value_of(choice + a * atoms, p, low, gap, atoms, lane);
        if (a == 0 || q > largest) best = a, largest = q;
        __syncwarp();
    }

    float loss, priority, delta, q;
    if (atoms == 1) {
        q = now[action];
        delta = reward + discount * next[best] - q;
        float size = fabsf(delta);
        loss = size < 1.0f ? 0.5f * delta * delta : size - 0.5f;
        float slope = size < 1.0f ? delta : delta > 0.0f ? 1.0f : delta < 0.0f ? -1.0f : delta;
        if (lane == 0) gradient[action] = -weight * slope;
        priority = size;
    } else {
        softmax(next + best * atoms, p, atoms, lane);
        float last = (float)(atoms - 1);
        for (unsigned j = lane; j < atoms; j += 32) {
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
        __syncwarp();
        // each atom looks for what falls on it, in order
        for (unsigned i = lane; i < atoms; i += 32) {
            float sum = 0.0f;
            for (unsigned j = 0; j < atoms; j++) {
                unsigned at = place[j], above = at + 1 < atoms ? at + 1 : atoms - 1;
                if (at == i) sum += lower[j];
                if (above == i) sum += upper[j];
            }
            if (i == 0 && !isfinite(reward)) sum = reward - reward;
            target[i] = sum;
        }
        __syncwarp();
        const float *logits = now + action * atoms;
        float level = softmax(logits, p, atoms, lane);
        float mass = 0.0f, cost = 0.0f;
        for (unsigned j = lane; j < atoms; j += 32) {
            mass += target[j];
            cost += target[j] * (level - logits[j]);
        }
        mass = warp_sum(mass);
        loss = warp_sum(cost);
        for (unsigned j = lane; j < atoms; j += 32) gradient[action * atoms + j] = weight * (p[j] * mass - target[j]);
        q = mean_atom(p, low, gap, atoms, lane);
        delta = mean_atom(target, low, gap, atoms, lane) - q;
        priority = loss;
    }
    __syncwarp();

    if (conservative != 0.0f) { // log sum exp of Q(s, .) less Q(s, a), and its slope
        float top = -INFINITY, sum = 0.0f;
        for (unsigned a = 0; a < actions; a++)
            top = fmaxf(top, value_of(now + a * atoms, p, low, gap, atoms, lane));
        for (unsigned a = 0; a < actions; a++)
            sum += expf(value_of(now + a * atoms, p, low, gap, atoms, lane) - top);
        for (unsigned a = 0; a < actions; a++) {
            float of = value_of(now + a * atoms, p, low, gap, atoms, lane);
            float slope = weight * conservative * (expf(of - top) / sum - (a == action ? 1.0f : 0.0f));
            float *g = gradient + a * atoms;
            if (atoms == 1) {
                if (lane == 0) g[0] += slope;
            } else {
                for (unsigned j = lane; j < atoms; j += 32) g[j] += slope * p[j] * (low + gap * (float)j - of);
            }
            __syncwarp();
        }
        loss += conservative * (top + logf(sum) - q);
    }

    if (lane == 0) {
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
