/* SPDX-License-Identifier: 0BSD */
#include "edgetool_arg_extremum_s8.h"

static int32_t index_of_largest(const edgetool_arg_extremum_s8_op *op, const int8_t *codes)
{
    int32_t largest = codes[0] ^ op->flip;
    uint32_t index = 0;
    for (uint32_t i = 1; i < op->count; i++) {
        const int32_t code = codes[(size_t)i * op->step] ^ op->flip;
        if (code > largest) {
            largest = code;
            index = i;
        }
    }
    return (int32_t)index;
}

void edgetool_arg_extremum_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_arg_extremum_s8_op *op = (const edgetool_arg_extremum_s8_op *)descriptor;
    int32_t *out = (int32_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int8_t *row = (const int8_t *)band->rows[y];
        for (uint32_t i = 0; i < op->kept_count[0]; i++) {
            for (uint32_t k = 0; k < op->kept_count[1]; k++) {
                *out++ = index_of_largest(op, row + (size_t)i * op->kept_step[0] + (size_t)k * op->kept_step[1]);
            }
        }
    }
}
