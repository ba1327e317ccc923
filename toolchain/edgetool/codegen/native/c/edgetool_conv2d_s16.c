/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv2d_s16.h"

static int64_t dot(const int8_t *weights, const int16_t *codes, uint32_t count)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i] * codes[i];
    }
    return sum;
}

/* The sum of all taps of one output channel at column x; `channel` is the first input channel of its group. */
static int64_t sum_of_taps(const edgetool_conv2d_s16_op *op, const void *const *rows, uint32_t x, const int8_t *weights,
                           uint32_t channel, uint32_t depth)
{
    int64_t sum = 0;
    for (uint32_t ty = 0; ty < op->taps_y; ty++) {
        const int16_t *row = (const int16_t *)rows[ty];
        for (uint32_t tx = 0; tx < op->taps_x; tx++) {
            /* A column before the first one becomes a large number. */
            const uint32_t column = x * op->stride_x + tx * op->dilation_x - op->pad_x;
            if (row != NULL && column < op->input_width) {
                sum += dot(weights, row + (size_t)column * op->input_channels + channel, depth);
            }
            weights += depth;
        }
    }
    return sum;
}

void edgetool_conv2d_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_conv2d_s16_op *op = (const edgetool_conv2d_s16_op *)descriptor;
    const uint32_t depth = op->input_channels / op->groups, filters = op->output_channels / op->groups;
    const uint32_t pixels = band->count * op->output_width;
    for (uint32_t i = 0; i < pixels; i++) {
        const uint32_t pixel = op->descending != 0 ? pixels - 1 - i : i;
        const void *const *rows = band->rows + (size_t)(pixel / op->output_width) * op->taps_y;
        const uint32_t x = pixel % op->output_width;
        const int8_t *weights = op->weights;
        int16_t *out = (int16_t *)band->out + (size_t)pixel * op->output_channels;
        for (uint32_t channel = 0; channel < op->output_channels; channel++) {
            const uint32_t from = channel / filters * depth;
            const int64_t sum = sum_of_taps(op, rows, x, weights, from, depth);
            const int32_t value = edgetool_rescale_wide(sum, &op->scales[channel], op->shift, 0);
            out[channel] = (int16_t)edgetool_clamp(value, op->low, op->high);
            weights += (size_t)op->taps_y * op->taps_x * depth;
        }
    }
}
