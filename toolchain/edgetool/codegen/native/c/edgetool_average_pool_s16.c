/* SPDX-License-Identifier: 0BSD */
#include "edgetool_average_pool_s16.h"

#include "edgetool_pool.h"

/* The mean of one channel in the given columns of the window's rows. */
static int32_t mean(const void *const *rows, uint32_t taps_y, edgetool_columns columns, uint32_t channel,
                    uint32_t channels)
{
    int32_t sum = 0, count = 0;
    for (uint32_t ty = 0; ty < taps_y; ty++) {
        if (rows[ty] == NULL) {
            continue;
        }
        const int16_t *codes = (const int16_t *)rows[ty] + (size_t)columns.first * channels + channel;
        for (uint32_t i = 0; i < columns.count; i++) {
            sum += codes[(size_t)i * channels];
        }
        count += (int32_t)columns.count;
    }
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

void edgetool_average_pool_s16(const void *descriptor, const edgetool_band *band)
{
    const edgetool_average_pool_s16_op *op = (const edgetool_average_pool_s16_op *)descriptor;
    const void *const *rows = band->rows;
    int16_t *out = (int16_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        for (uint32_t x = 0; x < op->output_width; x++) {
            const edgetool_columns columns =
                edgetool_pool_columns(x, op->stride_x, op->taps_x, op->pad_x, op->input_width);
            for (uint32_t channel = 0; channel < op->channels; channel++) {
                const int32_t value = mean(rows, op->taps_y, columns, channel, op->channels);
                *out++ = (int16_t)edgetool_clamp(value, op->low, op->high);
            }
        }
        rows += op->taps_y;
    }
}
