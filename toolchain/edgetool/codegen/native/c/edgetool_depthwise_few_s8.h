/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8 with few channels or many taps outside the input. Rows: taps_y rows of the input for each
 * output row; scratch: none.
 *
 * Output channel c reads input channel c / depth_multiplier. If the multiplier is 1 or a multiple of 4, output channels
 * are computed in fours, whose weights are [output channel / 4][tap y][tap x][output channel % 4]. The weights of the
 * others follow as [output channel][tap y][tap x]. Only taps inside the input are read, and multiplied without the
 * input's zero point. The code of a sum is (((sum + low) * multiplier >> 32) + high) >> shift, where sums wrap until
 * they are complete, or of the form "sign" or "double"; it is clamped to int8 and then, when the band is complete, to
 * low .. high of the descriptor.
 *
 * Outputs are written in ascending order, of four channels or one after all their taps have been read.
 */
#ifndef EDGETOOL_DEPTHWISE_FEW_S8_H
#define EDGETOOL_DEPTHWISE_FEW_S8_H

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
    uint16_t depth_multiplier;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t shift;
    int8_t input_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_depthwise_few_s8_op;

void edgetool_depthwise_few_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_FEW_S8_H */
