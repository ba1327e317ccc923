/* SPDX-License-Identifier: 0BSD */
/*
 * The first step of AVERAGE_POOL_2D, MEAN and SUM of int8 over the rows of an image: sums of codes. Rows: one of the
 * input for each call, or several that follow each other in a band; no scratch.
 *
 * The output is one row of sums for all rows of the input: the band with the first row sets it, and the others add to
 * it. The outputs of a row are two loops over kept axes, outer one first; each output reduces two loops over other axes.
 * Codes begin at `start`. Steps are in elements. Sums are modulo 2^32.
 */
#ifndef EDGETOOL_ADD_ROWS_S8_H
#define EDGETOOL_ADD_ROWS_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t kept_count[2];
    uint32_t kept_step[2];
    uint32_t reduced_count[2];
    uint32_t reduced_step[2];
    uint32_t start;
} edgetool_add_rows_s8_op;

void edgetool_add_rows_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ADD_ROWS_S8_H */
