/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8. Rows: taps_y rows of the input for each output row; scratch: the addresses of all taps of
 * a pixel, 8 bytes each, and 4 bytes.
 *
 * The weights are [output channel / 4][tap y][tap x][output channel % 4]; channels that do not exist have weights of 0.
 * Output channel c reads input channel c / depth_multiplier. Input codes are multiplied as they are: the scales contain
 * the input's zero point, so that a tap outside the input counts as zero_pixel, which holds the zero point once for each
 * input channel. The code of a sum is (((sum + low) * multiplier >> 32) + high) >> shift, or of the form "sign" or
 * "double"; it is clamped to int8 and then, when the band is complete, to low .. high of the descriptor.
 *
 * Outputs are written in ascending order, of four channels after all their taps have been read.
 */
#ifndef EDGETOOL_DEPTHWISE_S8_H
#define EDGETOOL_DEPTHWISE_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *weights;
    const edgetool_scale *scales;
    const uint32_t *zero_pixel;
    uint32_t input_width;
    uint32_t output_width;
    uint16_t input_channels;
    uint16_t depth_multiplier;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t shift;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_depthwise_s8_op;

void edgetool_depthwise_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_S8_H */
