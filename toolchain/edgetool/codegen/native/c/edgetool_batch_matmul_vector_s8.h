/* SPDX-License-Identifier: 0BSD */
/*
 * BATCH_MATMUL for int8, and FULLY_CONNECTED with weights that the model computes, on processors with Helium. Rows: each
 * whole tensor is one row, left operand first. Scratch: a word for each column, rounded up to a multiple of four, then
 * the right operand of a batch if the elements of its columns are apart (right_depth_step > 1), then a row of the left
 * operand if its elements are (left_depth_step > 1).
 *
 * Shapes, steps and bias are as in edgetool_batch_matmul_s8.h. `scales` has four times the same multiplier, and then
 * four times the same shift, which are used as in edgetool_conv2d_vector_s8.h. Outputs are written in ascending order,
 * each after the elements that it depends on are read.
 */
#ifndef EDGETOOL_BATCH_MATMUL_VECTOR_S8_H
#define EDGETOOL_BATCH_MATMUL_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int32_t *scales;
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
    int8_t left_zero_point;
    int8_t right_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_batch_matmul_vector_s8_op;

void edgetool_batch_matmul_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_BATCH_MATMUL_VECTOR_S8_H */
