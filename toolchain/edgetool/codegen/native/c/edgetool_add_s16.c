/* SPDX-License-Identifier: 0BSD */
#include "edgetool_add_s16.h"

#include "edgetool_broadcast.h"
#include "edgetool_element.h"

static int32_t scaled(const edgetool_add_s16_op *op, int32_t code, uint32_t k)
{
    return edgetool_multiply((code - op->zero_points[k]) * (1 << 15), op->multiplier[k], 0, op->right[k]);
}

static int16_t result(const edgetool_add_s16_op *op, int32_t a, int32_t b)
{
    const int32_t x = scaled(op, a, 0), y = scaled(op, b, 1);
    const int32_t sum = edgetool_wrapping_add(x, op->subtract ? -y : y);
    const int32_t value = edgetool_multiply(sum, op->multiplier[2], 0, op->right[2]) + op->zero_points[2];
    return (int16_t)edgetool_clamp(value, op->low, op->high);
}

void edgetool_add_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_add_s16_op *op = (const edgetool_add_s16_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    int16_t *out = (int16_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            const int16_t *a = (const int16_t *)band->rows[2 * row] + walk.at[0];
            const int16_t *b = (const int16_t *)band->rows[2 * row + 1] + walk.at[1];
            for (uint32_t i = 0; i < run; i++) {
                *out++ = result(op, *a, *b);
                a += step_a;
                b += step_b;
            }
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
