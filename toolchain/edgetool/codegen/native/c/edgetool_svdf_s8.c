/* SPDX-License-Identifier: 0BSD */
#include "edgetool_svdf_s8.h"

#include "edgetool_dot.h"

#define SOME 8U /* filters whose products are computed before their memories move, a multiple of 2 */

/* Moves the memory of a filter on by one place and returns its product with the time weights. */
static uint32_t remember_s8(const edgetool_svdf_s8_op *op, int8_t *state, const int8_t *times, int32_t latest)
{
    const int32_t zero_point = op->state_zero_point;
    const int8_t *last = state + (op->memory - 1);
    uint32_t sum = 0;
    while (state != last) {
        const int32_t value = state[1];
        *state++ = (int8_t)value;
        sum += (uint32_t)(*times++ * (value - zero_point));
    }
    const int32_t value = (int8_t)(edgetool_clamp(latest, INT8_MIN, INT8_MAX) + zero_point);
    *state = (int8_t)value;
    return sum + (uint32_t)(*times * (value - zero_point));
}

static uint32_t remember_s16(const edgetool_svdf_s8_op *op, int16_t *state, const int16_t *times, int32_t latest)
{
    const int32_t zero_point = op->state_zero_point;
    const int16_t *last = state + (op->memory - 1);
    uint32_t sum = 0;
    while (state != last) {
        const int32_t value = state[1];
        *state++ = (int16_t)value;
        sum += (uint32_t)*times++ * (uint32_t)(value - zero_point);
    }
    const int32_t value = (int16_t)(edgetool_clamp(latest, INT16_MIN, INT16_MAX) + zero_point);
    *state = (int16_t)value;
    return sum + (uint32_t)*times * (uint32_t)(value - zero_point);
}

/* Computes the products of some filters with an input row, in the scale of the state. */
static EDGETOOL_NOINLINE void features(const edgetool_svdf_s8_op *op, const int8_t *input, uint32_t filter,
                                       uint32_t count, int32_t *latest)
{
    const uint32_t depth = op->depth, padded = (depth + 3U) & ~3U;
    const uint8_t *weights = (const uint8_t *)op->weights + (size_t)padded * filter;
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        edgetool_two_dots(weights, weights + padded, input, depth, 0, latest + i);
        weights += (size_t)padded * 2;
    }
    if ((count & 1U) != 0) {
        latest[count - 1] = edgetool_dot(weights, input, depth, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        const int32_t sum = edgetool_plus(latest[i], op->offsets[filter + i]);
        latest[i] = edgetool_multiply(sum, op->multiplier, op->left, op->right);
    }
}

void edgetool_svdf_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_svdf_s8_op *op = (const edgetool_svdf_s8_op *)descriptor;
    const int8_t *input = (const int8_t *)band->rows[0];
    const uint32_t filters = op->units * op->rank;
    int8_t *out = (int8_t *)band->out;
    size_t at = 0; /* in the state */
    for (uint32_t batch = 0; batch < op->batches; batch++) {
        const int8_t *row = input;
        uint32_t sum = 0, rest = op->rank;
        const edgetool_scale *scale = op->scales;
#if defined(EDGETOOL_DSP)
        if (!edgetool_is_aligned(row)) {
            row = (const int8_t *)memcpy(band->scratch, row, op->depth);
        }
#endif
        for (uint32_t filter = 0; filter < filters; filter += SOME) {
            const uint32_t left = filters - filter, count = left < SOME ? left : SOME;
            int32_t latest[SOME];
            features(op, row, filter, count, latest);
            for (uint32_t i = 0; i < count; i++) {
                const size_t times = (size_t)(filter + i) * op->memory;
                if (op->times_s16 != NULL) {
                    sum += remember_s16(op, (int16_t *)band->states[0] + at, op->times_s16 + times, latest[i]);
                } else {
                    sum += remember_s8(op, (int8_t *)band->states[0] + at, op->times_s8 + times, latest[i]);
                }
                at += op->memory;
                if (--rest == 0) {
                    const int32_t value = edgetool_rescale((int32_t)sum, scale, op->shift, op->zero_point);
                    *out++ = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
                    scale++;
                    sum = 0;
                    rest = op->rank;
                }
            }
        }
        input += op->depth;
    }
}
