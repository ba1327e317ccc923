/* SPDX-License-Identifier: 0BSD */
/*
 * L2_NORMALIZATION of int8. Rows: one row of the input, `vectors` times `depth` codes; no scratch.
 *
 * The output has the scale 1 / 128 and the zero point 0.
 */
#ifndef EDGETOOL_L2_NORMALIZATION_S8_H
#define EDGETOOL_L2_NORMALIZATION_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t depth;
    uint32_t vectors;
    int8_t input_zero_point;
} edgetool_l2_normalization_s8_op;

void edgetool_l2_normalization_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_L2_NORMALIZATION_S8_H */
