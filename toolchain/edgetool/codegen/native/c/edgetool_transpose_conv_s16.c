/* SPDX-License-Identifier: 0BSD */
#include "edgetool_transpose_conv_s16.h"

static int64_t dot(const int8_t *weights, const int16_t *codes, uint32_t count)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i] * codes[i];
    }
    return sum;
}

/* The sum over the columns of one input row; `weights` are those of its tap y, x is the output column plus pad_x. */
static int64_t sum_of_row(const edgetool_transpose_conv_s16_op *op, const int16_t *row, uint32_t x,
                          const int8_t *weights)
{
    const uint32_t depth = op->input_channels;
    uint32_t column = x / op->stride_x;
    int64_t sum = 0;
    for (uint32_t tx = x % op->stride_x; tx < op->taps_x; tx += op->stride_x) {
        /* A column before the first one becomes a large number. */
        if (column < op->input_width) {
            sum += dot(weights + (size_t)tx * depth, row + (size_t)column * depth, depth);
        }
        column--;
    }
    return sum;
}

void edgetool_transpose_conv_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_transpose_conv_s16_op *op = (const edgetool_transpose_conv_s16_op *)descriptor;
    const size_t row_weights = (size_t)op->taps_x * op->input_channels;
    int16_t *out = (int16_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + (size_t)y * op->input_rows;
        /* The tap y of the last input row; each row before it is stride_y taps further. */
        const uint32_t last_tap = (band->first + y + op->pad_y) % op->stride_y;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const int8_t *weights = op->weights;
            for (uint32_t channel = 0; channel < op->output_channels; channel++) {
                int64_t sum = 0;
                for (uint32_t i = 0; i < op->input_rows; i++) {
                    const uint32_t ty = last_tap + (op->input_rows - 1U - i) * op->stride_y;
                    if (rows[i] != NULL && ty < op->taps_y) {
                        sum += sum_of_row(op, (const int16_t *)rows[i], x + op->pad_x, weights + ty * row_weights);
                    }
                }
                const int32_t value = edgetool_rescale_wide(sum, &op->scales[channel], op->shift, 0);
                *out++ = (int16_t)edgetool_clamp(value, op->low, op->high);
                weights += op->taps_y * row_weights;
            }
        }
    }
}
