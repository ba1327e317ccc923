/* SPDX-License-Identifier: 0BSD */
#include "edgetool_mul_s8.h"

#include "edgetool_broadcast.h"
#include "edgetool_dsp.h"

/* A run whose operands advance by the steps. The forms of scales that are clamped to int8 have loops of their own. */
static EDGETOOL_NOINLINE void run_of_products(const edgetool_mul_s8_op *op, const int8_t *a, uint32_t step_a,
                                              const int8_t *b, uint32_t step_b, int8_t *out, uint32_t run)
{
    const edgetool_scale *scale = op->scale;
    const int32_t zero_a = op->zero_points[0], zero_b = op->zero_points[1], zero_point = op->zero_point;
    const int32_t multiplier = scale->multiplier;
    const int full = op->low == INT8_MIN && op->high == INT8_MAX;
    const int8_t *end = out + run;
    if (full && op->shift < EDGETOOL_SIGN) {
        const int64_t offset = edgetool_line_offset(scale);
        const uint32_t shift = op->shift;
        for (; out != end; a += step_a, b += step_b) {
            *out++ = (int8_t)edgetool_line((*a - zero_a) * (*b - zero_b), multiplier, offset, shift);
        }
    } else if (full && op->shift == EDGETOOL_SIGN) {
        const int32_t start = (int32_t)scale->low;
        const uint32_t shift = (uint32_t)scale->high;
        for (; out != end; a += step_a, b += step_b) {
            const int32_t acc = (*a - zero_a) * (*b - zero_b) + start;
            *out++ = (int8_t)edgetool_ssat8(edgetool_signed_scale(acc, multiplier, shift) + zero_point);
        }
    } else {
        const int32_t low = op->low, high = op->high;
        const uint32_t shift = op->shift;
        for (; out != end; a += step_a, b += step_b) {
            const int32_t product = (*a - zero_a) * (*b - zero_b);
            *out++ = (int8_t)edgetool_clamp(edgetool_rescale(product, scale, shift, zero_point), low, high);
        }
    }
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
            run_of_products(op, a, step_a, b, step_b, out, run);
            out += run;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
