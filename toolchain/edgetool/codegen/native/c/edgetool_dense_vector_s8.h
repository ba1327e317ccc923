/* SPDX-License-Identifier: 0BSD */
/*
 * FULLY_CONNECTED for int8, and BATCH_MATMUL with a constant right operand, on processors with Helium. Rows: one row of
 * `rows` times `depth` codes for each output row of `rows` times `units` codes; no scratch.
 *
 * The weights are [unit][depth]. Input codes are multiplied as they are: the input's zero point is in `bias`, which has
 * a multiple of four numbers. Every four units have four multipliers and four shifts in `scales`, where the next four
 * are `scale_step` numbers behind; they are used as in edgetool_conv2d_vector_s8.h. If there is one unit, all rows
 * share one scale, and `bias` has the unit's number for each of them. Outputs are written in ascending order, four after
 * all their codes are read.
 */
#ifndef EDGETOOL_DENSE_VECTOR_S8_H
#define EDGETOOL_DENSE_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *scales;
    uint32_t rows;
    uint32_t depth;
    uint32_t units;
    uint8_t scale_step;
    int8_t weights_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_dense_vector_s8_op;

void edgetool_dense_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DENSE_VECTOR_S8_H */
