/* SPDX-License-Identifier: 0BSD */
#include "edgetool_add_rows_s8.h"

#include "edgetool_sums.h"

void edgetool_add_rows_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_add_rows_s8_op *op = (const edgetool_add_rows_s8_op *)descriptor;
    const uint32_t turns = op->reduced_count[0], count = op->reduced_count[1];
    const size_t turn = op->reduced_step[0], step = op->reduced_step[1];
    const uint32_t lanes = op->kept_count[1], fours = op->kept_step[1] == 1 ? lanes & ~3U : 0;
    const int words = ((op->kept_step[0] | op->reduced_step[0] | op->start) & 3U) == 0 &&
                      edgetool_part_has_words(band->rows, band->count, count, step);
    uint32_t *out = (uint32_t *)band->out;
    if (band->first == 0) {
        memset(out, 0, (size_t)op->kept_count[0] * lanes * sizeof *out);
    }
    for (uint32_t i = 0; i < op->kept_count[0]; i++) {
        const size_t start = op->start + (size_t)i * op->kept_step[0];
        uint32_t lane = 0;
        for (; lane < fours; lane += 4) {
            for (uint32_t k = 0; k < turns; k++) {
                int32_t sums[4];
                edgetool_sums_of_four(band->rows, band->count, start + lane + k * turn, count, step, words, sums);
                for (uint32_t j = 0; j < 4; j++) {
                    out[j] += (uint32_t)sums[j];
                }
            }
            out += 4;
        }
        for (; lane < lanes; lane++) {
            for (uint32_t k = 0; k < turns; k++) {
                const size_t first = start + (size_t)lane * op->kept_step[1] + k * turn;
                *out += (uint32_t)edgetool_sum_of_part(band->rows, band->count, first, count, step);
            }
            out++;
        }
    }
}
