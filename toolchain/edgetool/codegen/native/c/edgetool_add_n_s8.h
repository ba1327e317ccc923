/* SPDX-License-Identifier: 0BSD */
/*
 * ADD_N for int8: a sum of `operands` tensors of one shape, scale and zero point. Rows: one input row of `count`
 * elements of each operand for each output row. No scratch. Outputs are written in ascending order, each after the
 * operands' elements are read.
 *
 * The sum of the codes plus `offset`, times 2^19, is scaled with the multiplier (AddN in add_n.h, where each code less
 * the zero point, times 2^20, is halved).
 */
#ifndef EDGETOOL_ADD_N_S8_H
#define EDGETOOL_ADD_N_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count;
    uint32_t operands;
    int32_t offset;
    int32_t multiplier;
    uint8_t right;
    int8_t zero_point;
} edgetool_add_n_s8_op;

void edgetool_add_n_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ADD_N_S8_H */
