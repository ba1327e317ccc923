/* SPDX-License-Identifier: 0BSD */
/*
 * BATCH_MATMUL for int8, and FULLY_CONNECTED with weights that the model computes. Rows: each whole tensor is one row,
 * left operand first. Scratch: if has_scratch is 1, a word, and four words for each four of depth + 9 elements; none
 * otherwise. There are copies of a row whose elements are apart, or its elements as pairs for DSP instructions.
 *
 * The output is [batches[0]][batches[1]][batches[2]][rows][columns]. Elements of the operands are found by their
 * steps: a step of 0 along a batch axis repeats an operand. `bias` is NULL or has one number for each column.
 * Elements of a row or of a column of the right operand are next to each other. Outputs are written in ascending order,
 * each after the elements that it depends on are read.
 */
#ifndef EDGETOOL_BATCH_MATMUL_S8_H
#define EDGETOOL_BATCH_MATMUL_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const edgetool_scale *scale;
    const int32_t *bias;
    uint32_t batches[3];
    uint32_t left_steps[3];
    uint32_t right_steps[3];
    uint32_t rows;
    uint32_t columns;
    uint32_t depth;
    uint32_t left_row_step;
    uint32_t left_depth_step;
    uint32_t right_column_step;
    uint32_t right_depth_step;
    uint8_t has_scratch;
    uint8_t shift;
    int8_t left_zero_point;
    int8_t right_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_batch_matmul_s8_op;

void edgetool_batch_matmul_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_BATCH_MATMUL_S8_H */
