/* SPDX-License-Identifier: 0BSD */
#include "edgetool_quantize.h"

#include "edgetool_element.h"

/* Beyond the codes of int16 and any zero point, and all numbers up to it have fractions that are exact in float32. */
#define LIMIT 131072.0f

/* The nearest integer, half away from zero. */
static int32_t rounded(float value)
{
    if (!(value > -LIMIT)) {
        value = -LIMIT;
    } else if (value > LIMIT) {
        value = LIMIT;
    }
    const int32_t whole = (int32_t)value;
    const float rest = value - (float)whole;
    return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

void edgetool_quantize(const void *descriptor, const edgetool_band *band)
{
    const edgetool_quantize_op *op = (const edgetool_quantize_op *)descriptor;
    const int32_t high = op->bytes == 1 ? INT8_MAX : INT16_MAX;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const float *source = (const float *)band->rows[row];
        for (uint32_t i = 0; i < op->count; i++) {
            const int32_t code = rounded(source[i] / op->scale) + op->zero_point;
            edgetool_store(out, i, op->bytes, edgetool_clamp(code, -high - 1, high));
        }
        out += (size_t)op->count * op->bytes;
    }
}
