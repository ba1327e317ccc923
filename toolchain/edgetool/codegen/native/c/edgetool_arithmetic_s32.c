/* SPDX-License-Identifier: 0BSD */
#include "edgetool_arithmetic_s32.h"

#include "edgetool_broadcast.h"

static int32_t quotient(int32_t a, int32_t b)
{
    if (b == 0 || b == -1) {
        return (int32_t)((uint32_t)a * (uint32_t)b);
    }
    return a / b;
}

static int32_t value(uint32_t kind, int32_t a, int32_t b)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    switch (kind) {
    case 0:
        return (int32_t)(x + y);
    case 1:
        return (int32_t)(x - y);
    case 2:
        return (int32_t)(x * y);
    case 3:
        return (int32_t)((x - y) * (x - y));
    default:
        return quotient(a, b);
    }
}

static int32_t result(const edgetool_arithmetic_s32_op *op, int32_t a, int32_t b)
{
    return edgetool_clamp(value(op->kind, a, b), op->low, op->high);
}

void edgetool_arithmetic_s32(const void *descriptor, const edgetool_band *band)
{
    const edgetool_arithmetic_s32_op *op = (const edgetool_arithmetic_s32_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    int32_t *out = (int32_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            const int32_t *a = (const int32_t *)band->rows[2 * row] + walk.at[0];
            const int32_t *b = (const int32_t *)band->rows[2 * row + 1] + walk.at[1];
            for (uint32_t i = 0; i < run; i++) {
                *out++ = result(op, *a, *b);
                a += step_a;
                b += step_b;
            }
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
