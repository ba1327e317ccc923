/* SPDX-License-Identifier: 0BSD */
/*
 * UNIDIRECTIONAL_SEQUENCE_LSTM for int8 and int16 with a cell state of int16 (lstm_eval.h). Rows: the input is one row
 * with all steps of all batches, and so is the output; `rows` is the number of steps of all batches. No scratch.
 *
 * states[0] is the hidden state [batch][unit] of the input's type, states[1] the cell state [batch][unit]. Each step
 * writes the new hidden state to the output first, because all units read the old one.
 *
 * `weights` is [unit][gate][depth + units]: those of the input, then those of the hidden state; the gates are forget,
 * input, candidate and output. Their sums are int16 in units of 2^-12, saturated, and saturated again when added:
 *
 * - int8: `offsets` [unit][gate][2] is what the two sums of weight times code lack: bias and zero points; multipliers 2 *
 *   gate and 2 * gate + 1 scale them, with a shift to the left or to the right.
 * - int16: `scales` [unit][gate][2] in the form "wide"; NULL for int8.
 *
 * Multiplier 8 scales forget gate times cell state, 9 input gate times candidate, 10 output gate times tanh of the cell.
 * The cell state is clamped to -clip .. clip, and times 3 << tanh_left, shifted right by tanh_right with rounding, it is
 * the argument of tanh.
 */
#ifndef EDGETOOL_LSTM_H
#define EDGETOOL_LSTM_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const int32_t *offsets;
    const edgetool_scale *scales;
    const uint16_t *sigmoid;
    uint32_t rows;
    uint32_t batches;
    uint32_t depth;
    uint32_t units;
    int32_t multipliers[11];
    uint8_t left[11];
    uint8_t right[11];
    uint8_t time_major;
    uint8_t tanh_left;
    uint8_t tanh_right;
    int32_t clip;
    int32_t zero_point;
} edgetool_lstm_op;

void edgetool_lstm(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_LSTM_H */
