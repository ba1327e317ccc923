/* SPDX-License-Identifier: 0BSD */
/*
 * MEAN and SUM of int8 on processors with Helium. Rows: `taps` rows of the input for each output row; no scratch.
 *
 * Loops and steps are those of edgetool_sum_s8.h, and either kept_step[1] or reduced_step[1] is 1, or its loop has one
 * turn. `offset` is added to the sum of codes. A negative `shift` is to the right. Up to eight outputs that are next to
 * each other are written at once, after their codes are read.
 */
#ifndef EDGETOOL_SUM_VECTOR_S8_H
#define EDGETOOL_SUM_VECTOR_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t kept_count[2];
    uint32_t kept_step[2];
    uint32_t reduced_count[2];
    uint32_t reduced_step[2];
    int32_t offset;
    int32_t multiplier;
    uint16_t taps;
    int8_t shift;
    int8_t zero_point;
} edgetool_sum_vector_s8_op;

void edgetool_sum_vector_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_SUM_VECTOR_S8_H */
