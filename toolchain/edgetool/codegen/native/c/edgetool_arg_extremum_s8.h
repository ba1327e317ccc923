/* SPDX-License-Identifier: 0BSD */
/*
 * ARG_MAX and ARG_MIN of int8. Rows: one row of the input for each output row; no scratch.
 *
 * The outputs of a row are two loops over kept axes, outer one first; each is the index of the first extreme one of
 * `count` codes. Steps are in elements. With a flip of -1 for the minimum, the kernel complements all codes, which reverses
 * their order.
 */
#ifndef EDGETOOL_ARG_EXTREMUM_S8_H
#define EDGETOOL_ARG_EXTREMUM_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t kept_count[2];
    uint32_t kept_step[2];
    uint32_t count;
    uint32_t step;
    int8_t flip;
} edgetool_arg_extremum_s8_op;

void edgetool_arg_extremum_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ARG_EXTREMUM_S8_H */
