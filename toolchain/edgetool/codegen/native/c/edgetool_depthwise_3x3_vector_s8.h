/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8 with windows of 3 by 3 and as many outputs as inputs, a multiple of four, on processors with
 * Helium: sixteen channels are the lanes of a vector. It reads its input where it is, and so needs no scratch. Rows: three
 * rows of the input for each output row.
 *
 * Products of two taps are added up as 16-bit numbers, which therefore must hold all such sums of the first and second
 * tap, of the third and fourth, and so on. Input codes are multiplied as they are: biases contain the input's zero
 * point, so that a tap outside the input counts as zero_pixel, which holds the zero point once for each channel.
 *
 * Without stride, the outputs of all windows inside the input follow each other as their taps do. Blocks of sixteen
 * outputs need not end with a pixel then: `table` has the blocks of `lanes` outputs, which are those of one pixel or of
 * several, after which its first block follows the last one. A block is sixteen biases, the sixteen weights of each tap,
 * and four times four multipliers and four shifts. Biases and scales are those of the channels 0, 4, 8 and 12, then of
 * 2, 6, 10 and 14, of 1, 5, 9 and 13, and of 3, 7, 11 and 15. They are used as in edgetool_conv2d_vector_s8.h; unless
 * `is_signed`, negative sums need not be rounded. Codes are clamped to int8 and then, when the band is complete, to
 * low .. high.
 *
 * Outputs are written in ascending order, of up to sixteen channels after all their taps have been read.
 */
#ifndef EDGETOOL_DEPTHWISE_3X3_VECTOR_S8_H
#define EDGETOOL_DEPTHWISE_3X3_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int32_t *table;
    const int8_t *zero_pixel;
    uint16_t input_width;
    uint16_t output_width;
    uint16_t input_channels;
    uint16_t lanes;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t taps_y;
    uint8_t taps_x;
    uint8_t is_signed;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_depthwise_3x3_vector_s8_op;

void edgetool_depthwise_3x3_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_3X3_VECTOR_S8_H */
