/* SPDX-License-Identifier: 0BSD */
/*
 * SVDF for int8 with a state of int8 or int16 (svdf_common.cc). Rows: one input row for each batch, which are one step:
 * the input with all batches is one row, and so is the output. Scratch: a batch of the input in whole words.
 *
 * states[0] is [batch][filter][memory], int16 if times_s16 is not NULL. Every call shifts the memory of each filter by
 * one place and appends the filter's product with the input. Filters are [unit][rank]; `weights` is [filter][depth],
 * with zeros up to a whole word at the end of each filter, and times_s8 or times_s16, of the state's type,
 * [filter][memory].
 *
 * `offsets` is what each filter adds to its sum of weight times input code: the input's zero point. `multiplier`, with a
 * shift to the left or right, scales that sum to the state. `scales` contain the bias of each unit.
 */
#ifndef EDGETOOL_SVDF_S8_H
#define EDGETOOL_SVDF_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *weights;
    const int32_t *offsets;
    const int8_t *times_s8;
    const int16_t *times_s16;
    const edgetool_scale *scales;
    int32_t multiplier;
    uint32_t batches;
    uint32_t depth;
    uint32_t units;
    uint32_t rank;
    uint32_t memory;
    uint8_t left;
    uint8_t right;
    uint8_t shift;
    int8_t zero_point;
    int16_t state_zero_point;
} edgetool_svdf_s8_op;

void edgetool_svdf_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SVDF_S8_H */
