/* SPDX-License-Identifier: 0BSD */
#include "edgetool_svdf_s8.h"

/* The product of a filter with an input row, in the scale of the state. */
static int32_t feature(const edgetool_svdf_s8_op *op, const int8_t *input, uint32_t filter)
{
    const int8_t *weights = op->weights + (size_t)filter * op->depth;
    int32_t sum = op->offsets[filter];
    for (uint32_t i = 0; i < op->depth; i++) {
        sum += weights[i] * input[i];
    }
    return edgetool_multiply(sum, op->multiplier, op->left, op->right);
}

/* Moves the memory of a filter on by one place and returns its product with the time weights. */
static uint32_t remember_s8(const edgetool_svdf_s8_op *op, int8_t *state, const int8_t *times, int32_t latest)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < op->memory; i++) {
        state[i] = i + 1 < op->memory ? state[i + 1]
                                      : (int8_t)(edgetool_clamp(latest, INT8_MIN, INT8_MAX) + op->state_zero_point);
        sum += (uint32_t)(times[i] * (state[i] - op->state_zero_point));
    }
    return sum;
}

static uint32_t remember_s16(const edgetool_svdf_s8_op *op, int16_t *state, const int16_t *times, int32_t latest)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < op->memory; i++) {
        state[i] = i + 1 < op->memory ? state[i + 1]
                                      : (int16_t)(edgetool_clamp(latest, INT16_MIN, INT16_MAX) + op->state_zero_point);
        sum += (uint32_t)times[i] * (uint32_t)(state[i] - op->state_zero_point);
    }
    return sum;
}

void edgetool_svdf_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_svdf_s8_op *op = (const edgetool_svdf_s8_op *)descriptor;
    const int8_t *input = (const int8_t *)band->rows[0];
    int8_t *out = (int8_t *)band->out;
    size_t at = 0; /* in the state */
    for (uint32_t batch = 0; batch < op->batches; batch++) {
        uint32_t filter = 0;
        for (uint32_t unit = 0; unit < op->units; unit++) {
            uint32_t sum = 0;
            for (uint32_t i = 0; i < op->rank; i++) {
                const int32_t latest = feature(op, input, filter);
                const size_t times = (size_t)filter * op->memory;
                if (op->times_s16 != NULL) {
                    sum += remember_s16(op, (int16_t *)band->states[0] + at, op->times_s16 + times, latest);
                } else {
                    sum += remember_s8(op, (int8_t *)band->states[0] + at, op->times_s8 + times, latest);
                }
                at += op->memory;
                filter++;
            }
            const int32_t value = edgetool_rescale((int32_t)sum, &op->scales[unit], op->shift, op->zero_point);
            out[unit] = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
        }
        input += op->depth;
        out += op->units;
    }
}
