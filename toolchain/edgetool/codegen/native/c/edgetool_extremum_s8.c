/* SPDX-License-Identifier: 0BSD */
#include "edgetool_extremum_s8.h"

/* The largest flipped code of one output; the first code of each tap is at `start`. */
static int32_t largest_of_codes(const edgetool_extremum_s8_op *op, const void *const *rows, size_t start)
{
    int32_t largest = INT8_MIN;
    for (uint32_t tap = 0; tap < op->taps; tap++) {
        for (uint32_t i = 0; i < op->reduced_count[0]; i++) {
            const int8_t *codes = (const int8_t *)rows[tap] + start + (size_t)i * op->reduced_step[0];
            for (uint32_t k = 0; k < op->reduced_count[1]; k++) {
                const int32_t code = codes[(size_t)k * op->reduced_step[1]] ^ op->flip;
                largest = code > largest ? code : largest;
            }
        }
    }
    return largest;
}

void edgetool_extremum_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_extremum_s8_op *op = (const edgetool_extremum_s8_op *)descriptor;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        for (uint32_t i = 0; i < op->kept_count[0]; i++) {
            for (uint32_t k = 0; k < op->kept_count[1]; k++) {
                const size_t start = (size_t)i * op->kept_step[0] + (size_t)k * op->kept_step[1];
                *out++ = (int8_t)(largest_of_codes(op, rows, start) ^ op->flip);
            }
        }
        rows += op->taps;
    }
}
