/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D for int8, fast and with scratch. Rows: taps_y rows of the input for each output row; scratch: the taps of
 * four pixels as int16, 8 bytes for each of the taps_y * taps_x * depth taps, rounded up to a multiple of 4. Each of
 * `groups` groups has `depth` input channels and `filters` output channels.
 *
 * `weights` has for two output channels of a group after the other: with what each of their sums begins, the weights,
 * and two or three numbers of each channel. The weights are [tap / 4][tap % 2][tap / 2 % 2][channel] with taps counted
 * as [tap y][tap x][input channel]: a word has two taps of two channels. The last 1 to 3 of each row follow behind all
 * rows if its number of taps is not a multiple of 4, or those of each [tap y][tap x] if there are groups or a dilation.
 * Taps and channels that do not exist have weights of 0.
 * Input codes are multiplied as they are: the beginnings of sums contain the input's zero point, so that a tap
 * outside the input counts as zero_pixel, which has the zero point for each input channel, and at least 16 times.
 *
 * The numbers of a channel give the code of its sum, which begins with bias and zero points:
 *
 * - ((sum * first >> 32) + second) >> 3: a line with one multiplication of which only the upper word is needed.
 * - `shift` is EDGETOOL_SIGN: (((sum * first + 2^30) >> 31) + second + (sum >> 31)) >> third, where the second one
 *   contains the half of the divisor and the output's zero point.
 * - `shift` is EDGETOOL_DOUBLE_ROUNDING: double rounding with the multiplier `first`; the second one has the left shift
 *   in its upper half and the right shift in its lower half.
 *
 * All taps of a group of up to four pixels are copied to scratch before any output of the group is written, and groups
 * follow each other in the order of the pixels: the order of edgetool_conv2d_s8, or one that reads earlier. With
 * `descending`, groups are computed from the last one to the first, so that the output may lie behind the input. With
 * several groups of channels, all rows of the call are complete in one of them before any tap of the next one is
 * copied.
 */
#ifndef EDGETOOL_CONV2D_TILED_S8_H
#define EDGETOOL_CONV2D_TILED_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *weights;
    const uint32_t *zero_pixel;
    uint16_t input_width;
    uint16_t output_width;
    uint16_t depth;
    uint16_t filters;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t shift;
    uint8_t descending;
    uint8_t groups;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_conv2d_tiled_s8_op;

void edgetool_conv2d_tiled_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONV2D_TILED_S8_H */
