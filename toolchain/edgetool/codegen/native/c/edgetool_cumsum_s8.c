/* SPDX-License-Identifier: 0BSD */
#include "edgetool_cumsum_s8.h"

#define SUM_SHIFT 19

static void sum_lane(const edgetool_cumsum_s8_op *op, const int8_t *codes, int8_t *out)
{
    const uint32_t offset = 0U - (uint32_t)op->input_zero_point;
    uint32_t sum = offset << SUM_SHIFT;
    for (uint32_t i = 0; i < op->depth; i++) {
        const size_t place = (size_t)(op->reverse != 0 ? op->depth - 1 - i : i) * op->lanes;
        const uint32_t next = sum + (((uint32_t)codes[place] + offset) << SUM_SHIFT);
        const int32_t result = (int32_t)(op->exclusive != 0 ? sum : next);
        const int32_t value = edgetool_multiply(result, op->multiplier, 0, op->right) + op->zero_point;
        out[place] = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
        sum = next;
    }
}

void edgetool_cumsum_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_cumsum_s8_op *op = (const edgetool_cumsum_s8_op *)descriptor;
    const size_t block_codes = (size_t)op->depth * op->lanes;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int8_t *codes = (const int8_t *)band->rows[y];
        for (uint32_t block = 0; block < op->blocks; block++) {
            for (uint32_t lane = 0; lane < op->lanes; lane++) {
                sum_lane(op, codes + lane, out + lane);
            }
            codes += block_codes;
            out += block_codes;
        }
    }
}
