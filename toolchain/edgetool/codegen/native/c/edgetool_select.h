/* SPDX-License-Identifier: 0BSD */
/*
 * SELECT_V2: the elements of x where the condition is not 0, of y elsewhere; elements of `bytes`. Rows: one input row
 * of condition, x and y for each output row; `loops` is explained in edgetool_broadcast.h. No scratch. Outputs are
 * written in ascending order, each after the operands' elements are read.
 */
#ifndef EDGETOOL_SELECT_H
#define EDGETOOL_SELECT_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    uint8_t bytes;
} edgetool_select_op;

void edgetool_select(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SELECT_H */
