/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D for int8, pixel by pixel, so that no more than the taps of one pixel are in scratch. Rows: taps_y rows of the
 * input for each output row. Scratch: none for up to EDGETOOL_CONV2D_PLACES taps of whole words, or as many words of
 * codes; else 8 bytes for each of the taps_y * taps_x taps and 4 more if `depth` is a multiple of 4, or one byte for
 * each code of a pixel's taps, rounded up to a multiple of 4. Each of `groups` groups has `depth` input channels and
 * `filters` output channels.
 *
 * With 2 `pixels`, cores with DSP instructions compute two at once, with 16 bytes of scratch more for each four taps, in
 * which those of both are extended to 16 bits. Then `filters` is a multiple of 8, and `shift` not
 * EDGETOOL_DOUBLE_ROUNDING. If the rest needs no scratch, a call without scratch (NULL) computes one pixel at once.
 *
 * `weights` has for each group blocks of eight output channels, and then blocks of two for those that are left: with
 * what the sums of a block begin, the weights, and two or three numbers of each channel, as edgetool_conv2d_tiled_s8
 * has them. Taps are counted as [tap y][tap x][input channel]; missing ones have weights of 0. For each four taps and
 * each pair of channels there are two words, of the taps 0 and 2, and 1 and 3, with one number of 16 bits for a tap: the
 * weight of the first channel plus 256 times that of the second one. In blocks of eight, the words of two pairs follow
 * each other, first those of the taps 0 and 2. The lower byte of a number is the first weight, so the sums of both
 * channels follow from those of the products with lower bytes and with whole numbers: the second one is their difference
 * / 256. It must have at most 24 bits. A pair begins with the first channel's start, and with that plus 256 times the
 * second one's.
 *
 * Input codes are multiplied as they are: the beginnings of sums contain the input's zero point, so that a tap outside
 * the input counts as zero_pixel, which has the zero point for each input channel. Outputs are written in the order
 * of pixels and channels, at most eight at once, and before that all their taps are read; those of two pixels together
 * before any output of either. Fewer than eight `filters` whose taps follow each other in a row are computed for two
 * pixels at once, too, but a single one with DSP instructions: before any output of the second one is written, all taps
 * of both are read. With `descending`, pixels are computed from the last one to the first, so that the output may lie
 * behind the input.
 */
#ifndef EDGETOOL_CONV2D_LEAN_S8_H
#define EDGETOOL_CONV2D_LEAN_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Taps of a pixel, or words of its codes, that need no scratch. */
#define EDGETOOL_CONV2D_PLACES 10

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
    uint8_t pixels;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_conv2d_lean_s8_op;

void edgetool_conv2d_lean_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONV2D_LEAN_S8_H */
