/* SPDX-License-Identifier: 0BSD */
/*
 * PRELU for int8 and int16, elements of `bytes`, with slopes of int8: the second operand. Rows: one input row of each
 * operand for each output row; `loops` is explained in edgetool_broadcast.h. No scratch. Outputs are written in
 * ascending order, each after the operands' elements are read.
 *
 * A code less its zero point is scaled with multiplier[0] if it is not negative; otherwise its product with the slope,
 * less the slope's zero point, is scaled with multiplier[1] (prelu.h). zero_points: input, slopes, output.
 */
#ifndef EDGETOOL_PRELU_H
#define EDGETOOL_PRELU_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t multiplier[2];
    int16_t zero_points[3];
    uint8_t left[2];
    uint8_t right[2];
    uint8_t bytes;
} edgetool_prelu_op;

void edgetool_prelu(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_PRELU_H */
