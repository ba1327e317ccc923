/* SPDX-License-Identifier: 0BSD */
/*
 * MEAN and SUM of int8. Rows: `taps` rows of the input for each output row; no scratch.
 *
 * The outputs of a row are two loops over kept axes, outer one first; each output reduces two loops over other axes in each
 * of the taps. Steps are in elements.
 * `offset` is added to the sum of codes: the input's zero point times their number.
 */
#ifndef EDGETOOL_SUM_S8_H
#define EDGETOOL_SUM_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t kept_count[2];
    uint32_t kept_step[2];
    uint32_t reduced_count[2];
    uint32_t reduced_step[2];
    uint32_t offset;
    int32_t multiplier;
    uint16_t taps;
    uint8_t left;
    uint8_t right;
    int8_t zero_point;
} edgetool_sum_s8_op;

void edgetool_sum_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SUM_S8_H */
