/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8 without depth multiplier, with windows of 3 x 3 taps that follow each other and of which
 * at most one row and one column are outside the input on each side; the stride along a row is 1 or 2. Rows: 3 rows of
 * the input for each output row; no scratch.
 *
 * `weights` has six words for each channel. The first two are the bytes of the taps (y, x) 00, 01, 10, 11, and 02, 20,
 * 12, 21; the third one has the tap 22 in its lower half and the number of channels in the upper one. The others are
 * `low`, `multiplier` and `high` of a scale as edgetool_depthwise_tiled_s8 has them if is_3x3. zero_pixel holds the
 * input's zero point once for each channel, at least four times.
 *
 * With DSP, the weights of a channel are in registers, and each column of the input is read once for all outputs that
 * need it: a row is computed channel by channel. That is as good as pixel by pixel where an output channel has only
 * bytes of the same channel of the input. If the output row has bytes of a row of taps at a distance that is no multiple
 * of a pixel, only as many pixels are computed together as are in front of the first one that they read, or single ones.
 * Without DSP, the kernel computes pixel by pixel. Either way, outputs may have bytes of the input as if they were
 * written in ascending order, of four channels after all their taps have been read.
 */
#ifndef EDGETOOL_DEPTHWISE_3X3_S8_H
#define EDGETOOL_DEPTHWISE_3X3_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *weights;
    const uint32_t *zero_pixel;
    uint16_t input_width;
    uint16_t output_width;
    uint16_t input_channels;
    uint8_t taps_y;
    uint8_t taps_x;
    uint8_t stride_x;
    uint8_t pad_x;
    int8_t low;
    int8_t high;
} edgetool_depthwise_3x3_s8_op;

void edgetool_depthwise_3x3_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_3X3_S8_H */
