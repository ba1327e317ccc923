/* SPDX-License-Identifier: 0BSD */
#include "edgetool_div_s8.h"

#include "edgetool_broadcast.h"

/* The number of bits of a number from 0 to 255. */
static int32_t bits_of(int32_t value)
{
    int32_t bits = 0;
    while (value >> bits != 0) {
        bits++;
    }
    return bits;
}

static int8_t result(const edgetool_div_s8_op *op, int32_t code, int32_t divisor)
{
    int32_t a = code - op->zero_points[0], b = divisor - op->zero_points[1];
    if (b < 0) {
        a = -a;
        b = -b;
    }
    /* The bits of a in front of its leading one, without its sign: ~a of a negative number has as many as a. */
    const int32_t headroom = 31 - bits_of(a < 0 ? ~a : a);
    const int32_t right = bits_of(b) - 1 + headroom - op->shift;
    const int32_t quotient = edgetool_high_mul(edgetool_shift_left(a, (uint32_t)headroom), op->reciprocals[b]);
    const int32_t value = edgetool_multiply(quotient, op->multiplier, 0, (uint32_t)right);
    return (int8_t)edgetool_clamp(edgetool_plus(value, op->zero_points[2]), op->low, op->high);
}

void edgetool_div_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_div_s8_op *op = (const edgetool_div_s8_op *)descriptor;
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
