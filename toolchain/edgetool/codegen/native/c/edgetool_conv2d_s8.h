/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D for int8. Rows: taps_y rows of the input for each output row; no scratch.
 *
 * The weights are [output channel][tap y][tap x][input channel of the group], as in the .tflite. Input codes are
 * multiplied as they are: the scales contain the input's zero point, so that a tap outside the input counts as
 * zero_pixel, which holds the zero point once for each input channel. With `descending`, pixels are computed from the
 * last one to the first, so that the output may lie behind the input.
 */
#ifndef EDGETOOL_CONV2D_S8_H
#define EDGETOOL_CONV2D_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* Of int8. */
    const uint32_t *weights;
    const edgetool_scale *scales;
    const int8_t *zero_pixel;
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
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_conv2d_s8_op;

void edgetool_conv2d_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONV2D_S8_H */
