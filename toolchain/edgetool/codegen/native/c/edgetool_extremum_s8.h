/* SPDX-License-Identifier: 0BSD */
/*
 * REDUCE_MAX and REDUCE_MIN of int8, and REDUCE_ALL of bool. Rows: `taps` rows of the input for each output row; no
 * scratch.
 *
 * The outputs of a row are two loops over kept axes, outer one first; each output reduces two loops over other axes in each
 * of the taps. Steps are in elements.
 * With a flip of -1 for the minimum, the kernel complements all codes, which reverses their order.
 */
#ifndef EDGETOOL_EXTREMUM_S8_H
#define EDGETOOL_EXTREMUM_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t kept_count[2];
    uint32_t kept_step[2];
    uint32_t reduced_count[2];
    uint32_t reduced_step[2];
    uint16_t taps;
    int8_t flip;
} edgetool_extremum_s8_op;

void edgetool_extremum_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_EXTREMUM_S8_H */
