/* SPDX-License-Identifier: 0BSD */
#include "edgetool_add_n_s8.h"

void edgetool_add_n_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_add_n_s8_op *op = (const edgetool_add_n_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *const *rows = band->rows + (size_t)row * op->operands;
        for (uint32_t i = 0; i < op->count; i++) {
            int32_t sum = op->offset;
            for (uint32_t k = 0; k < op->operands; k++) {
                sum += ((const int8_t *)rows[k])[i];
            }
            const int32_t value = edgetool_multiply(edgetool_shift_left(sum, 19), op->multiplier, 0, op->right);
            *out++ = (int8_t)edgetool_clamp(edgetool_plus(value, op->zero_point), INT8_MIN, INT8_MAX);
        }
    }
}
