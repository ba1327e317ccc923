/* SPDX-License-Identifier: 0BSD */
/*
 * What kernels with Helium (MVE, the vector extension of Armv8.1-M) share, each function with a definition in C for
 * other processors, on which the same kernels are correct but slow. Their loops in assembly have such definitions, too.
 *
 * Vectors of bytes are loaded and stored at any address, others at multiples of 4. Loops in assembly are those for
 * which GCC 12 needs more instructions; their loads are predicated, so that they read exactly `count` bytes.
 */
#ifndef EDGETOOL_HELIUM_H
#define EDGETOOL_HELIUM_H

#include "edgetool_native.h"

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
#if (__ARM_FEATURE_MVE & 1) != 0
#define EDGETOOL_HELIUM 1
#endif
#endif

#if defined(__GNUC__)
#define EDGETOOL_NOINLINE __attribute__((noinline))
#else
#define EDGETOOL_NOINLINE
#endif

#if defined(EDGETOOL_HELIUM)

#include <arm_mve.h>

typedef int8x16_t edgetool_s8x16;
typedef int32x4_t edgetool_s32x4;

static inline edgetool_s32x4 edgetool_all_s32(int32_t value)
{
    return vdupq_n_s32(value);
}

static inline edgetool_s8x16 edgetool_all_s8(int8_t value)
{
    return vdupq_n_s8(value);
}

static inline void edgetool_store_s8(int8_t *to, edgetool_s8x16 a)
{
    vstrbq_s8(to, a);
}

/* Stores the first `count` bytes. */
static inline void edgetool_store_first_s8(int8_t *to, edgetool_s8x16 a, uint32_t count)
{
    vstrbq_p_s8(to, a, vctp8q(count));
}

/* `sum` and the products of `count` > 0 codes and weights. */
static inline int32_t edgetool_dot_1x1(int32_t sum, const int8_t *pixel, const int8_t *weights, uint32_t count)
{
    __asm__("dlstp.8 lr, %[count]\n"
            "1:\n\t"
            "vldrb.8 q0, [%[pixel]], #16\n\t"
            "vldrb.8 q1, [%[weights]], #16\n\t"
            "vmladava.s8 %[sum], q0, q1\n\t"
            "letp lr, 1b"
            : [sum] "+Te"(sum), [pixel] "+r"(pixel), [weights] "+r"(weights)
            : [count] "r"(count)
            : "lr", "q0", "q1", "memory");
    return sum;
}

/* The sum of `count` > 0 codes. */
static inline int32_t edgetool_sum_s8(const int8_t *codes, uint32_t count)
{
    int32_t sum = 0;
    __asm__("dlstp.8 lr, %[count]\n"
            "1:\n\t"
            "vldrb.8 q0, [%[codes]], #16\n\t"
            "vaddva.s8 %[sum], q0\n\t"
            "letp lr, 1b"
            : [sum] "+Te"(sum), [codes] "+r"(codes)
            : [count] "r"(count)
            : "lr", "q0", "memory");
    return sum;
}

/* Copies `count` > 0 bytes; returns the end of the copy. */
static inline int8_t *edgetool_copy_s8(int8_t *to, const int8_t *from, uint32_t count)
{
    int8_t *at = to;
    __asm__ volatile("dlstp.8 lr, %[count]\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%[from]], #16\n\t"
                     "vstrb.8 q0, [%[at]], #16\n\t"
                     "letp lr, 1b"
                     : [at] "+r"(at), [from] "+r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "memory");
    return to + count;
}

/* Clamps `count` > 0 codes. */
static inline void edgetool_clamp_s8(int8_t *codes, uint32_t count, int8_t low, int8_t high)
{
    if (low != INT8_MIN || high != INT8_MAX) {
        __asm__ volatile("vdup.8 q1, %[low]\n\t"
                         "vdup.8 q2, %[high]\n\t"
                         "dlstp.8 lr, %[count]\n"
                         "1:\n\t"
                         "vldrb.8 q0, [%[codes]]\n\t"
                         "vmax.s8 q0, q0, q1\n\t"
                         "vmin.s8 q0, q0, q2\n\t"
                         "vstrb.8 q0, [%[codes]], #16\n\t"
                         "letp lr, 1b"
                         : [codes] "+r"(codes)
                         : [count] "r"(count), [low] "r"(low), [high] "r"(high)
                         : "lr", "q0", "q1", "q2", "memory");
    }
}

static inline edgetool_s8x16 edgetool_min_s8(edgetool_s8x16 a, edgetool_s8x16 b)
{
    return vminq_s8(a, b);
}

/* The largest codes of `largest` and of `count` > 0 vectors, `step` apart, of which only `lanes` lanes are read. */
static inline edgetool_s8x16 edgetool_largest_lanes(edgetool_s8x16 largest, const int8_t *codes, size_t step,
                                                    uint32_t count, uint32_t lanes)
{
    __asm__("vctp.8 %[lanes]\n\t"
            "dls lr, %[count]\n"
            "1:\n\t"
            "vpst\n\t"
            "vldrbt.8 q0, [%[codes]]\n\t"
            "add %[codes], %[codes], %[step]\n\t"
            "vmax.s8 %q[largest], %q[largest], q0\n\t"
            "le lr, 1b"
            : [largest] "+w"(largest), [codes] "+r"(codes)
            : [count] "r"(count), [step] "r"(step), [lanes] "r"(lanes)
            : "lr", "p0", "q0", "memory");
    return largest;
}

#else /* EDGETOOL_HELIUM */

typedef struct {
    int8_t lane[16];
} edgetool_s8x16;

typedef struct {
    int32_t lane[4];
} edgetool_s32x4;

static inline edgetool_s32x4 edgetool_all_s32(int32_t value)
{
    edgetool_s32x4 a;
    for (int i = 0; i < 4; i++) {
        a.lane[i] = value;
    }
    return a;
}

static inline edgetool_s8x16 edgetool_all_s8(int8_t value)
{
    edgetool_s8x16 a;
    memset(a.lane, (int)(uint8_t)value, sizeof a.lane);
    return a;
}

static inline void edgetool_store_first_s8(int8_t *to, edgetool_s8x16 a, uint32_t count)
{
    memcpy(to, a.lane, count < 16 ? count : 16);
}

static inline void edgetool_store_s8(int8_t *to, edgetool_s8x16 a)
{
    edgetool_store_first_s8(to, a, 16);
}

static inline int32_t edgetool_dot_1x1(int32_t sum, const int8_t *pixel, const int8_t *weights, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sum += pixel[i] * weights[i];
    }
    return sum;
}

static inline int32_t edgetool_sum_s8(const int8_t *codes, uint32_t count)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += codes[i];
    }
    return sum;
}

static inline int8_t *edgetool_copy_s8(int8_t *to, const int8_t *from, uint32_t count)
{
    memcpy(to, from, count);
    return to + count;
}

static inline void edgetool_clamp_s8(int8_t *codes, uint32_t count, int8_t low, int8_t high)
{
    for (const int8_t *end = codes + count; codes != end; codes++) {
        *codes = (int8_t)edgetool_clamp(*codes, low, high);
    }
}

static inline edgetool_s8x16 edgetool_min_s8(edgetool_s8x16 a, edgetool_s8x16 b)
{
    for (int i = 0; i < 16; i++) {
        a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    }
    return a;
}

static inline edgetool_s8x16 edgetool_largest_lanes(edgetool_s8x16 largest, const int8_t *codes, size_t step,
                                                    uint32_t count, uint32_t lanes)
{
    for (; count != 0; count--) {
        for (uint32_t i = 0; i < 16 && i < lanes; i++) {
            largest.lane[i] = codes[i] > largest.lane[i] ? codes[i] : largest.lane[i];
        }
        codes += step;
    }
    return largest;
}

#endif /* EDGETOOL_HELIUM */

/* Fills `count` > 0 bytes; returns their end. */
static inline int8_t *edgetool_fill_s8(int8_t *to, int8_t value, uint32_t count)
{
    const edgetool_s8x16 values = edgetool_all_s8(value);
    for (uint32_t i = 0; i < count; i += 16) {
        edgetool_store_first_s8(to + i, values, count - i);
    }
    return to + count;
}

#endif /* EDGETOOL_HELIUM_H */
