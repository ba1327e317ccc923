/* SPDX-License-Identifier: 0BSD */
#include "edgetool_sum_vector_s8.h"

#include "edgetool_scale_vector.h"
#include "edgetool_sums_vector.h"

/* Up to eight sums, each of codes that are next to each other. */
static edgetool_sums sums_of_vectors(const edgetool_sum_vector_s8_op *op, const void *const *rows, size_t start,
                                     uint32_t count)
{
    const void *const *const end = rows + op->taps;
    int32_t totals[2][EDGETOOL_SUM_LANES / 2] = {{0}};
    edgetool_sums sums;
    for (uint32_t i = 0; i < count; i++) {
        int32_t total = op->offset;
        size_t first = start;
        for (uint32_t turn = op->reduced_count[0]; turn != 0; turn--) {
            for (const void *const *row = rows; row != end; row++) {
                total += edgetool_sum_s8((const int8_t *)*row + first, op->reduced_count[1]);
            }
            first += op->reduced_step[0];
        }
        totals[i & 1U][i / 2] = total;
        start += op->kept_step[1];
    }
    memcpy(&sums, totals, sizeof sums);
    return sums;
}

/* Up to eight sums at once, whose codes are next to those of the other sums. */
static edgetool_sums sums_of_lanes(const edgetool_sum_vector_s8_op *op, const void *const *rows, size_t start,
                                   uint32_t count)
{
    edgetool_sums sums = {edgetool_all_s32(op->offset), edgetool_all_s32(op->offset)};
    for (uint32_t turn = op->reduced_count[0]; turn != 0; turn--) {
        sums = edgetool_add_part(sums, rows, rows + op->taps, start, op->reduced_count[1], op->reduced_step[1], count);
        start += op->reduced_step[0];
    }
    return sums;
}

void edgetool_sum_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_sum_vector_s8_op *op = (const edgetool_sum_vector_s8_op *)descriptor;
    const size_t step = op->kept_step[1];
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        for (uint32_t i = 0; i < op->kept_count[0]; i++) {
            size_t start = (size_t)i * op->kept_step[0];
            uint32_t count;
            for (uint32_t left = op->kept_count[1]; left != 0; left -= count) {
                count = left < EDGETOOL_SUM_LANES ? left : EDGETOOL_SUM_LANES;
                edgetool_sums sums =
                    step == 1 ? sums_of_lanes(op, rows, start, count) : sums_of_vectors(op, rows, start, count);
                sums.even = edgetool_multiply_lanes(sums.even, op->multiplier, op->shift);
                sums.odd = edgetool_multiply_lanes(sums.odd, op->multiplier, op->shift);
                edgetool_store_codes(out, sums, op->zero_point, INT8_MIN, INT8_MAX, count);
                start += count * step;
                out += count;
            }
        }
        rows += op->taps;
    }
}
