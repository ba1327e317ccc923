/* SPDX-License-Identifier: 0BSD */
/*
 * EQUAL, LESS and the like for int8, bool and int32, elements of `bytes`. Rows: one input row of each operand for each
 * output row; `loops` is explained in edgetool_broadcast.h. No scratch. Outputs are written in ascending order, each
 * after the operands' elements are read.
 *
 * The outputs are 1 or 0. accept: the sum of 1 if it is 1 for a < b, 2 for a == b, and 4 for a > b. If `scaled` is 1,
 * the elements less their zero points, times 2^8, are scaled with `multiplier` before (ComparisonWithScaling in
 * comparisons.h).
 */
#ifndef EDGETOOL_COMPARE_H
#define EDGETOOL_COMPARE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t multiplier[2];
    int8_t zero_points[2];
    uint8_t right[2];
    uint8_t scaled;
    uint8_t accept;
    uint8_t bytes;
} edgetool_compare_op;

void edgetool_compare(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_COMPARE_H */
