/* SPDX-License-Identifier: 0BSD */
#include "edgetool_dequantize.h"

#include "edgetool_element.h"

void edgetool_dequantize(const void *descriptor, const edgetool_band *band)
{
    const edgetool_dequantize_op *op = (const edgetool_dequantize_op *)descriptor;
    float *out = (float *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        for (uint32_t i = 0; i < op->count; i++) {
            const int32_t code = edgetool_load(band->rows[row], i, op->bytes);
            *out++ = op->scale * (float)((op->is_unsigned ? code & 0xFF : code) - op->zero_point);
        }
    }
}
