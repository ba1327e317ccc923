/* SPDX-License-Identifier: 0BSD */
/*
 * LOG_SOFTMAX of int8. Rows: one row of the input, `vectors` times `depth` codes; no scratch.
 *
 * exponentials[i] is that of a code i below the largest of its vector, in Q0; beyond `count` they are 0. `multiplier` and
 * `left` scale the difference of two codes to Q5, `inverse_multiplier` and `inverse_right` scale Q5 back. Differences
 * below `lowest` give the lowest output.
 */
#ifndef EDGETOOL_LOG_SOFTMAX_S8_H
#define EDGETOOL_LOG_SOFTMAX_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int32_t *exponentials;
    uint32_t depth;
    uint32_t vectors;
    int32_t multiplier;
    int32_t inverse_multiplier;
    int16_t lowest;
    uint16_t count;
    uint8_t left;
    uint8_t inverse_right;
} edgetool_log_softmax_s8_op;

void edgetool_log_softmax_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_LOG_SOFTMAX_S8_H */
