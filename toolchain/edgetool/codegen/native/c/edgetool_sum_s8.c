/* SPDX-License-Identifier: 0BSD */
#include "edgetool_sum_s8.h"

#include "edgetool_sums.h"

static EDGETOOL_NOINLINE int8_t scaled(const edgetool_sum_s8_op *op, uint32_t sum)
{
    const int32_t value = edgetool_multiply((int32_t)(sum + op->offset), op->multiplier, op->left, op->right);
    return (int8_t)edgetool_clamp(edgetool_plus(value, op->zero_point), INT8_MIN, INT8_MAX);
}

void edgetool_sum_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_sum_s8_op *op = (const edgetool_sum_s8_op *)descriptor;
    const uint32_t count = op->reduced_count[1], lanes = op->kept_count[1];
    const size_t turn = op->reduced_step[0], step = op->reduced_step[1];
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int words = ((op->kept_step[0] | op->reduced_step[0]) & 3U) == 0 &&
                          edgetool_part_has_words(rows, op->taps, count, step);
        for (uint32_t i = 0; i < op->kept_count[0]; i++) {
            uint32_t width;
            for (uint32_t lane = 0; lane < lanes; lane += width) {
                size_t first = (size_t)i * op->kept_step[0] + (size_t)lane * op->kept_step[1];
                width = op->kept_step[1] == 1 && lanes - lane >= 4 ? 4 : 1;
                if (width == 1) {
                    uint32_t total = 0;
                    for (uint32_t k = op->reduced_count[0]; k != 0; k--) {
                        total += (uint32_t)edgetool_sum_of_part(rows, op->taps, first, count, step);
                        first += turn;
                    }
                    *out++ = scaled(op, total);
                    continue;
                }
                uint32_t totals[4] = {0, 0, 0, 0};
                for (uint32_t k = op->reduced_count[0]; k != 0; k--) {
                    int32_t sums[4];
                    edgetool_sums_of_four(rows, op->taps, first, count, step, words, sums);
                    for (uint32_t j = 0; j < 4; j++) {
                        totals[j] += (uint32_t)sums[j];
                    }
                    first += turn;
                }
                for (uint32_t j = 0; j < 4; j++) {
                    *out++ = scaled(op, totals[j]);
                }
            }
        }
        rows += op->taps;
    }
}
