/* SPDX-License-Identifier: 0BSD */
/*
 * EQUAL, LESS and the like for float32. Rows: one input row of each operand for each output row; `loops` is explained
 * in edgetool_broadcast.h. No scratch. Outputs are written in ascending order, each after the operands' elements are
 * read.
 *
 * The outputs are 1 or 0. accept: the sum of 1 if it is 1 for a < b, 2 for a == b, 4 for a > b, and 8 if a or b is NaN.
 */
#ifndef EDGETOOL_COMPARE_F32_H
#define EDGETOOL_COMPARE_F32_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    uint8_t accept;
} edgetool_compare_f32_op;

void edgetool_compare_f32(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_COMPARE_F32_H */
