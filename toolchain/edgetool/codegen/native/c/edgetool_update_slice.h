/* SPDX-License-Identifier: 0BSD */
/*
 * DYNAMIC_UPDATE_SLICE. Rows: the whole tensor, the whole update and its `axes` int32 starts; the output is one row. No
 * scratch.
 *
 * The output is the tensor of `bytes` bytes with the update in it, which consists of runs of `run` bytes in the order
 * of five nested loops. Step k is the distance in bytes of two indices of axis k, of which there are six; limit k is
 * the last start at which the update fits, and starts are clamped to 0 .. limit, as in TFLM.
 */
#ifndef EDGETOOL_UPDATE_SLICE_H
#define EDGETOOL_UPDATE_SLICE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count[5];
    uint32_t step[6];
    int32_t limit[6];
    uint32_t axes;
    uint32_t run;
    uint32_t bytes;
} edgetool_update_slice_op;

void edgetool_update_slice(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_UPDATE_SLICE_H */
