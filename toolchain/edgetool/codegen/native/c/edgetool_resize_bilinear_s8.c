/* SPDX-License-Identifier: 0BSD */
#include "edgetool_resize_bilinear_s8.h"

/* value / 2^20, rounded half away from zero. */
static int8_t rounded(int32_t value)
{
    return (int8_t)((value + (value > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
}

/* One output row between two input rows, `weight` / 1024 of the way to the lower one. */
static void resize_row(const edgetool_resize_bilinear_s8_op *op, const int8_t *upper, const int8_t *lower,
                       int32_t weight, int8_t *out)
{
    const int32_t last = (int32_t)op->input_width - 1, channels = (int32_t)op->channels;
    for (int32_t x = 0; x < (int32_t)op->output_width; x++) {
        const int32_t at = edgetool_clamp(x * op->scale_x + op->offset_x, 0, last * 1024);
        const int32_t left = at / 1024 * channels, right = (at + 1023) / 1024 * channels, part = at % 1024;
        for (int32_t c = 0; c < channels; c++) {
            const int32_t above = upper[left + c] * (1024 - part) + upper[right + c] * part;
            const int32_t below = lower[left + c] * (1024 - part) + lower[right + c] * part;
            *out++ = rounded(above * (1024 - weight) + below * weight);
        }
    }
}

void edgetool_resize_bilinear_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_resize_bilinear_s8_op *op = (const edgetool_resize_bilinear_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t i = 0; i < band->count; i++) {
        const int8_t *upper = (const int8_t *)band->rows[2 * i];
        const int8_t *lower = (const int8_t *)band->rows[2 * i + 1];
        const int32_t at = (int32_t)(band->first + i) * op->scale_y + op->offset_y;
        resize_row(op, upper != NULL ? upper : lower, lower != NULL ? lower : upper, at & 1023, out);
        out += (size_t)op->output_width * op->channels;
    }
}
