/* SPDX-License-Identifier: 0BSD */
/*
 * MUL for int8 on processors with Helium. Rows: one input row of each operand for each output row; `loops` is explained
 * in edgetool_broadcast.h. No scratch. Four outputs are written at once, in ascending order, after the operands'
 * elements are read.
 *
 * The product of the codes less their zero points is scaled with `multiplier` and `shift`, from -31 to -1, as
 * edgetool_scaled does, and clamped to low .. high.
 */
#ifndef EDGETOOL_MUL_VECTOR_S8_H
#define EDGETOOL_MUL_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t multiplier;
    int8_t shift;
    int8_t zero_points[2];
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_mul_vector_s8_op;

void edgetool_mul_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_MUL_VECTOR_S8_H */
