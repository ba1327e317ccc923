/* SPDX-License-Identifier: 0BSD */
#include "edgetool_mul_s8.h"

#include "edgetool_broadcast.h"

static int8_t result(const edgetool_mul_s8_op *op, int32_t a, int32_t b)
{
    const int32_t product = (a - op->zero_points[0]) * (b - op->zero_points[1]);
    const int32_t value = edgetool_rescale(product, op->scale, op->shift, op->zero_point);
    return (int8_t)edgetool_clamp(value, op->low, op->high);
}

void edgetool_mul_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_mul_s8_op *op = (const edgetool_mul_s8_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    int8_t *out = (int8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            const int8_t *a = (const int8_t *)band->rows[2 * row] + walk.at[0];
            const int8_t *b = (const int8_t *)band->rows[2 * row + 1] + walk.at[1];
            for (uint32_t i = 0; i < run; i++) {
                *out++ = result(op, *a, *b);
                a += step_a;
                b += step_b;
            }
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
