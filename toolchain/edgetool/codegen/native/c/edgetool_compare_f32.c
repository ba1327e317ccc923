/* SPDX-License-Identifier: 0BSD */
#include "edgetool_compare_f32.h"

#include "edgetool_broadcast.h"

static uint8_t result(uint32_t accept, float a, float b)
{
    const uint32_t order = a < b ? 1 : (a > b ? 4 : 8);
    return (accept & (a <= b && a >= b ? 2 : order)) != 0;
}

void edgetool_compare_f32(const void *descriptor, const edgetool_band *band)
{
    const edgetool_compare_f32_op *op = (const edgetool_compare_f32_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            const float *a = (const float *)band->rows[2 * row] + walk.at[0];
            const float *b = (const float *)band->rows[2 * row + 1] + walk.at[1];
            for (uint32_t i = 0; i < run; i++) {
                *out++ = result(op->accept, *a, *b);
                a += step_a;
                b += step_b;
            }
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
