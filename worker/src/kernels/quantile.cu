// What IQN adds, in the host's order of operations: cosines and loss as kernels/quantile.rs, products as
// kernels/product.rs. Means and losses have the host's bits; the conservative penalty, which takes exponentials, not.

// cos(pi i tau) for i = first, first + 1, ...; a thread for each level.
extern "C" __global__ void cosines(const float *levels, float *out, u64 count, u64 width, u64 first) {
    u64 level = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (level >= count) return;
    double half = 0.5 * (double)levels[level];
    double twice = 2.0 * exact_cos_turns(half);
    double start = half * (double)first, before = half * ((double)first - 1.0);
    double now = exact_cos_turns(start - floor(start));
    before = exact_cos_turns(before - floor(before));
    for (u64 i = 0; i < width; i++) {
        out[level * width + i] = (float)now;
        double next = twice * now - before;
        before = now, now = next;
    }
}

// Features, [rows][width], times embeddings, [rows][samples][width] or, if they are shared, [samples][width].
extern "C" __global__ void times(const float *features, const float *embeddings, float *out, u64 rows, u64 samples,
                                 u64 width, u64 shared) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * samples * width) return;
    u64 at = i % width, sample = i / width, row = sample / samples;
    u64 from = shared ? sample % samples : sample;
    out[i] = features[row * width + at] * embeddings[from * width + at];
}

// The gradients by features, added to what is there if so asked, and by embeddings, each row's own.
extern "C" __global__ void times_backward(const float *gradient, const float *features, const float *embeddings,
                                          float *by_features, float *by_embeddings, u64 rows, u64 samples, u64 width,
                                          u64 add) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * width) return;
    u64 row = i / width, at = i % width;
    float feature = features[i], sum = add ? by_features[i] : 0.0f;
    for (u64 sample = 0; sample < samples; sample++) {
        u64 j = (row * samples + sample) * width + at;
        float g = gradient[j];
        sum += g * embeddings[j];
        by_embeddings[j] = g * feature;
    }
    by_features[i] = sum;
}

// The mean over `levels` of one action's values, [levels][actions].
__device__ float mean_level(const float *values, u32 action, u32 actions, u32 levels) {
    float sum = 0.0f;
    for (u32 i = 0; i < levels; i++) sum += values[i * actions + action];
    return sum * (1.0f / (float)levels);
}

// As `q_loss`, for quantiles: outputs are [rows][levels][actions], with `samples` levels now, `targets` next and `choices`
// to choose by; levels: those of now, [rows][samples]. One row for each block of 64 threads. Shared: targets + 3 samples
// + 2 actions floats.
extern "C" __global__ void quantile_loss(const float *now, const float *choice, const float *next, const float *levels,
                                         const float *meta, float *gradient, float *costs, u32 actions, u32 samples,
                                         u32 targets, u32 choices, float kappa, float conservative) {
    extern __shared__ float room[];
    float *target = room, *parts = target + targets, *slopes = parts + samples, *theta = slopes + samples;
    float *q_choice = theta + samples, *q_now = q_choice + actions;
    u32 row = blockIdx.x, rows = gridDim.x, t = threadIdx.x;
    float reward = meta[row], discount = meta[rows + row], weight = meta[2 * rows + row];
    u32 action = (u32)meta[3 * rows + row];
    now += (u64)row * samples * actions, gradient += (u64)row * samples * actions;
    choice += (u64)row * choices * actions, next += (u64)row * targets * actions, levels += (u64)row * samples;

    for (u32 a = t; a < actions; a += blockDim.x) {
        q_choice[a] = mean_level(choice, a, actions, choices);
        q_now[a] = mean_level(now, a, actions, samples);
    }
    for (u32 i = t; i < samples * actions; i += blockDim.x) gradient[i] = 0.0f;
    __syncthreads();
    u32 best = 0;
    for (u32 a = 1; a < actions; a++)
        if (q_choice[a] > q_choice[best]) best = a;
    for (u32 j = t; j < targets; j += blockDim.x) target[j] = reward + discount * next[j * actions + best];
    for (u32 i = t; i < samples; i += blockDim.x) theta[i] = now[i * actions + action];
    __syncthreads();
    float share = 1.0f / (float)targets;
    for (u32 i = t; i < samples; i += blockDim.x) {
        float sum = 0.0f, slope = 0.0f;
        for (u32 j = 0; j < targets; j++) {
            float delta = target[j] - theta[i];
            float tau = delta < 0.0f ? 1.0f - levels[i] : levels[i];
            float size = fabsf(delta);
            float cost = size <= kappa ? 0.5f * delta * delta : kappa * (size - 0.5f * kappa);
            sum += tau * cost;
            slope += tau * fminf(fmaxf(delta, -kappa), kappa);
        }
        parts[i] = sum * share / kappa;
        slopes[i] = 0.0f - weight * slope * share / kappa;
        gradient[i * actions + action] = slopes[i];
    }
    __syncthreads();
    if (conservative != 0.0f) {
        float top = q_now[0], sum = 0.0f;
        for (u32 a = 1; a < actions; a++) top = fmaxf(top, q_now[a]);
        for (u32 a = 0; a < actions; a++) sum += expf(q_now[a] - top);
        float even = 1.0f / (float)samples, scale = weight * conservative;
        for (u32 i = t; i < samples * actions; i += blockDim.x) {
            u32 a = i % actions;
            float slope = (expf(q_now[a] - top) / sum - (a == action ? 1.0f : 0.0f)) * scale;
            gradient[i] += slope * even;
        }
        if (t == 0) q_choice[0] = top + logf(sum) - q_now[action];
    }
    __syncthreads();
    if (t != 0) return;
    float loss = 0.0f, q = 0.0f, mean = 0.0f;
    for (u32 i = 0; i < samples; i++) loss += parts[i], q += theta[i];
    for (u32 j = 0; j < targets; j++) mean += target[j];
    q /= (float)samples;
    float priority = loss;
    if (conservative != 0.0f) loss += conservative * q_choice[0];
    if (!isfinite(loss)) gradient[action] = loss - loss;
    costs[row] = weight * loss;
    costs[rows + row] = q;
    costs[2 * rows + row] = mean / (float)targets - q;
    costs[3 * rows + row] = priority;
}
