/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv2d_s8.h"

#include "edgetool_channels.h"

typedef edgetool_conv2d_s8_op conv_op;

/* Adds products to the sum of one output channel. */
static EDGETOOL_NOINLINE int32_t add_products_of_one(const int8_t *codes, uint32_t count, const int8_t *weights,
                                                     int32_t sum)
{
    for (const int8_t *end = codes + (count & ~3U); codes != end; codes += 4) {
        sum += weights[0] * codes[0];
        sum += weights[1] * codes[1];
        sum += weights[2] * codes[2];
        sum += weights[3] * codes[3];
        weights += 4;
    }
    for (const int8_t *end = codes + (count & 3U); codes != end; codes++) {
        sum += *weights++ * *codes;
    }
    return sum;
}

/* Adds products to the sums of some output channels, of which there is only one if their distances are 0. */
static void add_products(const int8_t *codes, uint32_t count, const int8_t *weights, const uint32_t *distances,
                         int32_t *sums)
{
    if (distances[1] == 0) {
        sums[0] = add_products_of_one(codes, count, weights, sums[0]);
    } else {
        edgetool_add_products(codes, count, weights, distances, sums);
    }
}

/* The sums of all taps of some output channels at column x; `channel` is the first input channel of their group. */
static void sums_of_taps(const conv_op *op, const void *const *rows, uint32_t x, const int8_t *weights,
                         const uint32_t *distances, uint32_t channel, int32_t *sums)
{
    const uint32_t channels = op->input_channels, depth = channels / op->groups, taps = op->taps_x;
    /* A column before the first one becomes a large number. */
    const uint32_t start = x * op->stride_x - op->pad_x, width = op->input_width;
    const int is_run = depth == channels && op->dilation_x == 1 && start < width && taps <= width - start;
    for (uint32_t i = 0; i < EDGETOOL_CHANNELS; i++) {
        sums[i] = 0;
    }
    for (uint32_t ty = 0; ty < op->taps_y; ty++) {
        const int8_t *row = (const int8_t *)rows[ty];
        if (is_run && row != NULL) {
            add_products(row + (size_t)start * channels, taps * depth, weights, distances, sums);
            weights += taps * depth;
            continue;
        }
        for (uint32_t tx = 0; tx < taps; tx++) {
            const uint32_t column = start + tx * op->dilation_x;
            const int8_t *pixel = op->zero_pixel;
            if (row != NULL && column < width) {
                pixel = row + (size_t)column * channels;
            }
            add_products(pixel + channel, depth, weights, distances, sums);
            weights += depth;
        }
    }
}

void edgetool_conv2d_s8(const void *descriptor, const edgetool_band *band)
{
    const conv_op *op = (const conv_op *)descriptor;
    const uint32_t depth = op->input_channels / op->groups, filters = op->output_channels / op->groups;
    const uint32_t pixels = band->count * op->output_width, taps = (uint32_t)op->taps_y * op->taps_x * depth;
    for (uint32_t i = 0; i < pixels; i++) {
        const uint32_t pixel = op->descending != 0 ? pixels - 1 - i : i;
        const void *const *rows = band->rows + (size_t)(pixel / op->output_width) * op->taps_y;
        const uint32_t x = pixel % op->output_width;
        const int8_t *weights = (const int8_t *)op->weights;
        int8_t *out = (int8_t *)band->out + (size_t)pixel * op->output_channels;
        for (uint32_t channel = 0, left = filters, from = 0; channel < op->output_channels;) {
            int32_t sums[EDGETOOL_CHANNELS];
            uint32_t distances[EDGETOOL_CHANNELS];
            const uint32_t count = left < EDGETOOL_CHANNELS ? left : EDGETOOL_CHANNELS;
            /* Where a group has no more channels, its last one is computed again. */
            for (uint32_t j = 0; j < EDGETOOL_CHANNELS; j++) {
                distances[j] = (j < count ? j : count - 1) * taps;
            }
            sums_of_taps(op, rows, x, weights, distances, from, sums);
            for (uint32_t j = 0; j < count; j++) {
                const int32_t value = edgetool_rescale(sums[j], &op->scales[channel], op->shift, op->zero_point);
                out[channel++] = (int8_t)edgetool_clamp(value, op->low, op->high);
            }
            weights += (size_t)count * taps;
            left -= count;
            if (left == 0) {
                left = filters;
                from += depth;
            }
        }
    }
}
