/* SPDX-License-Identifier: 0BSD */
/*
 * AVERAGE_POOL_2D for int8. Rows: taps_y rows of the input for each output row; no scratch.
 *
 * Each output is the mean of its window's codes inside the image, one or more, rounded half away from zero.
 */
#ifndef EDGETOOL_AVERAGE_POOL_S8_H
#define EDGETOOL_AVERAGE_POOL_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t input_width;
    uint32_t output_width;
    uint32_t channels;
    uint32_t taps_x;
    uint32_t stride_x;
    uint32_t pad_x;
    uint16_t taps_y;
    int8_t low;
    int8_t high;
} edgetool_average_pool_s8_op;

void edgetool_average_pool_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_AVERAGE_POOL_S8_H */
