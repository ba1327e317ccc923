/* SPDX-License-Identifier: 0BSD */
/*
 * FULLY_CONNECTED for int16 with int8 weights. Rows: one row of `depth` codes for each output row of `units` codes; no
 * scratch.
 *
 * The weights are [unit][depth], as in the .tflite. Input codes are multiplied as they are: the scales contain the
 * input's zero point. Outputs are written in ascending order.
 */
#ifndef EDGETOOL_DENSE_S16_H
#define EDGETOOL_DENSE_S16_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const edgetool_scale *scales;
    uint32_t depth;
    uint32_t units;
    uint8_t shift;
    int8_t weights_zero_point;
    int16_t zero_point;
    int16_t low;
    int16_t high;
} edgetool_dense_s16_op;

void edgetool_dense_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DENSE_S16_H */
