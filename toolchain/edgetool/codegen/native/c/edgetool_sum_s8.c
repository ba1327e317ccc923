/* SPDX-License-Identifier: 0BSD */
#include "edgetool_sum_s8.h"

/* The sum of the codes of one output, modulo 2^32; the first one of each tap is at `start`. */
static uint32_t sum_of_codes(const edgetool_sum_s8_op *op, const void *const *rows, size_t start)
{
    uint32_t sum = op->offset;
    for (uint32_t tap = 0; tap < op->taps; tap++) {
        for (uint32_t i = 0; i < op->reduced_count[0]; i++) {
            const int8_t *codes = (const int8_t *)rows[tap] + start + (size_t)i * op->reduced_step[0];
            for (uint32_t k = 0; k < op->reduced_count[1]; k++) {
                const int32_t code = codes[(size_t)k * op->reduced_step[1]];
                sum += (uint32_t)code;
            }
        }
    }
    return sum;
}

void edgetool_sum_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_sum_s8_op *op = (const edgetool_sum_s8_op *)descriptor;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        for (uint32_t i = 0; i < op->kept_count[0]; i++) {
            for (uint32_t k = 0; k < op->kept_count[1]; k++) {
                const size_t start = (size_t)i * op->kept_step[0] + (size_t)k * op->kept_step[1];
                const int32_t sum = (int32_t)sum_of_codes(op, rows, start);
                const int32_t scaled = edgetool_multiply(sum, op->multiplier, op->left, op->right);
                const int32_t value = edgetool_plus(scaled, op->zero_point);
                *out++ = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
            }
        }
        rows += op->taps;
    }
}
