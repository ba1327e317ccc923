/* SPDX-License-Identifier: 0BSD */
/*
 * MAXIMUM, and MINIMUM if `minimum` is 1, of signed elements of `bytes`: 1, 2 or 4. Of bytes that are 0 or 1, they are
 * LOGICAL_OR and LOGICAL_AND. Rows: one input row of each operand for each output row; `loops` is explained in
 * edgetool_broadcast.h. No scratch. Outputs are written in ascending order, each after the operands' elements are read.
 */
#ifndef EDGETOOL_MAXIMUM_H
#define EDGETOOL_MAXIMUM_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    uint8_t bytes;
    uint8_t minimum;
} edgetool_maximum_op;

void edgetool_maximum(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_MAXIMUM_H */
