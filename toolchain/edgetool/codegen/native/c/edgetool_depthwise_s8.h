/* SPDX-License-Identifier: 0BSD */
/*
 * DEPTHWISE_CONV_2D for int8. Rows: taps_y rows of the input for each output row; no scratch.
 *
 * The weights are [tap y][tap x][output channel], as in the .tflite. Output channel c reads input channel
 * c / depth_multiplier. Input codes are multiplied as they are: the scales contain the input's zero point, which
 * therefore stands for taps outside the input (`outside`). Outputs are written in ascending order.
 */
#ifndef EDGETOOL_DEPTHWISE_S8_H
#define EDGETOOL_DEPTHWISE_S8_H

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
    int8_t outside;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_depthwise_s8_op;

void edgetool_depthwise_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEPTHWISE_S8_H */
