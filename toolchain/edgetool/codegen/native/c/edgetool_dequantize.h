/* SPDX-License-Identifier: 0BSD */
/*
 * DEQUANTIZE from int8, uint8 or int16 to float32. Rows: one input row of `count` elements for each output row. No
 * scratch. Element i is written after it is read, and nothing is read after it but the elements behind it.
 *
 * `bytes` are those of an input element; its bits above the lowest 8 or 16 are the sign, unless `is_unsigned` is 1. The
 * code less the zero point is exact in float32, so that its product with `scale` is rounded once, as TFLM's product in
 * double is (dequantize.h).
 */
#ifndef EDGETOOL_DEQUANTIZE_H
#define EDGETOOL_DEQUANTIZE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    float scale;
    uint32_t count;
    int32_t zero_point;
    uint8_t bytes;
    uint8_t is_unsigned;
} edgetool_dequantize_op;

void edgetool_dequantize(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DEQUANTIZE_H */
