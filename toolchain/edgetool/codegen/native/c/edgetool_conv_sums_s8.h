/* SPDX-License-Identifier: 0BSD */
/*
 * CONV_2D with one tap for int8, and the sums of its codes over all pixels, with which edgetool_mean_of_sums_s8 goes on.
 * Rows: one of the convolution's input for each call, or several in a band; no scratch.
 *
 * The output is one row of int32 sums for all rows of the input: the band with the first row sets it, and the others add
 * to it. The fields are those of edgetool_conv2d_s8.
 */
#ifndef EDGETOOL_CONV_SUMS_S8_H
#define EDGETOOL_CONV_SUMS_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* Of int8. */
    const uint32_t *weights;
    const edgetool_scale *scales;
    uint32_t input_width;
    uint16_t input_channels;
    uint16_t output_channels;
    uint8_t shift;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_conv_sums_s8_op;

void edgetool_conv_sums_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONV_SUMS_S8_H */
