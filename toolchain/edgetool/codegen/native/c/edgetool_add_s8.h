/* SPDX-License-Identifier: 0BSD */
/*
 * ADD and SUB for int8. Rows: one input row of each operand for each output row; `loops` is explained in
 * edgetool_broadcast.h. No scratch. Outputs are written in ascending order, each after the operands' elements are read.
 *
 * If shift is not 255, an output code is (a * numbers[0] + b * numbers[1] + numbers[2]) >> shift. The generator compared
 * this with TFLM's result for all pairs of codes; no sum exceeds 32 bits. Otherwise, the numbers are multipliers: the
 * codes less their zero points, times 2^20, are scaled with the first and the second one, added, or subtracted if
 * `subtract` is 1, and scaled with the third one (AddFunc in integer_ops/add.h). Codes are clamped to low .. high.
 */
#ifndef EDGETOOL_ADD_S8_H
#define EDGETOOL_ADD_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t numbers[3];
    int8_t zero_points[3];
    uint8_t right[3];
    uint8_t shift;
    uint8_t subtract;
    int8_t low;
    int8_t high;
} edgetool_add_s8_op;

void edgetool_add_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ADD_S8_H */
