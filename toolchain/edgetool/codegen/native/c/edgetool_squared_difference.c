/* SPDX-License-Identifier: 0BSD */
#include "edgetool_squared_difference.h"

#include "edgetool_broadcast.h"
#include "edgetool_element.h"

static int32_t scaled(const edgetool_squared_difference_op *op, int32_t code, uint32_t k)
{
    const int32_t value = (code - op->zero_points[k]) * (1 << op->left_shift);
    return edgetool_multiply(value, op->multiplier[k], 0, op->right[k]);
}

static int32_t result(const edgetool_squared_difference_op *op, int32_t a, int32_t b)
{
    const uint32_t difference = (uint32_t)(scaled(op, a, 0) - scaled(op, b, 1));
    const int32_t square = (int32_t)(difference * difference);
    const int32_t value = edgetool_multiply(square, op->multiplier[2], op->left, op->right[2]);
    const int32_t high = op->bytes == 1 ? INT8_MAX : INT16_MAX;
    return edgetool_clamp(edgetool_wrapping_add(value, op->zero_points[2]), -high - 1, high);
}

void edgetool_squared_difference(const void *descriptor, const edgetool_band *band)
{
    const edgetool_squared_difference_op *op = (const edgetool_squared_difference_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *const *rows = band->rows + 2 * row;
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            for (uint32_t i = 0; i < run; i++) {
                const int32_t a = edgetool_load(rows[0], walk.at[0] + i * step_a, op->bytes);
                const int32_t b = edgetool_load(rows[1], walk.at[1] + i * step_b, op->bytes);
                edgetool_store(out, i, op->bytes, result(op, a, b));
            }
            out += (size_t)run * op->bytes;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
