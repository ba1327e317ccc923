/* SPDX-License-Identifier: 0BSD */
#include "edgetool_softmax_s8.h"

#include "edgetool_fractions.h"

void edgetool_softmax_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_softmax_s8_op *op = (const edgetool_softmax_s8_op *)descriptor;
    const int32_t lowest = -(1 << (op->output_bits - 1)), highest = -lowest - 1;
    int8_t *out8 = (int8_t *)band->out;
    int16_t *out16 = (int16_t *)band->out;
    for (uint32_t i = 0; i < band->count * op->vectors; i++) {
        const int8_t *codes = (const int8_t *)band->rows[i / op->vectors] + (size_t)(i % op->vectors) * op->depth;
        const int32_t largest = edgetool_largest(codes, op->depth);
        const int32_t sum = edgetool_sum_of_exponentials(codes, op->depth, largest, op->exponentials, op->count);
        const uint32_t zeros = edgetool_leading_zeros((uint32_t)sum);
        /* The sum is (1 + x) * 2^(12 - zeros), with x in Q0. */
        const int32_t inverse = edgetool_inverse_plus_one((int32_t)(((uint32_t)sum << zeros) - (1U << 31)));
        const uint32_t shift = EDGETOOL_SUM_BITS + 31U - zeros - op->output_bits;
        for (uint32_t c = 0; c < op->depth; c++) {
            const int32_t below = largest - codes[c];
            int32_t value = lowest;
            /* TFLM aborts if the shift exceeds 31; the quotient is 0. */
            if (below < op->count && shift < 32) {
                const int32_t product = edgetool_high_mul(inverse, op->exponentials[below]);
                value = edgetool_clamp(edgetool_divide_pot(product, shift) + lowest, lowest, highest);
            }
            if (op->output_bits == 8) {
                *out8++ = (int8_t)value;
            } else {
                *out16++ = (int16_t)value;
            }
        }
    }
}
