// Functions that give the host's bits: kernels/exact.rs in the same operations and the same order, without contraction.
// And the host's random streams (seed.rs): ChaCha with eight rounds, keyed by purpose, numbered by two counters.

typedef unsigned long long u64;
typedef unsigned u32;

__device__ double two_to(long long n) { return __longlong_as_double((n + 1023) << 52); }

__device__ double exact_ln(double x) {
    if (isnan(x) || x < 0.0) return __longlong_as_double(0x7ff8000000000000ll);
    if (x == 0.0) return __longlong_as_double(0xfff0000000000000ll);
    if (isinf(x)) return x;
    long long shift = 0;
    if (x < 2.2250738585072014e-308) x *= two_to(54), shift = 54;
    u64 bits = (u64)__double_as_longlong(x) + ((u64)(0x3ff00000 - 0x3fe6a09e) << 32);
    double k = (double)((long long)(bits >> 52) - 1023 - shift);
    double m = __longlong_as_double((long long)((bits & 0x000fffffffffffffull) + (0x3fe6a09eull << 32)));
    double f = m - 1.0;
    double half = 0.5 * f * f;
    double s = f / (2.0 + f);
    double z = s * s;
    double w = z * z;
    double even = w * (3.999999999940942e-1 + w * (2.2222198432149784e-1 + w * 1.5313837699209373e-1));
    double odd = z * (6.666666666666735e-1 +
                      w * (2.857142874366239e-1 + w * (1.818357216161805e-1 + w * 1.4798198605116586e-1)));
    return s * (half + (odd + even)) + k * 1.9082149292705877e-10 - half + f + k * 6.931471803691238e-1;
}

__device__ double exact_exp_inner(double x) {
    double k = floor(x * 1.4426950408889634 + 0.5);
    double high = x - k * 6.931471803691238e-1;
    double low = k * 1.9082149292705877e-10;
    double r = high - low;
    double z = r * r;
    double c = r - z * (1.6666666666666602e-1 +
                        z * (-2.7777777777015593e-3 +
                             z * (6.613756321437934e-5 + z * (-1.6533902205465252e-6 + z * 4.1381367970572385e-8))));
    return (1.0 + (r * c / (2.0 - c) - low + high)) * two_to((long long)k);
}

__device__ double exact_exp(double x) {
    if (isnan(x)) return x;
    if (x > 710.0) return __longlong_as_double(0x7ff0000000000000ll);
    if (x > 709.0) return exact_exp_inner(x - 1.0) * 2.718281828459045;
    if (x < -708.0) return 0.0;
    return exact_exp_inner(x);
}

__device__ double exact_power(double x, double a) {
    if (a == 0.0) return 1.0;
    if (a == 1.0) return x;
    if (a == 0.5) return sqrt(x);
    return exact_exp(a * exact_ln(x));
}

__device__ double exact_cos_turns(double turns) {
    double quarter = floor(4.0 * turns + 0.5);
    double x = (turns - 0.25 * quarter) * 6.283185307179586;
    double z = x * x;
    double c = 1.0 - 0.5 * z +
               z * z * (4.16666666666666e-2 +
                        z * (-1.388888888887411e-3 +
                             z * (2.480158728947673e-5 +
                                  z * (-2.7557314351390663e-7 +
                                       z * (2.087572321298175e-9 + z * -1.1359647557788195e-11)))));
    double s = x + x * z * (-1.6666666666666632e-1 +
                            z * (8.33333333332249e-3 +
                                 z * (-1.984126982985795e-4 +
                                      z * (2.7557313707070068e-6 +
                                           z * (-2.5050760253406863e-8 + z * 1.58969099521155e-10)))));
    long long q = (long long)quarter;
    return q == 1 ? -s : q == 2 ? -c : q == 3 ? s : c;
}

// A purpose of random streams: 32 bytes as words, little end first.
struct Key {
    u32 word[8];
};

__device__ void quarter_round(u32 &a, u32 &b, u32 &c, u32 &d) {
    a += b, d ^= a, d = d << 16 | d >> 16;
    c += d, b ^= c, b = b << 12 | b >> 20;
    a += b, d ^= a, d = d << 8 | d >> 24;
    c += d, b ^= c, b = b << 7 | b >> 25;
}

// Block `counter` of stream `stream`: sixteen words.
__device__ void chacha8(const Key &key, u64 stream, u64 counter, u32 *out) {
    u32 from[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
#pragma unroll
    for (int i = 0; i < 8; i++) from[4 + i] = key.word[i];
    from[12] = (u32)counter, from[13] = (u32)(counter >> 32), from[14] = (u32)stream, from[15] = (u32)(stream >> 32);
    u32 x[16];
#pragma unroll
    for (int i = 0; i < 16; i++) x[i] = from[i];
#pragma unroll
    for (int round = 0; round < 4; round++) {
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
    }
#pragma unroll
    for (int i = 0; i < 16; i++) out[i] = x[i] + from[i];
}

// Number `at` of 64 bits of draw (a, b) for `key`: that of seed.rs, where a draw has 2^20 words.
__device__ u64 drawn(const Key &key, u64 a, u64 b, u64 at) {
    u32 words[16];
    chacha8(key, a, (b << 16) + at / 8, words);
    u64 result = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i == (int)(at % 8)) result = (u64)words[2 * i + 1] << 32 | words[2 * i];
    return result;
}

__device__ double uniform_of(u64 bits) { return (double)(bits >> 11) * (1.0 / 9007199254740992.0); }

// As `normal` in seed.rs, of its two uniform numbers.
__device__ double normal_of(u64 first, u64 second) {
    double radius = sqrt(-2.0 * exact_ln(1.0 - uniform_of(first)));
    return radius * exact_cos_turns(uniform_of(second));
}
