/* SPDX-License-Identifier: 0BSD */
/*
 * PAD and PADV2. Rows: one row of the input for each output row, or none if the whole output row is padding; a whole
 * tensor may be one row. No scratch.
 *
 * The data of a row are runs of `run` bytes, in the order of four nested loops, the last of which is the innermost. An
 * output row of `row_bytes` bytes starts with `lead` bytes of padding; gap[3] bytes follow each run, and gap[k] bytes
 * follow each turn of loop k. After the last data the rest of the row is padding. `value` repeats the padding's
 * element; `uniform`: all its bytes are equal.
 */
#ifndef EDGETOOL_PAD_H
#define EDGETOOL_PAD_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t count[4];
    uint32_t gap[4];
    uint32_t run;
    uint32_t lead;
    uint32_t row_bytes;
    uint8_t value[4];
    uint8_t uniform;
} edgetool_pad_op;

void edgetool_pad(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_PAD_H */
