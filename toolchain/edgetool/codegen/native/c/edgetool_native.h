/* SPDX-License-Identifier: 0BSD */
/*
 * The contract of edgetool's kernels, and the fixed-point arithmetic that they share.
 *
 * A kernel computes a band of one or more consecutive output rows. It receives a pointer to each input row that the
 * band needs: for every output row of the band in turn, the rows of all inputs, taps by taps; NULL is a row outside the
 * input. Rows may be anywhere, unless the kernel's header states that it works on whole tensors, which are then one
 * row. A kernel keeps nothing between calls except in `states`, writes only the output rows, `scratch` and `states`, and
 * accesses elements of 2 and 4 bytes only at multiples of their size.
 */
#ifndef EDGETOOL_NATIVE_H
#define EDGETOOL_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the tables of this model are for little-endian processors"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The most variable tensors that one kernel reads and writes. */
#define EDGETOOL_STATES 2

/* The rows of one call. `count` output rows follow each other from `out`; `first` is the index of the first of them. */
typedef struct {
    const void *const *rows;
    void *out;
    void *scratch;
    void *states[EDGETOOL_STATES];
    uint32_t first;
    uint32_t count;
} edgetool_band;

typedef void (*edgetool_kernel)(const void *op, const edgetool_band *band);

/* Rows that follow each other. */
typedef struct {
    uint32_t row_bytes;
    uint32_t rows;
} edgetool_shape;

/*
 * How an operator reads an input: output row y needs the rows floor((y * stride - pad + tap * dilation) / divisor) for
 * tap = 0 .. taps - 1, of which those outside 0 .. rows - 1 do not exist. The input is in the arena if `data` is NULL,
 * else a constant that starts there.
 */
typedef struct {
    const void *data;
    uint16_t taps;
    uint16_t stride;
    uint16_t dilation;
    int16_t pad;
    uint16_t divisor;
} edgetool_pattern;

/* An input: where its first row is, and the places of its shape and pattern in their tables. */
typedef struct {
    uint32_t offset;
    uint16_t shape;
    uint16_t pattern;
} edgetool_input;

/*
 * One operator: its kernel's descriptor, where its output and scratch are in the arena, and places in the tables.
 * `inputs` is that of its first input; the others follow, and then its variable tensors, of which only `offset` counts.
 * `band` is the number of rows per call.
 */
typedef struct {
    const void *op;
    uint32_t offset;
    uint32_t scratch;
    uint16_t shape;
    uint16_t inputs;
    uint16_t inputs_count;
    uint16_t batches;
    uint16_t band;
    uint8_t kernel;
    uint8_t states_count;
} edgetool_step;

/* The operators of a model, and the tables that they refer to. */
typedef struct {
    const edgetool_kernel *kernels;
    const edgetool_shape *shapes;
    const edgetool_pattern *patterns;
    const edgetool_input *inputs;
    const edgetool_step *steps;
    uint32_t count;
} edgetool_program;

/*
 * Runs the operators of a model on whole tensors in the arena. `rows` has room for the pointers of the largest band. The
 * batches of an operator are independent: each reads and writes its own rows.
 */
void edgetool_run(const edgetool_program *program, uint8_t *arena, const void **rows);

/*
 * The same on tensors in several memories, each of which has an arena: the upper bits of an offset, from this one on, are
 * the number of the arena.
 */
#define EDGETOOL_ARENA_SHIFT 28U

void edgetool_run_several(const edgetool_program *program, uint8_t *const *arenas, const void **rows);

/*
 * The scale of one output channel. For sums of 32 bits, in one of three forms that give the same results as TFLM's
 * double rounding:
 *
 * - "line": (acc * multiplier + (high << 32 | low)) >> (32 + shift). It contains bias, zero points and rounding, and
 *   was compared with the double rounding for every accumulator that the channel can have.
 * - "sign" (shift 253): acc = sum + low, then (((acc * multiplier + 2^30) >> 31) + 2^(high - 1) + (acc >> 31)) >> high.
 *   The zero point is added by the kernel. No acc that the channel can have overflows.
 * - "double" (shift 255): bias `low`, then MultiplyByQuantizedMultiplier (TFLite's common.cc) with the left shift in
 *   the upper half of `high` and the right shift in its lower half. The zero point is added by the kernel.
 *
 * For sums of 64 bits in one more form:
 *
 * - "wide" (shift 254): (sum * slope + (high << 32 | low)) >> right, with the slope in the lower half of `multiplier`
 *   and the shift in its upper half. It contains bias and rounding: MultiplyByQuantizedMultiplier of an int64
 *   (common.cc).
 */
typedef struct {
    int32_t multiplier;
    uint32_t low;
    int32_t high;
} edgetool_scale;

#define EDGETOOL_DOUBLE_ROUNDING 255
#define EDGETOOL_WIDE 254
#define EDGETOOL_SIGN 253

static inline int32_t edgetool_clamp(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : (value > high ? high : value);
}

/* a + b modulo 2^32, as TFLM's sums wrap where a scale of 1 or more makes them large. */
static inline int32_t edgetool_plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* value << shift, with the bits that TFLM's product with 1 << shift has. */
static inline int32_t edgetool_shift_left(int32_t value, uint32_t shift)
{
    return (int32_t)((uint32_t)value << shift);
}

/* SaturatingRoundingDoublingHighMul (gemmlowp's fixedpoint.h). */
static inline int32_t edgetool_high_mul(int32_t a, int32_t b)
{
    if (a == b && a == INT32_MIN) {
        return INT32_MAX;
    }
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* RoundingDivideByPOT (gemmlowp's fixedpoint.h): value / 2^shift, rounded half away from zero; shift is 0 to 31. */
static inline int32_t edgetool_divide_pot(int32_t value, uint32_t shift)
{
    const int32_t mask = (int32_t)((1U << shift) - 1U);
    const int32_t rest = value & mask;
    return (value >> shift) + (rest > (mask >> 1) + (value < 0 ? 1 : 0) ? 1 : 0);
}

/* MultiplyByQuantizedMultiplier with separate shifts, one of which is 0. */
static inline int32_t edgetool_multiply(int32_t value, int32_t multiplier, uint32_t left, uint32_t right)
{
    return edgetool_divide_pot(edgetool_high_mul(edgetool_shift_left(value, left), multiplier), right);
}

/* The output of a channel whose sum of weight times input code is `sum`; see edgetool_scale. */
static inline int32_t edgetool_rescale(int32_t sum, const edgetool_scale *scale, uint32_t shift, int32_t zero_point)
{
    const uint32_t high = (uint32_t)scale->high;
    const int32_t acc = edgetool_plus(sum, (int32_t)scale->low);
    if (shift == EDGETOOL_SIGN) {
        const int32_t product = (int32_t)(((int64_t)acc * scale->multiplier + (1 << 30)) >> 31);
        return ((product + (1 << (high - 1U)) + (acc >> 31)) >> high) + zero_point;
    }
    if (shift == EDGETOOL_DOUBLE_ROUNDING) {
        return edgetool_plus(edgetool_multiply(acc, scale->multiplier, high >> 16, high & 0xFFFFU), zero_point);
    }
    const int64_t line = (int64_t)sum * scale->multiplier + (int64_t)((uint64_t)high << 32 | scale->low);
    return (int32_t)(line >> 32) >> shift;
}

/* The same for a sum of 64 bits, in the form "wide", or in the form "double" if the sum fits 32 bits. */
static inline int32_t edgetool_rescale_wide(int64_t sum, const edgetool_scale *scale, uint32_t shift,
                                            int32_t zero_point)
{
    if (shift == EDGETOOL_DOUBLE_ROUNDING) {
        return edgetool_rescale((int32_t)sum, scale, shift, zero_point);
    }
    const int64_t offset = (int64_t)((uint64_t)(uint32_t)scale->high << 32 | scale->low);
    const uint32_t multiplier = (uint32_t)scale->multiplier;
    return (int32_t)((sum * (int64_t)(multiplier & 0xFFFFU) + offset) >> (multiplier >> 16)) + zero_point;
}

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_NATIVE_H */
