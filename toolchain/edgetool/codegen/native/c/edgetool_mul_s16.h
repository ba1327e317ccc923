/* SPDX-License-Identifier: 0BSD */
/*
 * MUL for int16. Rows: one input row of each operand for each output row; `loops` is explained in edgetool_broadcast.h.
 * No scratch. Outputs are written in ascending order, each after the operands' elements are read.
 *
 * The product of the codes, whose zero points are 0, is scaled with `scale` (edgetool_scale) and clamped to low ..
 * high.
 */
#ifndef EDGETOOL_MUL_S16_H
#define EDGETOOL_MUL_S16_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    const edgetool_scale *scale;
    uint8_t shift;
    int16_t low;
    int16_t high;
} edgetool_mul_s16_op;

void edgetool_mul_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_MUL_S16_H */
