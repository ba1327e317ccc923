/* SPDX-License-Identifier: 0BSD */
/* ASSIGN_VARIABLE and READ_VARIABLE: a copy. Rows: one input row of `bytes` for each output row; no scratch. */
#ifndef EDGETOOL_ASSIGN_H
#define EDGETOOL_ASSIGN_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t bytes;
} edgetool_assign_op;

void edgetool_assign(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ASSIGN_H */
