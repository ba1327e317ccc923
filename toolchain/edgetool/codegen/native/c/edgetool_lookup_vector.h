/* SPDX-License-Identifier: 0BSD */
/*
 * Any function of one byte, as a table of its 256 values, on processors with Helium. Rows: one input row of `count` bytes
 * for each output row. No scratch. Sixteen elements are written at once, after they are read.
 */
#ifndef EDGETOOL_LOOKUP_VECTOR_H
#define EDGETOOL_LOOKUP_VECTOR_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint8_t *table;
    uint32_t count;
} edgetool_lookup_vector_op;

void edgetool_lookup_vector(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_LOOKUP_VECTOR_H */
