/* SPDX-License-Identifier: 0BSD */
#include "edgetool_batch_matmul_s16.h"

static int64_t dot(const edgetool_batch_matmul_s16_op *op, const int16_t *left, const int16_t *right)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < op->depth; i++) {
        const int32_t a = left[(size_t)i * op->left_depth_step];
        const int32_t b = right[(size_t)i * op->right_depth_step];
        sum += (int64_t)a * b;
    }
    return sum;
}

/* Multiplies two matrices; returns the end of the output. */
static int16_t *multiply(const edgetool_batch_matmul_s16_op *op, const int16_t *left, const int16_t *right,
                         int16_t *out)
{
    for (uint32_t row = 0; row < op->rows; row++) {
        const int16_t *first = left + (size_t)row * op->left_row_step;
        for (uint32_t column = 0; column < op->columns; column++) {
            const int64_t sum = dot(op, first, right + (size_t)column * op->right_column_step);
            const int32_t value = edgetool_rescale_wide(sum, op->scale, op->shift, 0);
            *out++ = (int16_t)edgetool_clamp(value, op->low, op->high);
        }
    }
    return out;
}

void edgetool_batch_matmul_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_batch_matmul_s16_op *op = (const edgetool_batch_matmul_s16_op *)descriptor;
    const int16_t *left = (const int16_t *)band->rows[0];
    const int16_t *right = (const int16_t *)band->rows[1];
    int16_t *out = (int16_t *)band->out;
    for (uint32_t i = 0; i < op->batches[0]; i++) {
        for (uint32_t j = 0; j < op->batches[1]; j++) {
            for (uint32_t k = 0; k < op->batches[2]; k++) {
                const size_t from_left = (size_t)i * op->left_steps[0] + j * op->left_steps[1] + k * op->left_steps[2];
                const size_t from_right =
                    (size_t)i * op->right_steps[0] + j * op->right_steps[1] + k * op->right_steps[2];
                out = multiply(op, left + from_left, right + from_right, out);
            }
        }
    }
}
