/* SPDX-License-Identifier: 0BSD */
#include "edgetool_softmax_s16.h"

#include "edgetool_fractions.h"

/* The table's function at a value of 16 bits, which is clamped (LUTLookup, common.h). */
static int32_t interpolated(const int16_t *table, int32_t value)
{
    const int32_t clamped = edgetool_clamp(value, INT16_MIN, INT16_MAX);
    const int16_t *entry = &table[256 + (clamped >> 7)];
    return entry[0] + (((entry[1] - entry[0]) * (clamped & 127) + 64) >> 7);
}

static int32_t exponential(const edgetool_softmax_s16_op *op, int32_t difference)
{
    return interpolated(op->exponentials, edgetool_multiply(difference, op->multiplier, op->left, op->right) + 32767);
}

void edgetool_softmax_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_softmax_s16_op *op = (const edgetool_softmax_s16_op *)descriptor;
    int16_t *out = (int16_t *)band->out;
    for (uint32_t i = 0; i < band->count * op->vectors; i++) {
        const int16_t *codes = (const int16_t *)band->rows[i / op->vectors] + (size_t)(i % op->vectors) * op->depth;
        int32_t largest = INT16_MIN;
        uint32_t sum = 0;
        for (uint32_t c = 0; c < op->depth; c++) {
            largest = codes[c] > largest ? codes[c] : largest;
        }
        for (uint32_t c = 0; c < op->depth; c++) {
            sum += (uint32_t)exponential(op, codes[c] - largest);
        }
        /* The sum with its highest bit at bit 30, in units of 2^-16: 1 + x. */
        const uint32_t zeros = edgetool_leading_zeros(sum);
        const int32_t normal = (int32_t)(((sum << (zeros - 1U)) + (1U << 13)) >> 14);
        const int32_t inverse = interpolated(op->inverses, normal - (1 << 15) - (1 << 16));
        const uint32_t shift = 31U - zeros;
        for (uint32_t c = 0; c < op->depth; c++) {
            const int32_t product = exponential(op, codes[c] - largest) * inverse + (1 << (shift - 1U));
            *out++ = (int16_t)edgetool_clamp(product >> shift, 0, INT16_MAX);
        }
    }
}
