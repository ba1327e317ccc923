/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D with one tap, and the DEPTHWISE_CONV_2D that reads it, for int8. Rows: taps_y rows of the convolution's input
 * for each output row; scratch: four channels of the columns of a window, 4 * taps_y * ((taps_x - 1) * dilation_x + 1)
 * bytes.
 *
 * Nothing keeps the rows between the two: each output row computes again those that it needs, four channels after the
 * other, from the first column of the window to the last one. `weights`, `scales`, `shift`, `zero_point`, `low` and
 * `high` are those of edgetool_conv2d_s8; fields with `depthwise` are those of edgetool_depthwise_s8. A tap outside the
 * image counts as `outside`. Each output channel reads one channel of the convolution.
 *
 * All of the input is read again after outputs are written, which must therefore be apart from it.
 */
#ifndef EDGETOOL_EXPAND_DEPTHWISE_S8_H
#define EDGETOOL_EXPAND_DEPTHWISE_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* Of int8. */
    const uint32_t *weights;
    const edgetool_scale *scales;
    const uint32_t *depthwise_weights;
    const edgetool_scale *depthwise_scales;
    uint32_t input_width;
    uint32_t output_width;
    uint16_t input_channels;
    uint16_t output_channels;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t shift;
    uint8_t depthwise_shift;
    int8_t zero_point;
    int8_t low;
    int8_t high;
    int8_t outside;
    int8_t depthwise_zero_point;
    int8_t depthwise_low;
    int8_t depthwise_high;
} edgetool_expand_depthwise_s8_op;

void edgetool_expand_depthwise_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_EXPAND_DEPTHWISE_S8_H */
