/* SPDX-License-Identifier: 0BSD */
#include "edgetool_lstm.h"

#include "edgetool_sigmoid_s16.h"

static int32_t saturated(int32_t value)
{
    return edgetool_clamp(value, INT16_MIN, INT16_MAX);
}

static int32_t scaled(const edgetool_lstm_op *op, int32_t value, uint32_t i)
{
    return edgetool_multiply(value, op->multipliers[i], op->left[i], op->right[i]);
}

static int32_t dot_s8(const int8_t *weights, const int8_t *codes, uint32_t count)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i] * codes[i];
    }
    return sum;
}

static int64_t dot_s16(const int8_t *weights, const int16_t *codes, uint32_t count)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i] * codes[i];
    }
    return sum;
}

/* The argument of a gate's sigmoid or tanh. */
static int32_t gate(const edgetool_lstm_op *op, const void *input, const void *hidden, uint32_t unit, uint32_t kind)
{
    const size_t index = (size_t)unit * 4 + kind;
    const int8_t *weights = op->weights + index * (op->depth + op->units);
    int32_t first, second;
    if (op->scales != NULL) {
        const int64_t sum = dot_s16(weights, (const int16_t *)input, op->depth);
        const int64_t recurrent = dot_s16(weights + op->depth, (const int16_t *)hidden, op->units);
        first = edgetool_rescale_wide(sum, &op->scales[2 * index], EDGETOOL_WIDE, 0);
        second = edgetool_rescale_wide(recurrent, &op->scales[2 * index + 1], EDGETOOL_WIDE, 0);
    } else {
        const int32_t sum = dot_s8(weights, (const int8_t *)input, op->depth);
        const int32_t recurrent = dot_s8(weights + op->depth, (const int8_t *)hidden, op->units);
        first = scaled(op, (int32_t)((uint32_t)sum + (uint32_t)op->offsets[2 * index]), 2 * kind);
        second = scaled(op, (int32_t)((uint32_t)recurrent + (uint32_t)op->offsets[2 * index + 1]), 2 * kind + 1);
    }
    return 3 * saturated(saturated(first) + saturated(second));
}

/* Updates the cell state of a unit and returns its new hidden state, not yet saturated. */
static int32_t step(const edgetool_lstm_op *op, const void *input, const void *hidden, int16_t *cells, uint32_t unit)
{
    const int32_t forget = edgetool_sigmoid_s16(op->sigmoid, gate(op, input, hidden, unit, 0));
    const int32_t update = edgetool_sigmoid_s16(op->sigmoid, gate(op, input, hidden, unit, 1));
    const int32_t candidate = edgetool_tanh_s16(op->sigmoid, gate(op, input, hidden, unit, 2));
    const int32_t output = edgetool_sigmoid_s16(op->sigmoid, gate(op, input, hidden, unit, 3));
    const int32_t kept = saturated(scaled(op, forget * cells[unit], 8));
    const int32_t added = saturated(scaled(op, update * candidate, 9));
    const int32_t cell = edgetool_clamp(saturated(kept + added), -op->clip, op->clip);
    const int32_t half = op->tanh_right != 0 ? 1 << (op->tanh_right - 1) : 0;
    const int32_t argument = (cell * (3 << op->tanh_left) + half) >> op->tanh_right;
    cells[unit] = (int16_t)cell;
    return scaled(op, edgetool_tanh_s16(op->sigmoid, argument) * output, 10) + op->zero_point;
}

void edgetool_lstm(const void *descriptor, const edgetool_band *band)
{
    const edgetool_lstm_op *op = (const edgetool_lstm_op *)descriptor;
    const uint32_t width = op->scales != NULL ? 2 : 1; /* of a code in bytes */
    const size_t state_bytes = (size_t)op->units * width;
    const uint8_t *input = (const uint8_t *)band->rows[0];
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < op->rows; row++) {
        const uint32_t batch = op->time_major != 0 ? row % op->batches : row / (op->rows / op->batches);
        uint8_t *hidden = (uint8_t *)band->states[0] + batch * state_bytes;
        int16_t *cells = (int16_t *)band->states[1] + (size_t)batch * op->units;
        for (uint32_t unit = 0; unit < op->units; unit++) {
            const int32_t value = step(op, input, hidden, cells, unit);
            if (width == 1) {
                ((int8_t *)out)[unit] = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
            } else {
                ((int16_t *)(void *)out)[unit] = (int16_t)saturated(value);
            }
        }
        memcpy(hidden, out, state_bytes);
        input += (size_t)op->depth * width;
        out += state_bytes;
    }
}
