/* SPDX-License-Identifier: 0BSD */
#include "edgetool_max_pool_vector_s8.h"

#include "edgetool_helium.h"
#include "edgetool_pool.h"

#define LANES 16U

void edgetool_max_pool_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_max_pool_vector_s8_op *op = (const edgetool_max_pool_vector_s8_op *)descriptor;
    const uint32_t channels = op->channels;
    const edgetool_s8x16 low = edgetool_all_s8(op->low), high = edgetool_all_s8(op->high);
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const edgetool_rows inside = edgetool_pool_rows(rows, op->taps_y);
        rows += op->taps_y;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const edgetool_columns columns =
                edgetool_pool_columns(x, op->stride_x, op->taps_x, op->pad_x, op->input_width);
            size_t start = (size_t)columns.first * channels;
            uint32_t left = channels;
            do {
                edgetool_s8x16 codes = low;
                for (const void *const *row = inside.first; row != inside.end; row++) {
                    codes = edgetool_largest_lanes(codes, (const int8_t *)*row + start, channels, columns.count, left);
                }
                const uint32_t lanes = left < LANES ? left : LANES;
                edgetool_store_first_s8(out, edgetool_min_s8(codes, high), left);
                out += lanes;
                start += lanes;
                left -= lanes;
            } while (left != 0);
        }
    }
}
