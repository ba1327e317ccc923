/* SPDX-License-Identifier: 0BSD */
/*
 * Integers times a multiplier, which depends on their sign: QUANTIZE, RELU, LEAKY_RELU and ABS. Rows: one input row of
 * `count` elements for each output row. No scratch. Element i is written after it is read, and nothing is read after it
 * but the elements behind it.
 *
 * Elements are signed and have input_bytes or output_bytes: 1, 2 or 4. Let x be an element less input_zero_point. It is
 * scaled by MultiplyByQuantizedMultiplier with the multiplier and the shifts at index 0, or at index 1 if x is
 * negative. A negative x is multiplied by `before` and its product by `after`, which are 1 or -1. The result plus
 * zero_point is clamped to low .. high and wraps to the output's type.
 */
#ifndef EDGETOOL_REQUANTIZE_H
#define EDGETOOL_REQUANTIZE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count;
    int32_t multiplier[2];
    int32_t input_zero_point;
    int32_t zero_point;
    int32_t low;
    int32_t high;
    uint8_t left[2];
    uint8_t right[2];
    int8_t before;
    int8_t after;
    uint8_t input_bytes;
    uint8_t output_bytes;
} edgetool_requantize_op;

void edgetool_requantize(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_REQUANTIZE_H */
