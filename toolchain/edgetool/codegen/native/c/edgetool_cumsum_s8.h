/* SPDX-License-Identifier: 0BSD */
/*
 * CUMSUM of int8. Rows: one row of the input for each output row; no scratch.
 *
 * A row has `blocks` of `depth` by `lanes` codes, of which the kernel sums each lane. As in TFLM, which starts its sum at
 * what an input code of 0 stands for, every sum contains the negative zero point once more. Sums are in units of
 * 2^-19 of the input's scale, modulo 2^32.
 */
#ifndef EDGETOOL_CUMSUM_S8_H
#define EDGETOOL_CUMSUM_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t blocks;
    uint32_t depth;
    uint32_t lanes;
    int32_t multiplier;
    uint8_t right;
    uint8_t exclusive;
    uint8_t reverse;
    int8_t input_zero_point;
    int8_t zero_point;
} edgetool_cumsum_s8_op;

void edgetool_cumsum_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CUMSUM_S8_H */
