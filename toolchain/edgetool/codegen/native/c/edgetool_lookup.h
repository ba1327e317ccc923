/* SPDX-License-Identifier: 0BSD */
/*
 * Any function of one byte, as a table of its 256 values. Rows: one input row of `count` bytes for each output row. No
 * scratch. Element i is written after it is read, and nothing is read after it but the elements behind it.
 */
#ifndef EDGETOOL_LOOKUP_H
#define EDGETOOL_LOOKUP_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint8_t *table;
    uint32_t count;
} edgetool_lookup_op;

void edgetool_lookup(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_LOOKUP_H */
