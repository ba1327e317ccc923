/* SPDX-License-Identifier: 0BSD */
/*
 * LOGISTIC and TANH for int16 (integer_ops/logistic.h, integer_ops/tanh.h). Rows: one input row of `count` elements for
 * each output row. No scratch. Element i is written after it is read, and nothing is read after it but the elements
 * behind it.
 *
 * `sigmoid` and the argument (element * multiplier, rounded, shifted right) are those of edgetool_sigmoid_s16.h.
 */
#ifndef EDGETOOL_LOGISTIC_S16_H
#define EDGETOOL_LOGISTIC_S16_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint16_t *sigmoid;
    uint32_t count;
    uint16_t multiplier;
    uint8_t right;
    uint8_t tanh;
} edgetool_logistic_s16_op;

void edgetool_logistic_s16(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_LOGISTIC_S16_H */
