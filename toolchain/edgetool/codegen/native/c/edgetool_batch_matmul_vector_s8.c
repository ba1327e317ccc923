/* SPDX-License-Identifier: 0BSD */
#include "edgetool_batch_matmul_vector_s8.h"

#include "edgetool_products_vector.h"

/* Copies `count` elements that are `step` apart; returns the copy, or the elements themselves if they are not apart. */
static const int8_t *together(const int8_t *from, size_t step, uint32_t count, int8_t *to)
{
    if (step == 1) {
        return from;
    }
    for (uint32_t i = 0; i < count; i++) {
        to[i] = *from;
        from += step;
    }
    return to;
}

/* Multiplies two matrices; returns the end of the output. */
static int8_t *multiply(const edgetool_batch_matmul_vector_s8_op *op, const int8_t *left, const int8_t *right,
                        int32_t *bias, int8_t *out)
{
    const uint32_t depth = op->depth, columns = op->columns;
    const int32_t left_zero_point = op->left_zero_point, right_zero_point = op->right_zero_point;
    const int32_t zeros = (int32_t)depth * left_zero_point * right_zero_point;
    int8_t *copies = (int8_t *)(bias + ((columns + 3) & ~3U));
    edgetool_products v;
    if (op->right_depth_step != 1) {
        const int8_t *column = right;
        right = copies;
        for (uint32_t i = 0; i < columns; i++) {
            together(column, op->right_depth_step, depth, copies);
            column += op->right_column_step;
            copies += depth;
        }
    }
    const int8_t *codes = right;
    for (uint32_t i = 0; i < columns; i++) {
        const int32_t sum = left_zero_point != 0 ? left_zero_point * edgetool_sum_s8(codes, depth) : 0;
        bias[i] = edgetool_plus(op->bias != NULL ? op->bias[i] : 0, zeros - sum);
        codes += depth;
    }
    v.bias = bias;
    v.scales = op->scales;
    v.scale_step = 0;
    v.minus = 0;
    v.zero_point = op->zero_point;
    v.bounds[0] = op->low;
    v.bounds[1] = op->high;
    edgetool_set_others(&v, right, columns, depth);
    for (uint32_t row = 0; row < op->rows; row++) {
        v.shared = together(left, op->left_depth_step, depth, copies);
        if (right_zero_point != 0) {
            v.minus = -right_zero_point * edgetool_sum_s8(v.shared, depth);
        }
        v.out = out;
        EDGETOOL_MULTIPLY(v);
        out += columns;
        left += op->left_row_step;
    }
    return out;
}

void edgetool_batch_matmul_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_batch_matmul_vector_s8_op *op = (const edgetool_batch_matmul_vector_s8_op *)descriptor;
    const int8_t *left = (const int8_t *)band->rows[0];
    const int8_t *right = (const int8_t *)band->rows[1];
    int8_t *out = (int8_t *)band->out;
    for (uint32_t i = 0; i < op->batches[0]; i++) {
        for (uint32_t j = 0; j < op->batches[1]; j++) {
            for (uint32_t k = 0; k < op->batches[2]; k++) {
                const size_t from_left = (size_t)i * op->left_steps[0] + j * op->left_steps[1] + k * op->left_steps[2];
                const size_t from_right =
                    (size_t)i * op->right_steps[0] + j * op->right_steps[1] + k * op->right_steps[2];
                out = multiply(op, left + from_left, right + from_right, (int32_t *)band->scratch, out);
            }
        }
    }
}
