/* SPDX-License-Identifier: 0BSD */
#include "edgetool_sum_s8.h"

#include "edgetool_sums.h"

static int8_t scaled(const edgetool_sum_s8_op *op, uint32_t sum)
{
    const int32_t value = edgetool_multiply((int32_t)(sum + op->offset), op->multiplier, op->left, op->right);
    return (int8_t)edgetool_clamp(edgetool_plus(value, op->zero_point), INT8_MIN, INT8_MAX);
}

void edgetool_sum_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_sum_s8_op *op = (const edgetool_sum_s8_op *)descriptor;
    const uint32_t turns = op->reduced_count[0], count = op->reduced_count[1];
    const size_t turn = op->reduced_step[0], step = op->reduced_step[1];
    const uint32_t lanes = op->kept_count[1], fours = op->kept_step[1] == 1 ? lanes & ~3U : 0;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int words = ((op->kept_step[0] | op->reduced_step[0]) & 3U) == 0 &&
                          edgetool_part_has_words(rows, op->taps, count, step);
        for (uint32_t i = 0; i < op->kept_count[0]; i++) {
            const size_t start = (size_t)i * op->kept_step[0];
            uint32_t lane = 0;
            for (; lane < fours; lane += 4) {
                uint32_t totals[4] = {0, 0, 0, 0};
                for (uint32_t k = 0; k < turns; k++) {
                    int32_t sums[4];
                    edgetool_sums_of_four(rows, op->taps, start + lane + k * turn, count, step, words, sums);
                    for (uint32_t j = 0; j < 4; j++) {
                        totals[j] += (uint32_t)sums[j];
                    }
                }
                for (uint32_t j = 0; j < 4; j++) {
                    *out++ = scaled(op, totals[j]);
                }
            }
            for (; lane < lanes; lane++) {
                uint32_t total = 0;
                for (uint32_t k = 0; k < turns; k++) {
                    const size_t first = start + (size_t)lane * op->kept_step[1] + k * turn;
                    total += (uint32_t)edgetool_sum_of_part(rows, op->taps, first, count, step);
                }
                *out++ = scaled(op, total);
            }
        }
        rows += op->taps;
    }
}
