/* SPDX-License-Identifier: 0BSD */
#include "edgetool_logistic_s16.h"

#include "edgetool_sigmoid_s16.h"

void edgetool_logistic_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_logistic_s16_op *op = (const edgetool_logistic_s16_op *)descriptor;
    const int32_t half = op->right > 0 ? 1 << (op->right - 1) : 0;
    int16_t *out = (int16_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const int16_t *source = (const int16_t *)band->rows[row];
        for (uint32_t i = 0; i < op->count; i++) {
            const int32_t x = (source[i] * op->multiplier + half) >> op->right;
            const int32_t value = op->tanh ? edgetool_tanh_s16(op->sigmoid, x) : edgetool_sigmoid_s16(op->sigmoid, x);
            *out++ = (int16_t)value;
        }
    }
}
