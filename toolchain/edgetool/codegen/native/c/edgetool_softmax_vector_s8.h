/* SPDX-License-Identifier: 0BSD */
/*
 * SOFTMAX of int8 on processors with Helium. Rows: one row of the input, `vectors` times `depth` codes; no scratch. Four
 * outputs of a vector are written at once, after they are read; all of a vector is read before.
 *
 * exponentials[i] is that of a code i below the largest of its vector, in Q0. It is 0 for i = count and beyond, where the
 * table ends. The output's scale is 2^-8.
 */
#ifndef EDGETOOL_SOFTMAX_VECTOR_S8_H
#define EDGETOOL_SOFTMAX_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int32_t *exponentials;
    uint32_t depth;
    uint32_t vectors;
    uint16_t count;
} edgetool_softmax_vector_s8_op;

void edgetool_softmax_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SOFTMAX_VECTOR_S8_H */
