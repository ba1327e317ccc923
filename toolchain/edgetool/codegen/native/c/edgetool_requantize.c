/* SPDX-License-Identifier: 0BSD */
#include "edgetool_requantize.h"

static int32_t load(const void *row, uint32_t i, uint32_t bytes)
{
    if (bytes == 1) {
        return ((const int8_t *)row)[i];
    }
    return bytes == 2 ? ((const int16_t *)row)[i] : ((const int32_t *)row)[i];
}

static void store(void *row, uint32_t i, uint32_t bytes, int32_t value)
{
    if (bytes == 1) {
        ((int8_t *)row)[i] = (int8_t)value;
    } else if (bytes == 2) {
        ((int16_t *)row)[i] = (int16_t)value;
    } else {
        ((int32_t *)row)[i] = value;
    }
}

/* a + b, within 32 bits. */
static int32_t sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

void edgetool_requantize(const void *descriptor, const edgetool_band *band)
{
    const edgetool_requantize_op *op = (const edgetool_requantize_op *)descriptor;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        for (uint32_t i = 0; i < op->count; i++) {
            int32_t value = sum(load(band->rows[row], i, op->input_bytes), -op->input_zero_point);
            const uint32_t side = value < 0;
            const int32_t sign = side ? op->before : 1;
            value = edgetool_multiply(value * sign, op->multiplier[side], op->left[side], op->right[side]);
            value = sum(side ? value * op->after : value, op->zero_point);
            store(out, i, op->output_bytes, edgetool_clamp(value, op->low, op->high));
        }
        out += (size_t)op->count * op->output_bytes;
    }
}
