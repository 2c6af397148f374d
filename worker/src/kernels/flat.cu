// Kernels over flat f32 buffers. Compiled by NVRTC without fused multiply-add, so that each operation rounds as it does
// on the host: the element-wise kernels and the norm give the bits of the host forms in flat.rs and optimizer/.

#define FOR_EACH(i, n) \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (u64)gridDim.x * blockDim.x)

// x <- x factor
extern "C" __global__ void scale(float *x, u64 n, float factor) {
    FOR_EACH(i, n) x[i] *= factor;
}

// to <- to + from
extern "C" __global__ void add(float *to, const float *from, u64 n) {
    FOR_EACH(i, n) to[i] += from[i];
}

// Pairwise sum of one value per thread, in thread order; the result is in thread 0. 256 threads.
__device__ double block_sum(double value) {
    __shared__ double sums[256];
    sums[threadIdx.x] = value;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    return sums[0];
}

// First half of the norm: 128 blocks of 256 threads, whatever the device; thread t sums every 32768th square from t on.
extern "C" __global__ void norm_parts(const float *x, u64 n, double *parts) {
    double sum = 0;
    FOR_EACH(i, n) {
        double value = x[i];
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// `mean` and `norm_parts` in one: x <- x / *rows, and the parts of the norm of that.
extern "C" __global__ void mean_norm_parts(float *x, u64 n, const float *rows, double *parts) {
    float factor = *rows > 0.0f ? (float)(1.0 / (double)*rows) : 1.0f;
    double sum = 0;
    FOR_EACH(i, n) {
        float mean = x[i] * factor;
        x[i] = mean;
        sum += (double)mean * (double)mean;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// Second half: one block of 256 threads over the 128 parts. Writes the norm to result[0] and, to result[1], what the
// gradient is multiplied by so that its norm is at most about max_norm (torch's definition; 0 stands for no clip).
__device__ void finish_norm(const double *parts, double max_norm, double *result) {
    double sum = block_sum(threadIdx.x < 128 ? parts[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) {
        double norm = sqrt(sum);
        double factor = max_norm / (norm + 1e-6);
        result[0] = norm;
        // written so that a norm that is no number gives a factor that is none, and is seen
        result[1] = max_norm == 0.0 || factor > 1.0 ? 1.0 : factor;
    }
}

extern "C" __global__ void norm_finish(const double *parts, double max_norm, double *result) {
    finish_norm(parts, max_norm, result);
}

// p <- keep p + take q
extern "C" __global__ void follow(float *p, const float *q, u64 n, float keep, float take) {
    FOR_EACH(i, n) p[i] = keep * p[i] + take * q[i];
}

// What rides behind a flat gradient: the rows of this rank, and the sum of the loss over them.
extern "C" __global__ void set_extras(float *at, float rows, const float *loss) {
    if (threadIdx.x == 0) {
        at[0] = rows;
        at[1] = *loss;
    }
}

// x <- x / *rows, rounded as the host's `scale(1 / rows)`; zeros stay where nobody had rows.
extern "C" __global__ void mean(float *x, u64 n, const float *rows) {
    if (*rows <= 0.0f) return;
    float factor = (float)(1.0 / (double)*rows);
    FOR_EACH(i, n) x[i] *= factor;
}

// beta^n by squaring, in the order of compiler-rt's __powidf2, which is what f64::powi calls.
__device__ double power(double beta, int n) {
    double result = 1.0;
    for (;;) {
        if (n & 1) result *= beta;
        n /= 2;
        if (n == 0) return result;
        beta *= beta;
    }
}

// Counts one AdamW step and computes its factors from (learning rate, beta1, beta2, eps, weight decay), as Rates::at in
// optimizer/adamw.rs does. One thread. Both live on the device, so that a captured step counts when it is replayed.
__device__ void count_step(u64 *steps, const double *settings, float *factors) {
    u64 step = ++*steps;
    int n = step > 2147483647ull ? 2147483647 : (int)step;
    double rate = settings[0], beta1 = settings[1], beta2 = settings[2];
    factors[0] = (float)(1.0 - rate * settings[4]);
    factors[1] = (float)beta1;
    factors[2] = (float)(1.0 - beta1);
    factors[3] = (float)beta2;
    factors[4] = (float)(1.0 - beta2);
    factors[5] = (float)(rate / (1.0 - power(beta1, n)));
    factors[6] = (float)sqrt(1.0 - power(beta2, n));
    factors[7] = (float)settings[3];
}

extern "C" __global__ void adamw_rates(u64 *steps, const double *settings, float *factors) {
    count_step(steps, settings, factors);
}

// `norm_finish` and `adamw_rates` in one block of 256 threads. Once *halted, no step is counted, and the norm is none, so
// that `adamw` takes none.
extern "C" __global__ void finish_and_count(const double *parts, double max_norm, double *result, u64 *steps,
                                            const double *settings, float *factors, const u64 *halted) {
    if (halted && *halted) {
        if (threadIdx.x == 0) result[0] = result[1] = nan("");
        return;
    }
    if (threadIdx.x == 32) count_step(steps, settings, factors);
    finish_norm(parts, max_norm, result);
}

// One AdamW step of all variables; the formula is that of optimizer/adamw.rs. places: the address of each of `count`
// variables, then where each starts in the flat gradient, then the gradient's length. clip[1] is the factor that
// norm_finish left.
extern "C" __global__ void adamw(const u64 *places, unsigned count, const float *g, float *m, float *v,
                                 const double *clip, const float *factors) {
    const u64 *starts = places + count;
    if (!isfinite(clip[0])) return; // not a step: what made it can still be looked at
    float factor = (float)clip[1];
    float decay = factors[0], beta1 = factors[1], one_minus_beta1 = factors[2], beta2 = factors[3];
    float one_minus_beta2 = factors[4], rate = factors[5], root_scale = factors[6], eps = factors[7];
    FOR_EACH(i, starts[count]) {
        // the last variable that starts at or before i: of several that do, all but the last are empty
        unsigned low = 0, high = count;
        while (high - low > 1) {
            unsigned middle = (low + high) / 2;
            if (starts[middle] <= i) low = middle;
            else high = middle;
        }
        float *p = (float *)places[low] + (i - starts[low]);
        float gradient = g[i] * factor;
        float first = beta1 * m[i] + one_minus_beta1 * gradient;
        float second = beta2 * v[i] + one_minus_beta2 * (gradient * gradient);
        m[i] = first;
        v[i] = second;
        *p = *p * decay - rate * first / (sqrtf(second) / root_scale + eps);
    }
}
