/* SPDX-License-Identifier: 0BSD */
/*
 * FULLY_CONNECTED for int8, and BATCH_MATMUL with a constant right operand. Rows: one row of `depth` codes for each
 * output row of `units` codes; no scratch.
 *
 * The weights are [unit][depth], as in the .tflite. Input codes are multiplied as they are: the input's zero point is
 * in the scales, or in `offsets`, which is added to the sums if all units share one scale (scale_step 0); it is NULL
 * otherwise (scale_step 1). Outputs are written in ascending order.
 */
#ifndef EDGETOOL_DENSE_S8_H
#define EDGETOOL_DENSE_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const edgetool_scale *scales;
    const int32_t *offsets;
    uint32_t depth;
    uint32_t units;
    uint8_t scale_step;
    uint8_t shift;
    int8_t weights_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_dense_s8_op;

void edgetool_dense_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DENSE_S8_H */
