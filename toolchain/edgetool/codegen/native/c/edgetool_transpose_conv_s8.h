/* SPDX-License-Identifier: 0BSD */
/*
 * TRANSPOSE_CONV for int8, as a sum over the input pixels that reach an output pixel. Rows: input_rows rows of the
 * input for each output row y, from (y + pad_y) / stride_y - input_rows + 1 on; no scratch.
 *
 * The weights are [output channel][tap y][tap x][input channel], as in the .tflite. The zero point is subtracted from
 * each input code, because output pixels at the border have fewer taps. Outputs are written in ascending order.
 */
#ifndef EDGETOOL_TRANSPOSE_CONV_S8_H
#define EDGETOOL_TRANSPOSE_CONV_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int8_t *weights;
    const edgetool_scale *scales;
    uint32_t input_width;
    uint32_t output_width;
    uint16_t input_rows;
    uint16_t input_channels;
    uint16_t output_channels;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_y;
    uint16_t stride_x;
    uint16_t pad_y;
    uint16_t pad_x;
    uint8_t shift;
    int8_t input_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_transpose_conv_s8_op;

void edgetool_transpose_conv_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_TRANSPOSE_CONV_S8_H */
