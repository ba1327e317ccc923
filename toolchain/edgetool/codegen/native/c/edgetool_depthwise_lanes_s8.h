/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8 without depth multiplier on processors with Helium, for rows of so few outputs, or windows
 * of so few taps, that edgetool_depthwise_vector_s8 has more instructions: eight channels of a pixel are the lanes of a
 * vector. Rows: taps_y rows of the input for each output row; scratch: the addresses of all taps of a pixel, 8 bytes
 * each, and 4 bytes.
 *
 * The weights are [channel / 8][tap y][tap x][channel % 8]; channels that do not exist have weights of 0. Input codes are
 * multiplied as they are: biases contain the input's zero point, so that a tap outside the input counts as zero_pixel,
 * which holds the zero point once for each channel. Every eight channels have eight biases, eight multipliers and eight
 * shifts in `scales`, those of even channels in front; they are used as in edgetool_conv2d_vector_s8.h for outputs on
 * both sides of the zero point: if all negative results are clamped to it, 1 less does not change them.
 *
 * Outputs are written in ascending order, of eight channels after all their taps have been read.
 */
#ifndef EDGETOOL_DEPTHWISE_LANES_S8_H
#define EDGETOOL_DEPTHWISE_LANES_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const int32_t *scales;
    const int8_t *zero_pixel;
    uint16_t input_width;
    uint16_t output_width;
    uint16_t input_channels;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_depthwise_lanes_s8_op;

void edgetool_depthwise_lanes_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_LANES_S8_H */
