/* SPDX-License-Identifier: 0BSD */
/*
 * ADD and SUB for int16. Rows: one input row of each operand for each output row; `loops` is explained in
 * edgetool_broadcast.h. No scratch. Outputs are written in ascending order, each after the operands' elements are read.
 *
 * The codes less their zero points, times 2^15, are scaled with multiplier[0] and [1], added, or subtracted if
 * `subtract` is 1, and scaled with multiplier[2] (AddElementwise in add.h). Codes are clamped to low .. high.
 */
#ifndef EDGETOOL_ADD_S16_H
#define EDGETOOL_ADD_S16_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t multiplier[3];
    int16_t zero_points[3];
    uint8_t right[3];
    uint8_t subtract;
    int16_t low;
    int16_t high;
} edgetool_add_s16_op;

void edgetool_add_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ADD_S16_H */
