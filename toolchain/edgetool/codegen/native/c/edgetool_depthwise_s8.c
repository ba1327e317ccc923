/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_s8.h"

/* The sum of all taps of one output channel at column x; `weights` is the first weight of the channel. */
static int32_t sum_of_taps(const edgetool_depthwise_s8_op *op, const void *const *rows, uint32_t x, uint32_t channel,
                           const int8_t *weights)
{
    const size_t step = (size_t)op->input_channels * op->depth_multiplier;
    int32_t sum = 0;
    for (uint32_t ty = 0; ty < op->taps_y; ty++) {
        const int8_t *row = (const int8_t *)rows[ty];
        /* A column before the first one becomes a large number. */
        uint32_t column = x * op->stride_x - op->pad_x;
        for (uint32_t tx = 0; tx < op->taps_x; tx++) {
            const int inside = row != NULL && column < op->input_width;
            sum += *weights * (inside ? row[(size_t)column * op->input_channels + channel] : op->outside);
            weights += step;
            column += op->dilation_x;
        }
    }
    return sum;
}

void edgetool_depthwise_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_depthwise_s8_op *op = (const edgetool_depthwise_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + (size_t)y * op->taps_y;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const int8_t *weights = op->weights;
            const edgetool_scale *scale = op->scales;
            for (uint32_t channel = 0; channel < op->input_channels; channel++) {
                for (uint32_t i = 0; i < op->depth_multiplier; i++) {
                    const int32_t sum = sum_of_taps(op, rows, x, channel, weights++);
                    const int32_t value = edgetool_rescale(sum, scale++, op->shift, op->zero_point);
                    *out++ = (int8_t)edgetool_clamp(value, op->low, op->high);
                }
            }
        }
    }
}
