/* SPDX-License-Identifier: 0BSD */
#include "edgetool_compare.h"

#include "edgetool_broadcast.h"
#include "edgetool_element.h"

static int32_t scaled(const edgetool_compare_op *op, int32_t code, uint32_t k)
{
    if (!op->scaled) {
        return code;
    }
    return edgetool_multiply((code - op->zero_points[k]) * (1 << 8), op->multiplier[k], 0, op->right[k]);
}

static uint8_t result(const edgetool_compare_op *op, int32_t a, int32_t b)
{
    const int32_t x = scaled(op, a, 0), y = scaled(op, b, 1);
    return (op->accept & (x < y ? 1 : (x == y ? 2 : 4))) != 0;
}

void edgetool_compare(const void *descriptor, const edgetool_band *band)
{
    const edgetool_compare_op *op = (const edgetool_compare_op *)descriptor;
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
                out[i] = result(op, a, b);
            }
            out += run;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
