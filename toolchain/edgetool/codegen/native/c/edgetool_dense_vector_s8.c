/* SPDX-License-Identifier: 0BSD */
#include "edgetool_dense_vector_s8.h"

#include "edgetool_products_vector.h"

void edgetool_dense_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_dense_vector_s8_op *op = (const edgetool_dense_vector_s8_op *)descriptor;
    const uint32_t depth = op->depth, units = op->units, rows = op->rows;
    /* One unit is multiplied with all rows, unless something different is subtracted from the products of each. */
    const int is_single = units == 1 && op->weights_zero_point == 0;
    const uint32_t count = is_single ? rows : units;
    int8_t *out = (int8_t *)band->out;
    edgetool_products v;
    v.bias = op->bias;
    v.scales = op->scales;
    v.scale_step = op->scale_step * (uint32_t)sizeof(int32_t);
    v.minus = 0;
    v.zero_point = op->zero_point;
    v.bounds[0] = op->low;
    v.bounds[1] = op->high;
    for (uint32_t y = 0; y < band->count; y++) {
        const int8_t *codes = (const int8_t *)band->rows[y];
        edgetool_set_others(&v, is_single ? codes : op->weights, count, depth);
        for (uint32_t left = units * rows; left != 0; left -= count) {
            if (op->weights_zero_point != 0) {
                v.minus = -op->weights_zero_point * edgetool_sum_s8(codes, depth);
            }
            v.shared = is_single ? op->weights : codes;
            v.out = out;
            EDGETOOL_MULTIPLY(v);
            codes += depth;
            out += count;
        }
    }
}
