/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv_sums_s8.h"

#include "edgetool_channels.h"

typedef edgetool_conv_sums_s8_op conv_op;

/* Adds the codes of some channels at all pixels of a row to their sums. */
static void add_row(const conv_op *op, const int8_t *row, uint32_t channel, uint32_t count, const uint32_t *distances,
                    int32_t *totals)
{
    const int8_t *weights = (const int8_t *)op->weights + (size_t)channel * op->input_channels;
    for (uint32_t x = 0; x < op->input_width; x++) {
        int32_t sums[EDGETOOL_CHANNELS] = {0};
        edgetool_add_products(row, op->input_channels, weights, distances, sums);
        for (uint32_t i = 0; i < count; i++) {
            const int32_t value = edgetool_rescale(sums[i], &op->scales[channel + i], op->shift, op->zero_point);
            totals[i] = edgetool_plus(totals[i], edgetool_clamp(value, op->low, op->high));
        }
        row += op->input_channels;
    }
}

void edgetool_conv_sums_s8(const void *descriptor, const edgetool_band *band)
{
    const conv_op *op = (const conv_op *)descriptor;
    int32_t *out = (int32_t *)band->out;
    for (uint32_t channel = 0; channel < op->output_channels; channel += EDGETOOL_CHANNELS) {
        const uint32_t left = op->output_channels - channel;
        const uint32_t count = left < EDGETOOL_CHANNELS ? left : EDGETOOL_CHANNELS;
        uint32_t distances[EDGETOOL_CHANNELS];
        int32_t totals[EDGETOOL_CHANNELS];
        /* Where there are no more channels, the last one is computed again. */
        for (uint32_t i = 0; i < EDGETOOL_CHANNELS; i++) {
            distances[i] = (i < count ? i : count - 1) * op->input_channels;
            totals[i] = band->first == 0 || i >= count ? 0 : out[channel + i];
        }
        for (uint32_t y = 0; y < band->count; y++) {
            add_row(op, (const int8_t *)band->rows[y], channel, count, distances, totals);
        }
        for (uint32_t i = 0; i < count; i++) {
            out[channel + i] = totals[i];
        }
    }
}
