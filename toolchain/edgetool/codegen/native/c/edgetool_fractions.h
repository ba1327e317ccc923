/* SPDX-License-Identifier: 0BSD */
/* Fixed-point functions of the normalizations (gemmlowp's fixedpoint.h). Qn: units of 2^(n - 31). */
#ifndef EDGETOOL_FRACTIONS_H
#define EDGETOOL_FRACTIONS_H

#include "edgetool_native.h"

#define EDGETOOL_SUM_BITS 12 /* sums of exponentials are Q12 */

/* value << shift, but at most INT32_MAX; shift is 0 to 31, and value at least -2^(31 - shift). */
static inline int32_t edgetool_saturated_left(int32_t value, uint32_t shift)
{
    const int32_t limit = (int32_t)((1U << (31U - shift)) - 1U);
    return value > limit ? INT32_MAX : edgetool_shift_left(value, shift);
}

/* The number of zero bits above the highest set one. */
static inline uint32_t edgetool_leading_zeros(uint32_t value)
{
    uint32_t zeros = 32;
    for (; value != 0; value >>= 1) {
        zeros--;
    }
    return zeros;
}

/* 1 / (1 + x) in Q0 for x in Q0, at least 0: three steps of Newton-Raphson (one_over_one_plus_x_for_x_in_0_1). */
static inline int32_t edgetool_inverse_plus_one(int32_t x)
{
    const int32_t half_denominator = (int32_t)(((uint32_t)x + (uint32_t)INT32_MAX + 1U) >> 1);
    /* 48 / 17 - 32 / 17 * half_denominator in Q2. */
    int32_t inverse = 1515870810 + edgetool_high_mul(half_denominator, -1010580540);
    for (uint32_t i = 0; i < 3; i++) {
        const int32_t rest = (1 << 29) - edgetool_high_mul(half_denominator, inverse);
        inverse += edgetool_saturated_left(edgetool_high_mul(inverse, rest), 2);
    }
    return edgetool_saturated_left(inverse, 1);
}

/* The sum in Q12 of the exponentials of `depth` codes; exponentials[i] is that of i below the largest, in Q0. */
static inline int32_t edgetool_sum_of_exponentials(const int8_t *codes, uint32_t depth, int32_t largest,
                                                   const int32_t *exponentials, int32_t count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < depth; i++) {
        const int32_t below = largest - codes[i];
        if (below < count) {
            sum += ((uint32_t)exponentials[below] + (1U << (EDGETOOL_SUM_BITS - 1))) >> EDGETOOL_SUM_BITS;
        }
    }
    return (int32_t)sum;
}

static inline int32_t edgetool_largest(const int8_t *codes, uint32_t depth)
{
    int32_t largest = INT8_MIN;
    for (uint32_t i = 0; i < depth; i++) {
        largest = codes[i] > largest ? codes[i] : largest;
    }
    return largest;
}

#endif /* EDGETOOL_FRACTIONS_H */
