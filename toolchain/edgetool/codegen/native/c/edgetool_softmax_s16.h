/* SPDX-License-Identifier: 0BSD */
/*
 * SOFTMAX of int16. Rows: one row of the input, `vectors` times `depth` codes; no scratch.
 *
 * Both tables have 513 entries, between which the kernel interpolates: exponentials from -10 to 0, and 1 / (1 + x) for x
 * from 0 to 1. `multiplier` scales the difference of two codes to units of 10 / 65535.
 */
#ifndef EDGETOOL_SOFTMAX_S16_H
#define EDGETOOL_SOFTMAX_S16_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int16_t *exponentials;
    const int16_t *inverses;
    uint32_t depth;
    uint32_t vectors;
    int32_t multiplier;
    uint8_t left;
    uint8_t right;
} edgetool_softmax_s16_op;

void edgetool_softmax_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SOFTMAX_S16_H */
