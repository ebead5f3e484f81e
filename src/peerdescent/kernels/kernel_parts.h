/* The fixed parts of every fused kernel. The generator defines `real` (float or double) before this text. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* No two arrays overlap, so columns may be computed in any order; with many arrays a compiler cannot prove it. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* A vector register's worth of columns, at any address. */
typedef real pack __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));
#define PACK ((long)(sizeof(pack) / sizeof(real)))

typedef struct {
    const int32_t *start, *column; /* for each row its neighbours, in increasing order; rows received from other
                                      processes lie before and after the local ones: columns may be negative */
    const real *weight;
} matrix;

/* out[i] = sum over j of weight[i,j] (source[i] - source[j]), always in the order in which the row lists its entries. */
static void differences(const matrix *m, long n, const real *source, long stride, long columns, real *out, long width) {
    for (long i = 0; i < n; i++) {
        const real *own = source + i * stride;
        real *to = out + i * width;
        const int32_t begin = m->start[i], end = m->start[i + 1];
        long c = 0;
        for (; c + 4 * PACK <= columns; c += 4 * PACK) { /* four sums stay in registers */
            const pack *a = (const pack *)(own + c);
            const pack a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
            pack s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
            for (int32_t e = begin; e < end; e++) {
                const pack *b = (const pack *)(source + m->column[e] * stride + c);
                const real w = m->weight[e];
                s0 += w * (a0 - b[0]), s1 += w * (a1 - b[1]), s2 += w * (a2 - b[2]), s3 += w * (a3 - b[3]);
            }
            pack *sum = (pack *)(to + c);
            sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
        }
        for (; c < columns; c++) {
            real sum = 0;
            for (int32_t e = begin; e < end; e++) sum += m->weight[e] * (own[c] - source[m->column[e] * stride + c]);
            to[c] = sum;
        }
    }
}

/* out[0] = the mean of the rows that the only row of m lists, summed in that order. */
static void mean(const matrix *m, const real *source, long stride, long columns, real *restrict out) {
    const long count = m->start[1];
    for (long c = 0; c < columns; c++) out[c] = source[m->column[0] * stride + c];
    for (long j = 1; j < count; j++)
        for (long c = 0; c < columns; c++) out[c] += source[m->column[j] * stride + c];
    for (long c = 0; c < columns; c++) out[c] /= (real)count;
}

static inline double root_double(double a) { return copysign(sqrt(fabs(a)), a); }
static inline float root_float(float a) { return copysignf(sqrtf(fabsf(a)), a); }
static inline double sign_double(double a) { return a != a ? a : (double)((a > 0) - (a < 0)); }
static inline float sign_float(float a) { return a != a ? a : (float)((a > 0) - (a < 0)); }
static inline double power_double(double a, const double *t) { return copysign(pow(fabs(a), t[0]), a); }

static inline int32_t bits_of(float a) { int32_t b; memcpy(&b, &a, 4); return b; }
static inline float float_of(int32_t b) { float a; memcpy(&a, &b, 4); return a; }

/* a with the 8 significant bits of bfloat16, the nearest, ties to even; NaN stays NaN. */
static inline real rounded(real a) {
    const float f = (float)a;
    const uint32_t bits = (uint32_t)bits_of(f);
    const float near = float_of((int32_t)((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u));
    return f != f ? a : (real)near;
}

/* sign(a)|a|^gamma to a few units in the last place, in straight-line code that a compiler can vectorize:
   |a| = 2^e m with m in [1, 2); m^gamma is a polynomial made for this gamma; gamma e is split into a part whose
   product is exact, rounded to an integer, and a rest r with 2^r a polynomial. Entries below the smallest normal
   number count as zero; inputs that are not finite become NaN.
   t = {high part of gamma / 2^23, 127 times the high part, low part / 2^23, 127 times the low part,
        seven coefficients of m^gamma in powers of m - 1.5}. */
static inline float power_float(float a, const float *t) {
    const int32_t bits = bits_of(a), exponent_bits = bits & 0x7f800000;
    const float e = (float)exponent_bits; /* 2^23 (127 + exponent), exactly */
    const float f = float_of((bits & 0x007fffff) | 0x3f800000) - 1.5f;
    const float product = t[0] * e - t[1];
    const float shifted = product + 12583039.0f; /* 1.5 * 2^23 + 127: its low bits are an exponent again */
    const float r = (t[2] * e - t[3]) + (product - (shifted - 12583039.0f));
    const float scale = float_of((int32_t)((uint32_t)bits_of(shifted) << 23));
    const float ff = f * f, rr = r * r; /* short chains: the polynomials are summed as trees */
    const float q = ((t[4] + t[5] * f) + (t[6] + t[7] * f) * ff) + ((t[8] + t[9] * f) + t[10] * ff) * (ff * ff);
    const float s = ((1.0f + 6.9314718e-1f * r) + (2.4022348e-1f + 5.5503331e-2f * r) * rr)
                    + (9.6663730e-3f + 1.3400436e-3f * r) * (rr * rr);
    const float magnitude = exponent_bits ? (q * s) * scale : 0.0f;
    const float out = magnitude + (a - a);
    return float_of(bits_of(out) | (bits & (int32_t)0x80000000));
}
