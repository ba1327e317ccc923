/* SPDX-License-Identifier: 0BSD */
#include "edgetool_dense_s8.h"

static int32_t dot(const int8_t *weights, const int8_t *codes, uint32_t count)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i] * codes[i];
    }
    return sum;
}

static int32_t sum_of_codes(const int8_t *codes, uint32_t count)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += codes[i];
    }
    return sum;
}

void edgetool_dense_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_dense_s8_op *op = (const edgetool_dense_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int8_t *codes = (const int8_t *)band->rows[y];
        const int8_t *weights = op->weights;
        const edgetool_scale *scale = op->scales;
        /* What the weights' zero point takes from each sum. */
        const int32_t excess =
            op->weights_zero_point != 0 ? op->weights_zero_point * sum_of_codes(codes, op->depth) : 0;
        for (uint32_t unit = 0; unit < op->units; unit++) {
            int32_t sum = dot(weights, codes, op->depth) - excess;
            if (op->offsets != NULL) {
                sum += op->offsets[unit];
            }
            const int32_t value = edgetool_rescale(sum, scale, op->shift, op->zero_point);
            *out++ = (int8_t)edgetool_clamp(value, op->low, op->high);
            weights += op->depth;
            scale += op->scale_step;
        }
    }
}
