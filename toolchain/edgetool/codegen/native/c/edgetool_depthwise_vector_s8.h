/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8 with as many outputs as inputs, on processors with Helium. Rows: taps_y rows of the input
 * for each output row.
 *
 * A window is computed as a product of vectors, channel by channel. For this, up to 16 channels of a tile of up to
 * `tile` output columns are copied to scratch as words of four rows: [column][group of rows][channel][row], with 1, 2
 * or 4 `groups` of rows. A word of the window is then a column of a group, and `vectors` vectors of four words, 1, 3
 * or 4, are a window. Words behind the window have weights of 0. With `paired`, for windows of 3 by 3 without stride and
 * dilation, the outputs of 2 by 2 pixels are computed from one vector, if two output rows of the band share rows.
 *
 * The weights are 4 zeros and, for each channel, [word][row], up to a whole number of vectors. Input codes are
 * multiplied as they are: the input's zero point is in the biases, and stands for taps outside the input (`outside`).
 * Each channel has a bias, a multiplier and a shift in `scales`, used as in edgetool_conv2d_vector_s8.h; unless
 * `is_signed`, negative sums need not be rounded. Codes are clamped to int8 and then, when the band is complete, to
 * low .. high.
 *
 * Scratch: 16 + 64 * groups * ((tile - 1) * stride_x + (4 * vectors / groups - 1) * dilation_x + 1) bytes. All outputs
 * of two rows may be written before an input row of theirs has been read for the last time.
 */
#ifndef EDGETOOL_DEPTHWISE_VECTOR_S8_H
#define EDGETOOL_DEPTHWISE_VECTOR_S8_H

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
    uint16_t channels;
    uint16_t taps_y;
    uint16_t taps_x;
    uint16_t stride_x;
    uint16_t dilation_x;
    uint16_t pad_x;
    uint8_t groups;
    uint8_t vectors;
    uint8_t paired;
    uint8_t is_signed;
    int8_t outside;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_depthwise_vector_s8_op;

void edgetool_depthwise_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_VECTOR_S8_H */
