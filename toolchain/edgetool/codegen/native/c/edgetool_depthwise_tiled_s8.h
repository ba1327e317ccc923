/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8 without depth multiplier, with columns of taps that follow each other (dilation 1); fast
 * on processors with DSP. Rows: taps_y rows of the input for each output row. The code of a sum is
 * (((sum + low) * multiplier >> 32) + high) >> shift, which contains zero points and rounding, clamped to int8 and then,
 * when the band is complete, to low .. high of the descriptor; the shift is 0 if is_3x3, else 2.
 *
 * With DSP, four channels and `tile` output columns are computed at once, of some groups of output rows. A group is two
 * output rows if `advance`, the tap rows from an output row to the next one, is 1, else one row. `groups` is how many
 * are computed at once; `advance` is 0 if output rows do not share tap rows. For each of the channels, scratch has a
 * plane with words of two tap rows each as int16: eight of them for each column, of which group g has `pairs`, from g
 * on. The two rows of a group have the same words and other weights. If is_3x3 (and strides are 1), the weights are in
 * registers, else pairs are 2, 3 or 4. Without DSP, the kernel computes pixel by pixel from a table of addresses.
 *
 * The weights are [channel / 4][word][channel % 4]; channels that do not exist have weights of 0. If is_3x3, word x has
 * the taps 0, 1, 1 and 2 of column x. Else the pairs of tap rows of all columns, [tap x][tap y / 2], are two by two in
 * a word: the first taps of both, then the second ones; taps that do not exist are 0.
 * Input codes are multiplied as they are: scales contain the input's zero point, so that a tap outside the input counts
 * as zero_pixel, which holds the zero point once for each channel, at least four times.
 *
 * Scratch in words: with DSP 64, four for each group and pair of tap rows, four planes, and unless is_3x3 four for each
 * word of weights, two for each output of a tile in all groups, and 16; without DSP two for each address, and 1.
 *
 * All outputs of a band may be written before an input row of it has been read for the last time.
 */
#ifndef EDGETOOL_DEPTHWISE_TILED_S8_H
#define EDGETOOL_DEPTHWISE_TILED_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *weights;
    const edgetool_scale *scales;
    const uint32_t *zero_pixel;
    uint16_t input_width;
    uint16_t output_width;
    uint16_t tile;
    uint16_t input_channels;
    uint16_t words;
    uint16_t stride_x;
    uint16_t pad_x;
    uint8_t taps_y;
    uint8_t taps_x;
    uint8_t groups;
    uint8_t pairs;
    uint8_t advance;
    uint8_t is_3x3;
    int8_t low;
    int8_t high;
} edgetool_depthwise_tiled_s8_op;

void edgetool_depthwise_tiled_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_TILED_S8_H */
