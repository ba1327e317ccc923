/* SPDX-License-Identifier: 0BSD */
/* Sums of the codes in a part of some rows, for pooling and reductions: `count` codes of each row, `step` apart. */
#ifndef EDGETOOL_SUMS_H
#define EDGETOOL_SUMS_H

#include "edgetool_dsp.h"

/* The most codes whose sum fits 16 bits. */
#define EDGETOOL_MAX_PAIRS 256U

/* The sum of the codes from `start` on. */
static inline int32_t edgetool_sum_of_part(const void *const *rows, uint32_t taps, size_t start, uint32_t count,
                                           size_t step)
{
    int32_t sum = 0;
    for (const void *const *end = rows + taps; rows != end; rows++) {
        const int8_t *codes = (const int8_t *)*rows + start;
        for (uint32_t i = count; i != 0; i--) {
            sum += *codes;
            codes += step;
        }
    }
    return sum;
}

#if defined(EDGETOOL_DSP)

/*
 * The sums of four codes next to each other, at most EDGETOOL_MAX_PAIRS of each, which are all at multiples of 4: of
 * codes 0 and 2 in the lower word, of 1 and 3 in the upper one.
 */
static EDGETOOL_NOINLINE uint64_t edgetool_pairs_of_part(const void *const *rows, uint32_t taps, size_t start,
                                                         uint32_t count, size_t step)
{
    uint32_t even = 0, odd = 0;
    for (const void *const *end = rows + taps; rows != end; rows++) {
        const int8_t *codes = (const int8_t *)*rows + start;
        for (uint32_t i = count; i != 0; i--) {
            const uint32_t word = edgetool_load_word(codes);
            even = edgetool_sxtab16(even, word);
            odd = edgetool_sxtab16_odd(odd, word);
            codes += step;
        }
    }
    return (uint64_t)odd << 32 | even;
}

#endif

/* The sums of four codes next to each other. */
static EDGETOOL_NOINLINE void edgetool_sums_of_part(const void *const *rows, uint32_t taps, size_t start,
                                                    uint32_t count, size_t step, int32_t *sums)
{
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (const void *const *end = rows + taps; rows != end; rows++) {
        const int8_t *codes = (const int8_t *)*rows + start;
        for (uint32_t i = count; i != 0; i--) {
            sum0 += codes[0];
            sum1 += codes[1];
            sum2 += codes[2];
            sum3 += codes[3];
            codes += step;
        }
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* The same; `words` is the result of edgetool_part_has_words. */
static inline void edgetool_sums_of_four(const void *const *rows, uint32_t taps, size_t start, uint32_t count,
                                         size_t step, int words, int32_t *sums)
{
#if defined(EDGETOOL_DSP)
    if (words) {
        const uint64_t pairs = edgetool_pairs_of_part(rows, taps, start, count, step);
        sums[0] = (int16_t)pairs;
        sums[1] = (int16_t)(pairs >> 32);
        sums[2] = (int32_t)(uint32_t)pairs >> 16;
        sums[3] = (int32_t)(pairs >> 32) >> 16;
        return;
    }
#else
    (void)words;
#endif
    edgetool_sums_of_part(rows, taps, start, count, step, sums);
}

/* Whether edgetool_pairs_of_part can compute sums that start at multiples of 4. */
static inline int edgetool_part_has_words(const void *const *rows, uint32_t taps, uint32_t count, size_t step)
{
    int fits = taps * count <= EDGETOOL_MAX_PAIRS && (step & 3U) == 0;
    for (uint32_t tap = 0; tap < taps; tap++) {
        fits = fits && edgetool_is_aligned(rows[tap]);
    }
    return fits;
}

#endif /* EDGETOOL_SUMS_H */
