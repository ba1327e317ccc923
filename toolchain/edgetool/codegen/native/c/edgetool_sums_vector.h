/* SPDX-License-Identifier: 0BSD */
/*
 * Sums of the codes in a part of some rows on processors with Helium, and outputs of them: what edgetool_sums.h has for
 * other processors. Eight sums are computed at once.
 */
#ifndef EDGETOOL_SUMS_VECTOR_H
#define EDGETOOL_SUMS_VECTOR_H

#include "edgetool_helium.h"

#define EDGETOOL_SUM_LANES 8U
/* The most codes whose sum fits 16 bits. */
#define EDGETOOL_SUM_CODES 256U

/* The sums of eight codes next to each other: those of codes 0, 2, 4 and 6, and those of the others. */
typedef struct {
    edgetool_s32x4 even;
    edgetool_s32x4 odd;
} edgetool_sums;

#if defined(EDGETOOL_HELIUM)

/* Adds up to EDGETOOL_SUM_CODES vectors, `step` apart, of which only `lanes` lanes are read. */
static inline edgetool_sums edgetool_add_lanes(edgetool_sums sums, const int8_t *codes, size_t step, uint32_t count,
                                               uint32_t lanes)
{
    __asm__("vctp.16 %[lanes]\n\t"
            "vmov.i32 q1, #0\n\t"
            "dls lr, %[count]\n"
            "1:\n\t"
            "vpst\n\t"
            "vldrbt.s16 q0, [%[codes]]\n\t"
            "add %[codes], %[codes], %[step]\n\t"
            "vadd.i16 q1, q1, q0\n\t"
            "le lr, 1b\n\t"
            "vmovlb.s16 q0, q1\n\t"
            "vmovlt.s16 q1, q1\n\t"
            "vadd.i32 %q[even], %q[even], q0\n\t"
            "vadd.i32 %q[odd], %q[odd], q1"
            : [even] "+w"(sums.even), [odd] "+w"(sums.odd), [codes] "+l"(codes)
            : [count] "r"(count), [step] "r"(step), [lanes] "r"(lanes)
            : "lr", "p0", "q0", "q1", "memory");
    return sums;
}

/* Stores the first `count` codes of results, each plus the zero point and then clamped to low .. high. */
static inline void edgetool_store_codes(int8_t *to, edgetool_sums results, int32_t zero_point, int32_t low,
                                        int32_t high, uint32_t count)
{
    int16x8_t codes = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), results.even), results.odd);
    codes = vqaddq_n_s16(codes, (int16_t)zero_point);
    codes = vminq_s16(vmaxq_s16(codes, vdupq_n_s16((int16_t)low)), vdupq_n_s16((int16_t)high));
    vstrbq_p_s16(to, codes, vctp16q(count));
}

#else

static inline edgetool_sums edgetool_add_lanes(edgetool_sums sums, const int8_t *codes, size_t step, uint32_t count,
                                               uint32_t lanes)
{
    for (; count != 0; count--) {
        for (uint32_t i = 0; i < EDGETOOL_SUM_LANES && i < lanes; i++) {
            ((i & 1U) == 0 ? &sums.even : &sums.odd)->lane[i / 2] += codes[i];
        }
        codes += step;
    }
    return sums;
}

static inline void edgetool_store_codes(int8_t *to, edgetool_sums results, int32_t zero_point, int32_t low,
                                        int32_t high, uint32_t count)
{
    for (uint32_t i = 0; i < EDGETOOL_SUM_LANES && i < count; i++) {
        const int32_t result = ((i & 1U) == 0 ? results.even : results.odd).lane[i / 2];
        to[i] = (int8_t)edgetool_clamp(edgetool_clamp(result, INT16_MIN, INT16_MAX) + zero_point, low, high);
    }
}

#endif

/* Adds `count` vectors of codes of each row from `start` on, `step` apart, of which only `lanes` lanes are read. */
static inline edgetool_sums edgetool_add_part(edgetool_sums sums, const void *const *rows, const void *const *end,
                                              size_t start, uint32_t count, size_t step, uint32_t lanes)
{
    for (; rows != end; rows++) {
        const int8_t *codes = (const int8_t *)*rows + start;
        for (uint32_t left = count; left != 0;) {
            const uint32_t part = left < EDGETOOL_SUM_CODES ? left : EDGETOOL_SUM_CODES;
            sums = edgetool_add_lanes(sums, codes, step, part, lanes);
            codes += part * step;
            left -= part;
        }
    }
    return sums;
}

#endif /* EDGETOOL_SUMS_VECTOR_H */
