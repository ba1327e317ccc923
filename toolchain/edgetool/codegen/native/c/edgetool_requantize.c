/* SPDX-License-Identifier: 0BSD */
#include "edgetool_requantize.h"

#include "edgetool_element.h"

void edgetool_requantize(const void *descriptor, const edgetool_band *band)
{
    const edgetool_requantize_op *op = (const edgetool_requantize_op *)descriptor;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        for (uint32_t i = 0; i < op->count; i++) {
            const int32_t code = edgetool_load(band->rows[row], i, op->input_bytes);
            int32_t value = edgetool_wrapping_add(code, -op->input_zero_point);
            const uint32_t side = value < 0;
            const int32_t sign = side ? op->before : 1;
            value = edgetool_multiply(value * sign, op->multiplier[side], op->left[side], op->right[side]);
            value = edgetool_wrapping_add(side ? value * op->after : value, op->zero_point);
            edgetool_store(out, i, op->output_bytes, edgetool_clamp(value, op->low, op->high));
        }
        out += (size_t)op->count * op->output_bytes;
    }
}
