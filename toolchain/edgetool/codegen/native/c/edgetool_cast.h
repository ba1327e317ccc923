/* SPDX-License-Identifier: 0BSD */
/*
 * CAST between int8, bool, int16, int32, uint32 and float32. Rows: one input row of `count` elements for each output
 * row. No scratch. Element i is written after it is read, and nothing is read after it but the elements behind it.
 *
 * Types are numbers: 1, 2 and 4 are signed integers of so many bytes, 5 is uint32, 6 is float32. Integers wrap to the
 * output's type. Numbers of float32 are rounded towards zero to 64 bits, which wrap; what exceeds 32 bits, for which
 * TFLM has no defined result, is clamped to these first, and NaN is 0.
 */
#ifndef EDGETOOL_CAST_H
#define EDGETOOL_CAST_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count;
    uint8_t from;
    uint8_t to;
} edgetool_cast_op;

void edgetool_cast(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CAST_H */
