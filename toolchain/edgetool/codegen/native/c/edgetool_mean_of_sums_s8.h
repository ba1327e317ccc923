/* SPDX-License-Identifier: 0BSD */
/*
 * The second step of AVERAGE_POOL_2D, MEAN and SUM of int8 over the rows of an image: outputs from the sums of
 * edgetool_add_rows_s8. Rows: one of sums for the only output row; no scratch.
 *
 * With `pixels`, an output is its sum divided by their number, rounded half away from zero, as AVERAGE_POOL_2D computes
 * it. Otherwise `offset` is added to the sum, which is then scaled, as MEAN and SUM compute it.
 */
#ifndef EDGETOOL_MEAN_OF_SUMS_S8_H
#define EDGETOOL_MEAN_OF_SUMS_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count;
    uint32_t pixels;
    uint32_t offset;
    int32_t multiplier;
    uint8_t left;
    uint8_t right;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_mean_of_sums_s8_op;

void edgetool_mean_of_sums_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_MEAN_OF_SUMS_S8_H */
