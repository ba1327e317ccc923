/* SPDX-License-Identifier: 0BSD */
/*
 * ADD and SUB for int8 of two rows with as many elements as the output, on processors with Helium. Rows: one input row
 * of each operand for each output row; no scratch.
 *
 * An output code is (a * numbers[0] + b * numbers[1] + numbers[2]) >> shift, clamped to low .. high; see
 * edgetool_add_s8.h. Four outputs are written at once, in ascending order, after the operands' elements are read.
 */
#ifndef EDGETOOL_ADD_VECTOR_S8_H
#define EDGETOOL_ADD_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count;
    int32_t numbers[3];
    uint8_t shift;
    int8_t low;
    int8_t high;
} edgetool_add_vector_s8_op;

void edgetool_add_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ADD_VECTOR_S8_H */
