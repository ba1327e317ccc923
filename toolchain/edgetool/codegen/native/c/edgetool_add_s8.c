/* SPDX-License-Identifier: 0BSD */
#include "edgetool_add_s8.h"

#include "edgetool_broadcast.h"
#include "edgetool_dsp.h"

/* MultiplyByQuantizedMultiplier without a left shift, of numbers below 2^30. */
typedef struct {
    int32_t multiplier;
    int32_t half;
    int32_t sign; /* -1 if halves are rounded away from zero, 0 if nothing is */
    uint32_t right;
} rounding;

static inline rounding rounding_of(const edgetool_add_s8_op *op, uint32_t k)
{
    const uint32_t right = op->right[k];
    rounding result;
    result.multiplier = op->numbers[k];
    result.half = right == 0 ? 0 : 1 << (right - 1);
    result.sign = right == 0 ? 0 : -1;
    result.right = right;
    return result;
}

static inline int32_t scaled(int32_t value, const rounding *by)
{
    return (edgetool_smmulr(value * 2, by->multiplier) + by->half + ((value >> 31) & by->sign)) >> by->right;
}

/* A run with TFLM's three roundings. */
static EDGETOOL_NOINLINE void run_of_roundings(const edgetool_add_s8_op *op, const int8_t *a, uint32_t step_a,
                                               const int8_t *b, uint32_t step_b, int8_t *out, uint32_t run)
{
    const rounding first = rounding_of(op, 0), second = rounding_of(op, 1), third = rounding_of(op, 2);
    const int32_t zero_a = op->zero_points[0], zero_b = op->zero_points[1], zero_point = op->zero_points[2];
    const int32_t low = op->low, high = op->high, minus = op->subtract != 0 ? -1 : 0;
    for (const int8_t *end = out + run; out != end; a += step_a, b += step_b) {
        const int32_t x = scaled((*a - zero_a) * (1 << 20), &first), y = scaled((*b - zero_b) * (1 << 20), &second);
        const int32_t value = scaled(x + (y ^ minus) - minus, &third) + zero_point;
        *out++ = (int8_t)edgetool_clamp(value, low, high);
    }
}

#define ONE_LINE(i) out[i] = (int8_t)edgetool_ssat8((intercept + a[i] * first + b[i] * second) >> shift)

/* A run of a line: four at once if it is clamped to int8 and both operands have one element per output element. */
static EDGETOOL_NOINLINE void run_of_line(const edgetool_add_s8_op *op, const int8_t *a, uint32_t step_a,
                                          const int8_t *b, uint32_t step_b, int8_t *out, uint32_t run)
{
    const int32_t first = op->numbers[0], second = op->numbers[1], intercept = op->numbers[2];
    const int32_t low = op->low, high = op->high;
    const uint32_t shift = op->shift & 31U;
    if (step_a == 1 && step_b == 1 && low == INT8_MIN && high == INT8_MAX) {
        for (; run >= 4; run -= 4) {
            ONE_LINE(0);
            ONE_LINE(1);
            ONE_LINE(2);
            ONE_LINE(3);
            a += 4;
            b += 4;
            out += 4;
        }
    }
    for (; run != 0; run--) {
        *out++ = (int8_t)edgetool_clamp((intercept + *a * first + *b * second) >> shift, low, high);
        a += step_a;
        b += step_b;
    }
}

void edgetool_add_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_add_s8_op *op = (const edgetool_add_s8_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    int8_t *out = (int8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            const int8_t *a = (const int8_t *)band->rows[2 * row] + walk.at[0];
            const int8_t *b = (const int8_t *)band->rows[2 * row + 1] + walk.at[1];
            if (op->shift == EDGETOOL_DOUBLE_ROUNDING) {
                run_of_roundings(op, a, step_a, b, step_b, out, run);
            } else {
                run_of_line(op, a, step_a, b, step_b, out, run);
            }
            out += run;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
