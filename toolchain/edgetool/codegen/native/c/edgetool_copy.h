/* SPDX-License-Identifier: 0BSD */
/*
 * A copy of elements that are evenly spaced along each axis: TRANSPOSE, slices, BROADCAST_TO and the like. Rows: one
 * row of the input for each output row; a whole tensor may be one row. No scratch.
 *
 * The output row consists of runs of `run` bytes, in the order of five nested loops, the last of which is the
 * innermost. The first run is at byte `start` of the input row, and a turn of a loop advances by its step, modulo
 * 2^32. With `phases`, output row y starts (y mod phases) * phase_step bytes further: DEPTH_TO_SPACE.
 */
#ifndef EDGETOOL_COPY_H
#define EDGETOOL_COPY_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count[5];
    uint32_t step[5];
    uint32_t start;
    uint32_t run;
    uint32_t phases;
    uint32_t phase_step;
} edgetool_copy_op;

void edgetool_copy(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_COPY_H */
