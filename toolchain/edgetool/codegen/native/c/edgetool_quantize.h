/* SPDX-License-Identifier: 0BSD */
/*
 * QUANTIZE from float32 to int8 or int16. Rows: one input row of `count` elements for each output row. No scratch.
 * Element i is written after it is read, and nothing is read after it but the elements behind it.
 *
 * A number is divided by `scale` in float32 and rounded half away from zero (AffineQuantize in quantize.h). The code
 * plus the zero point is clamped to the type with `bytes`: 1 or 2. What exceeds int32, for which TFLM has no defined
 * result, is clamped too; NaN is the lowest code.
 */
#ifndef EDGETOOL_QUANTIZE_H
#define EDGETOOL_QUANTIZE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    float scale;
    uint32_t count;
    int16_t zero_point;
    uint8_t bytes;
} edgetool_quantize_op;

void edgetool_quantize(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_QUANTIZE_H */
