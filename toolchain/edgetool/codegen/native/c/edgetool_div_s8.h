/* SPDX-License-Identifier: 0BSD */
/*
 * DIV for int8. Rows: one input row of each operand for each output row; `loops` is explained in edgetool_broadcast.h.
 * No scratch. Outputs are written in ascending order, each after the operands' elements are read.
 *
 * reciprocals[v] is the reciprocal of v * 2^-n, n being the bits of v less 1, for v = 0 .. 255: GetReciprocal in
 * TFLite's common.h, which has a result for 0, too. The quotient is scaled with the multiplier and `shift`, which is to
 * the left (DivElementwise in div.h), and clamped to low .. high.
 */
#ifndef EDGETOOL_DIV_S8_H
#define EDGETOOL_DIV_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    const int32_t *reciprocals;
    int32_t multiplier;
    int8_t shift;
    int8_t zero_points[3];
    int8_t low;
    int8_t high;
} edgetool_div_s8_op;

void edgetool_div_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DIV_S8_H */
