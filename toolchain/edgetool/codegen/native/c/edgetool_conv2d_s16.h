/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D for int16 with int8 weights. Rows: taps_y rows of the input for each output row; no scratch.
 *
 * The weights are [output channel][tap y][tap x][input channel of the group], as in the .tflite. Zero points are
 * ignored, as in TFLM's kernel. With `descending`, pixels are computed from the last one to the first, so that the
 * output may lie behind the input.
 */
#ifndef EDGETOOL_CONV2D_S16_H
#define EDGETOOL_CONV2D_S16_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const edgetool_scale *scales;
    uint32_t input_width;
    uint32_t output_width;
    uint16_t input_channels;
    uint16_t output_channels;
    uint16_t groups;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t shift;
    uint8_t descending;
    int16_t low;
    int16_t high;
} edgetool_conv2d_s16_op;

void edgetool_conv2d_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONV2D_S16_H */
