/* SPDX-License-Identifier: 0BSD */
/*
 * SQUARED_DIFFERENCE for int8 and int16, elements of `bytes`. Rows: one input row of each operand for each output row;
 * `loops` is explained in edgetool_broadcast.h. No scratch. Outputs are written in ascending order, each after the
 * operands' elements are read.
 *
 * The codes less their zero points, times 2^left_shift, are scaled with multiplier[0] and [1], subtracted, squared, and
 * scaled with multiplier[2], which may have a shift to the left (squared_difference.cc).
 */
#ifndef EDGETOOL_SQUARED_DIFFERENCE_H
#define EDGETOOL_SQUARED_DIFFERENCE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t multiplier[3];
    int16_t zero_points[3];
    uint8_t right[3];
    uint8_t left;
    uint8_t left_shift;
    uint8_t bytes;
} edgetool_squared_difference_op;

void edgetool_squared_difference(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SQUARED_DIFFERENCE_H */
