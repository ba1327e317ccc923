/* SPDX-License-Identifier: 0BSD */
/*
 * MAX_POOL_2D for int16. Rows: taps_y rows of the input for each output row; no scratch.
 *
 * Each output is the largest code of its window inside the image.
 */
#ifndef EDGETOOL_MAX_POOL_S16_H
#define EDGETOOL_MAX_POOL_S16_H

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
    int16_t low;
    int16_t high;
} edgetool_max_pool_s16_op;

void edgetool_max_pool_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_MAX_POOL_S16_H */
