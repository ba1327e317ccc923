/* SPDX-License-Identifier: 0BSD */
/*
 * SOFTMAX of int8 to int8 or int16. Rows: one row of the input, `vectors` times `depth` codes; no scratch.
 *
 * exponentials[i] is that of a code i below the largest of its vector, in Q0; beyond `count` they are 0. The output has
 * output_bits bits, and its scale is 2^-output_bits.
 */
#ifndef EDGETOOL_SOFTMAX_S8_H
#define EDGETOOL_SOFTMAX_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int32_t *exponentials;
    uint32_t depth;
    uint32_t vectors;
    uint16_t count;
    uint16_t output_bits;
} edgetool_softmax_s8_op;

void edgetool_softmax_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SOFTMAX_S8_H */
