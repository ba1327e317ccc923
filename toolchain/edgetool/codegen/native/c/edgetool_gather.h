/* SPDX-License-Identifier: 0BSD */
/*
 * GATHER, GATHER_ND and EMBEDDING_LOOKUP. Rows: the whole table and all int32 indices of a batch; the output of a
 * batch is one row. No scratch.
 *
 * For each of `outer` parts of `part` bytes of the table and for each of `positions` groups of `depth` indices, the
 * kernel copies the `run` bytes at the sum of index times step. This place is clamped to 0 .. limit, so that no index
 * reads outside the part; TFLM reads outside (GATHER) or fails (GATHER_ND and EMBEDDING_LOOKUP).
 */
#ifndef EDGETOOL_GATHER_H
#define EDGETOOL_GATHER_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t step[5];
    uint32_t depth;
    uint32_t positions;
    uint32_t outer;
    uint32_t part;
    uint32_t run;
    uint32_t limit;
} edgetool_gather_op;

void edgetool_gather(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_GATHER_H */
