/* SPDX-License-Identifier: 0BSD */
/*
 * CONCATENATION and PACK, also of the rows of one image: SPACE_TO_DEPTH. Rows: `inputs` rows for each output row, some
 * of which may not exist; whole tensors may be one row. No scratch.
 *
 * An output row consists of `blocks` blocks. Each contains the next bytes[k] bytes of every row k that exists, in
 * turn.
 */
#ifndef EDGETOOL_CONCAT_H
#define EDGETOOL_CONCAT_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *bytes;
    uint32_t blocks;
    uint32_t inputs;
} edgetool_concat_op;

void edgetool_concat(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CONCAT_H */
