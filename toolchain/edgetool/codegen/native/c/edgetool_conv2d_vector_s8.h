/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D for int8 on processors with Helium. Rows: taps_y rows of the input for each output row. Each of `groups`
 * groups has `depth` input channels and `filters` output channels.
 *
 * The columns of the input that a tile of up to `tile` output columns needs are copied to scratch once, so that the
 * taps of a pixel follow each other: [tap x][tap y][input channel]. With `is_direct`, they do so in the input: windows
 * of one row in it, with all channels or one column. If there are at most 32 taps, a group of pixels is held in
 * registers, else the taps of three or two pixels are read for every two channels, and those of a single one for every
 * four. A group's only output channel is computed for four pixels at once, or for two if there are no more.
 *
 * The weights of a group are [output channel][tap x][tap y][input channel], with channels of zeros up to a multiple of
 * four if there are several. If there are at most 32 for a channel, zeros follow each channel's up to a multiple of 16.
 * Input codes are multiplied as they are: the input's zero point is in the biases, and stands for taps outside the input
 * (`outside`). Every four channels of a group have four biases, four multipliers and four shifts in `scales`; the only
 * channel of a group has its own four times. An output is the product with the multiplier
 * as edgetool_high_mul has it, less 1 for a negative sum if `is_signed`, shifted right with rounding; the shifts are
 * negative.
 *
 * Scratch: the columns of a tile behind 16 bytes, 16 + ((tile - 1) * stride_x + taps_x) * taps_y * depth, or
 * 16 + tile * taps_x * taps_y * depth with a dilation; with `is_direct`, the taps of three pixels if they are more than
 * 32, else nothing.
 *
 * The taps of a group of pixels are copied to scratch or registers before any output of it is written, except where
 * `is_direct` and the bytes of the outputs are others than those of the taps. With `descending`, pixels are computed
 * from the last one to the first, so that the output may lie behind the input. With several groups of channels, all
 * rows of the call are complete in one of them before any tap of the next one is copied.
 */
#ifndef EDGETOOL_CONV2D_VECTOR_S8_H
#define EDGETOOL_CONV2D_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const int32_t *scales;
    uint16_t input_width;
    uint16_t output_width;
    uint16_t tile;
    uint16_t depth;
    uint16_t filters;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t is_direct;
    uint8_t is_signed;
    uint8_t descending;
    uint8_t groups;
    int8_t outside;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_conv2d_vector_s8_op;

void edgetool_conv2d_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONV2D_VECTOR_S8_H */
