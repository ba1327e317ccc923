/* SPDX-License-Identifier: 0BSD */
/*
 * RESIZE_BILINEAR for int8. Rows: the input row above each output row and the next one; either may not exist. No
 * scratch.
 *
 * Positions are in units of 1/1024 of an input row or column, as in ResizeBilinearInteger (resize_bilinear.h): output
 * position p is at p * scale + offset.
 */
#ifndef EDGETOOL_RESIZE_BILINEAR_S8_H
#define EDGETOOL_RESIZE_BILINEAR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t scale_y;
    int32_t offset_y;
    int32_t scale_x;
    int32_t offset_x;
    uint32_t input_width;
    uint32_t output_width;
    uint32_t channels;
} edgetool_resize_bilinear_s8_op;

void edgetool_resize_bilinear_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_RESIZE_BILINEAR_S8_H */
