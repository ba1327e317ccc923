/* SPDX-License-Identifier: 0BSD */
#include "edgetool_dense_s16.h"

static int64_t dot(const int8_t *weights, const int16_t *codes, uint32_t count, int32_t zero_point)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (weights[i] - zero_point) * codes[i];
    }
    return sum;
}

void edgetool_dense_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_dense_s16_op *op = (const edgetool_dense_s16_op *)descriptor;
    int16_t *out = (int16_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int16_t *codes = (const int16_t *)band->rows[y];
        const int8_t *weights = op->weights;
        for (uint32_t unit = 0; unit < op->units; unit++) {
            const int64_t sum = dot(weights, codes, op->depth, op->weights_zero_point);
            const int32_t value = edgetool_rescale_wide(sum, &op->scales[unit], op->shift, op->zero_point);
            *out++ = (int16_t)edgetool_clamp(value, op->low, op->high);
            weights += op->depth;
        }
    }
}
