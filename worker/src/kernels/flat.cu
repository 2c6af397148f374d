// Kernels over flat f32 buffers. Compiled by NVRTC without fused multiply-add, so that each operation rounds as it does
// on the host: the element-wise kernels and the norm give the bits of the host forms in flat.rs and optimizer/.

typedef unsigned long long u64;

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

// Second half: one block of 256 threads over the 128 parts. Writes the norm to result[0] and, to result[1], what the
// gradient is multiplied by so that its norm is at most about max_norm (torch's definition; 0 stands for no clip).
extern "C" __global__ void norm_finish(const double *parts, double max_norm, double *result) {
    double sum = block_sum(threadIdx.x < 128 ? parts[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) {
        double norm = sqrt(sum);
        double factor = max_norm / (norm + 1e-6);
        result[0] = norm;
        // written so that a norm that is no number gives a factor that is none, and is seen
        result[1] = max_norm == 0.0 || factor > 1.0 ? 1.0 : factor;
    }
}

// One AdamW step of one variable; the formula and the factors are those of optimizer/adamw.rs. clip[1] is the factor
// that norm_finish left.
extern "C" __global__ void adamw(float *p, const float *g, float *m, float *v, u64 n, const double *clip, float decay,
                                 float beta1, float one_minus_beta1, float beta2, float one_minus_beta2, float rate,
                                 float root_scale, float eps) {
    float factor = (float)clip[1];
    FOR_EACH(i, n) {
        float gradient = g[i] * factor;
        float first = beta1 * m[i] + one_minus_beta1 * gradient;
        float second = beta2 * v[i] + one_minus_beta2 * (gradient * gradient);
        m[i] = first;
        v[i] = second;
        p[i] = p[i] * decay - rate * first / (sqrtf(second) / root_scale + eps);
    }
}
