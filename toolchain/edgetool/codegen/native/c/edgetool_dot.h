/* SPDX-License-Identifier: 0BSD */
/*
 * Products of a row of codes with one or two rows of weights. Rows of weights are at multiples of 4, and with DSP
 * instructions the codes are, too.
 */
#ifndef EDGETOOL_DOT_H
#define EDGETOOL_DOT_H

#include "edgetool_dsp.h"

#if defined(EDGETOOL_DSP)

/* The sum of the products of codes with weights plus `minus`. */
static inline int32_t edgetool_dot(const uint8_t *weights, const int8_t *codes, uint32_t depth, int32_t minus)
{
    const uint8_t *from = (const uint8_t *)codes;
    const uint32_t both = edgetool_pack_low((uint32_t)minus, (uint32_t)minus);
    int32_t sum = 0;
#define EDGETOOL_ADD_WORD(at) \
    { \
        const uint32_t word = edgetool_load_word(from + (at)), weights4 = edgetool_load_word(weights + (at)); \
        sum = edgetool_smlad(edgetool_sxtab16(both, weights4), edgetool_sxtb16(word), sum); \
        sum = edgetool_smlad(edgetool_sxtab16_odd(both, weights4), edgetool_sxtb16_odd(word), sum); \
    }
    for (const uint8_t *end = from + (depth & ~7U); from != end; from += 8) {
        EDGETOOL_ADD_WORD(0)
        EDGETOOL_ADD_WORD(4)
        weights += 8;
    }
    if ((depth & 4U) != 0) {
        EDGETOOL_ADD_WORD(0)
        from += 4;
        weights += 4;
    }
#undef EDGETOOL_ADD_WORD
    for (uint32_t i = 0; i < (depth & 3U); i++) {
        sum = edgetool_plus(sum, ((int8_t)weights[i] + minus) * (int8_t)from[i]);
    }
    return sum;
}

/* The same for two rows of weights. */
static EDGETOOL_NOINLINE void edgetool_two_dots(const uint8_t *first, const uint8_t *second, const int8_t *codes,
                                                uint32_t depth, int32_t minus, int32_t *sums)
{
    const uint8_t *from = (const uint8_t *)codes;
    const uint32_t both = edgetool_pack_low((uint32_t)minus, (uint32_t)minus);
    int32_t sum0 = 0, sum1 = 0;
    for (const uint8_t *end = from + (depth & ~3U); from != end; from += 4) {
        const uint32_t word = edgetool_load_word(from), even = edgetool_sxtb16(word), odd = edgetool_sxtb16_odd(word);
        const uint32_t a = edgetool_load_word(first), b = edgetool_load_word(second);
        sum0 = edgetool_smlad(edgetool_sxtab16(both, a), even, sum0);
        sum1 = edgetool_smlad(edgetool_sxtab16(both, b), even, sum1);
        sum0 = edgetool_smlad(edgetool_sxtab16_odd(both, a), odd, sum0);
        sum1 = edgetool_smlad(edgetool_sxtab16_odd(both, b), odd, sum1);
        first += 4;
        second += 4;
    }
    for (uint32_t i = 0; i < (depth & 3U); i++) {
        sum0 = edgetool_plus(sum0, ((int8_t)first[i] + minus) * (int8_t)from[i]);
        sum1 = edgetool_plus(sum1, ((int8_t)second[i] + minus) * (int8_t)from[i]);
    }
    sums[0] = sum0;
    sums[1] = sum1;
}

#else

static inline int32_t edgetool_sum_of_codes(const int8_t *codes, uint32_t count)
{
    int32_t sum = 0;
    for (; count >= 4; count -= 4) {
        sum += codes[0] + codes[1] + codes[2] + codes[3];
        codes += 4;
    }
    while (count-- != 0) {
        sum += *codes++;
    }
    return sum;
}

/* The sum of the products of codes with weights plus `minus`. */
static inline int32_t edgetool_dot(const uint8_t *weights, const int8_t *codes, uint32_t depth, int32_t minus)
{
    const int8_t *from = (const int8_t *)weights, *row = codes, *end = codes + depth;
    int32_t sum = minus != 0 ? minus * edgetool_sum_of_codes(codes, depth) : 0;
#define EDGETOOL_ADD(at) sum += from[at] * row[at];
#define EDGETOOL_ADD_FOUR(at) EDGETOOL_ADD(at) EDGETOOL_ADD((at) + 1) EDGETOOL_ADD((at) + 2) EDGETOOL_ADD((at) + 3)
    for (const int8_t *last = codes + (depth & ~7U); row != last; row += 8) {
        EDGETOOL_ADD_FOUR(0)
        EDGETOOL_ADD_FOUR(4)
        from += 8;
    }
    if ((depth & 4U) != 0) {
        EDGETOOL_ADD_FOUR(0)
        from += 4;
        row += 4;
    }
#undef EDGETOOL_ADD
    while (row != end) {
        sum += *from++ * *row++;
    }
    return sum;
}

/* The same for two rows of weights. */
static EDGETOOL_NOINLINE void edgetool_two_dots(const uint8_t *first, const uint8_t *second, const int8_t *codes,
                                                uint32_t depth, int32_t minus, int32_t *sums)
{
    const int8_t *a = (const int8_t *)first, *b = (const int8_t *)second, *row = codes, *end = codes + depth;
    const int32_t sum = minus != 0 ? minus * edgetool_sum_of_codes(codes, depth) : 0;
    int32_t sum0 = sum, sum1 = sum;
#define EDGETOOL_ADD(at) \
    sum0 += a[at] * row[at]; \
    sum1 += b[at] * row[at];
    for (const int8_t *last = codes + (depth & ~7U); row != last; row += 8) {
        EDGETOOL_ADD_FOUR(0)
        EDGETOOL_ADD_FOUR(4)
        a += 8;
        b += 8;
    }
    if ((depth & 4U) != 0) {
        EDGETOOL_ADD_FOUR(0)
        a += 4;
        b += 4;
        row += 4;
    }
#undef EDGETOOL_ADD
#undef EDGETOOL_ADD_FOUR
    while (row != end) {
        sum0 += *a++ * *row;
        sum1 += *b++ * *row++;
    }
    sums[0] = sum0;
    sums[1] = sum1;
}

#endif

#endif /* EDGETOOL_DOT_H */
