/* SPDX-License-Identifier: 0BSD */
/*
 * ADD (0), SUB (1), MUL (2), SQUARED_DIFFERENCE (3) and DIV (4) for int32, by `kind`. Rows: one input row of each
 * operand for each output row; `loops` is explained in edgetool_broadcast.h. No scratch. Outputs are written in
 * ascending order, each after the operands' elements are read.
 *
 * Results wrap to 32 bits and are clamped to low .. high. Division rounds towards zero; divisors of 0, for which TFLM
 * has no result, give 0.
 */
#ifndef EDGETOOL_ARITHMETIC_S32_H
#define EDGETOOL_ARITHMETIC_S32_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *loops;
    int32_t low;
    int32_t high;
    uint8_t kind;
} edgetool_arithmetic_s32_op;

void edgetool_arithmetic_s32(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ARITHMETIC_S32_H */
