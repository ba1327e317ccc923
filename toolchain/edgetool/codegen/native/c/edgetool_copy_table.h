/* SPDX-License-Identifier: 0BSD */
/*
 * A copy of elements whose places are the sum of an offset per axis: RESIZE_NEAREST_NEIGHBOR, MIRROR_PAD, GATHER with
 * constant indices, BATCH_TO_SPACE_ND with crops. Rows: one row of the input for each output row; a whole tensor may
 * be one row. No scratch.
 *
 * The output row consists of runs of `run` bytes, in the order of five nested loops, the last of which is the
 * innermost. `offsets` contains, for each loop in turn, the byte offset of each of its turns in the input row.
 */
#ifndef EDGETOOL_COPY_TABLE_H
#define EDGETOOL_COPY_TABLE_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *offsets;
    uint32_t count[5];
    uint32_t run;
} edgetool_copy_table_op;

void edgetool_copy_table(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_COPY_TABLE_H */
