/* SPDX-License-Identifier: 0BSD */
#include "edgetool_mean_of_sums_s8.h"

/* Sums of pixels are not so large that half of their number overflows them. */
static int32_t mean(int32_t sum, int32_t pixels)
{
    const int32_t half = pixels / 2;
    return (sum < 0 ? sum - half : sum + half) / pixels;
}

static int32_t scaled(const edgetool_mean_of_sums_s8_op *op, int32_t sum)
{
    const int32_t value = edgetool_plus(sum, (int32_t)op->offset);
    return edgetool_plus(edgetool_multiply(value, op->multiplier, op->left, op->right), op->zero_point);
}

void edgetool_mean_of_sums_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_mean_of_sums_s8_op *op = (const edgetool_mean_of_sums_s8_op *)descriptor;
    const int32_t *sums = (const int32_t *)band->rows[0];
    int8_t *out = (int8_t *)band->out;
    for (const int8_t *end = out + op->count; out != end; out++) {
        const int32_t sum = *sums++;
        const int32_t code = op->pixels != 0 ? mean(sum, (int32_t)op->pixels) : scaled(op, sum);
        *out = (int8_t)edgetool_clamp(code, op->low, op->high);
    }
}
