/* SPDX-License-Identifier: 0BSD */
/*
 * FULLY_CONNECTED for int8, and BATCH_MATMUL with a constant right operand. Rows: one row of `rows` times `depth`
 * codes for each output row of `rows` times `units` codes. Scratch: two bytes for each of `depth` codes, rounded up to
 * whole words.
 *
 * The weights are for rows of that length, zeros at the end. The first `grouped` units are groups of four, the last of
 * which may have one unit too many, so that at most two units are in none, or all if `grouped` is 0. For each four
 * codes, a group has 16 bytes: the words of codes 0 and 2 for units 0 and 1, the same for units 2 and 3, and both for
 * codes 1 and 3. A word is the bytes (unit 0, unit 1) of its first code, and then of its second one. The bytes of units
 * 0 and 2 are unsigned, 128 above the weight; the others are weights. The other units follow as [unit][code].
 *
 * Input codes are multiplied as they are: the input's zero point is in the scales, or in `offsets`, which is added to
 * the sums if all units share one scale (scale_step 0); it is NULL otherwise (scale_step 1). All codes of a row are
 * read before its first output is written on cores with DSP instructions, and for some units at a time on others;
 * outputs are written in ascending order.
 */
#ifndef EDGETOOL_DENSE_S8_H
#define EDGETOOL_DENSE_S8_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const uint32_t *weights;
    const edgetool_scale *scales;
    const int32_t *offsets;
    uint32_t rows;
    uint32_t depth;
    uint32_t units;
    uint32_t grouped;
    uint8_t scale_step;
    uint8_t shift;
    int8_t weights_zero_point;
    int8_t zero_point;
    int8_t low;
    int8_t high;
} edgetool_dense_s8_op;

void edgetool_dense_s8(const void *op, const edgetool_band *band);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DENSE_S8_H */
