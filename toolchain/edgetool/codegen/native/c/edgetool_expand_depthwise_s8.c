/* SPDX-License-Identifier: 0BSD */
#include "edgetool_expand_depthwise_s8.h"

#include "edgetool_channels.h"

typedef edgetool_expand_depthwise_s8_op fused_op;

#define CHANNELS 4U

/* Some channels of the convolution, and where their weights and scales are. */
typedef struct {
    const int8_t *weights;
    const edgetool_scale *scales;
    uint32_t count;
    /* From the first of the channels that are computed at once. */
    uint32_t distances[CHANNELS];
} channel_block;

/* The codes of a block at a pixel of the convolution. */
static void expand_pixel(const fused_op *op, const channel_block *block, const int8_t *pixel, uint32_t *word)
{
    int8_t *out = (int8_t *)word;
    for (uint32_t first = 0; first < block->count; first += EDGETOOL_CHANNELS) {
        const int8_t *weights = block->weights + (size_t)first * op->input_channels;
        const uint32_t left = block->count - first;
        int32_t sums[EDGETOOL_CHANNELS] = {0};
        edgetool_add_products(pixel, op->input_channels, weights, block->distances + first, sums);
        for (uint32_t i = 0; i < EDGETOOL_CHANNELS && i < left; i++) {
            const edgetool_scale *scale = &block->scales[first + i];
            const int32_t value = edgetool_rescale(sums[i], scale, op->shift, op->zero_point);
            out[first + i] = (int8_t)edgetool_clamp(value, op->low, op->high);
        }
    }
}

/* The codes of a block in all rows of a column, which may be outside the image. */
static void expand_column(const fused_op *op, const channel_block *block, const void *const *rows, uint32_t column,
                          uint32_t *words)
{
    const uint32_t outside = (uint8_t)op->outside * 0x01010101U;
    for (uint32_t ty = 0; ty < op->taps_y; ty++) {
        const int8_t *row = (const int8_t *)rows[ty];
        if (row != NULL && column < op->input_width) {
            expand_pixel(op, block, row + (size_t)column * op->input_channels, words + ty);
        } else {
            words[ty] = outside;
        }
    }
}

/* Adds a tap of four channels. */
static EDGETOOL_INLINE void add_tap(const uint32_t *codes, const uint32_t *weights, int32_t *sums)
{
#if defined(EDGETOOL_DSP)
    const uint32_t even = edgetool_sxtb16(*codes), even_weights = edgetool_sxtb16(*weights);
    const uint32_t odd = edgetool_sxtb16_odd(*codes), odd_weights = edgetool_sxtb16_odd(*weights);
    sums[0] = edgetool_smlabb(even, even_weights, sums[0]);
    sums[1] = edgetool_smlabb(odd, odd_weights, sums[1]);
    sums[2] = edgetool_smlatt(even, even_weights, sums[2]);
    sums[3] = edgetool_smlatt(odd, odd_weights, sums[3]);
#else
    const int8_t *code = (const int8_t *)codes, *weight = (const int8_t *)weights;
    sums[0] += code[0] * weight[0];
    sums[1] += code[1] * weight[1];
    sums[2] += code[2] * weight[2];
    sums[3] += code[3] * weight[3];
#endif
}

/* The outputs of a window: `slot` is the place of its first column in the ring of columns. */
static void compute_window(const fused_op *op, const uint32_t *ring, uint32_t slot, uint32_t reach,
                           const uint32_t *weights, const edgetool_scale *scales, uint32_t count, int8_t *out)
{
    int32_t sums[CHANNELS] = {0};
    for (uint32_t tx = 0; tx < op->taps_x; tx++) {
        const uint32_t *codes = ring + slot * op->taps_y, *weight = weights + tx;
        for (const uint32_t *const end = codes + op->taps_y; codes != end; codes++) {
            add_tap(codes, weight, sums);
            weight += op->taps_x;
        }
        slot += op->dilation_x;
        slot = slot < reach ? slot : slot - reach;
    }
    for (uint32_t i = 0; i < count; i++) {
        const edgetool_scale *scale = &scales[i];
        int32_t code;
        if (op->depthwise_shift < EDGETOOL_SIGN) {
            const int32_t sum = edgetool_plus(sums[i], (int32_t)scale->low);
            code = edgetool_smmla(sum, scale->multiplier, scale->high) >> op->depthwise_shift;
        } else {
            code = edgetool_rescale(sums[i], scale, op->depthwise_shift, op->depthwise_zero_point);
        }
        out[i] = (int8_t)edgetool_clamp(code, op->depthwise_low, op->depthwise_high);
    }
}

/* Computes an output row of some channels. */
static void compute_block(const fused_op *op, const channel_block *block, const void *const *rows, uint32_t channel,
                          uint32_t *ring, int8_t *out)
{
    const uint32_t *weights = op->depthwise_weights + (size_t)channel / CHANNELS * op->taps_y * op->taps_x;
    const uint32_t reach = (op->taps_x - 1U) * op->dilation_x + 1U;
    /* Columns are counted from the padding on; the ring has those in front of `next`. */
    uint32_t next = 0, slot = 0;
    for (uint32_t x = 0; x < op->output_width; x++) {
        const uint32_t start = x * op->stride_x;
        if (next < start) {
            next = start;
        }
        for (; next != start + reach; next++) {
            /* A column before the first one becomes a large number. */
            expand_column(op, block, rows, next - op->pad_x, ring + slot * op->taps_y);
            slot = slot + 1 < reach ? slot + 1 : 0;
        }
        compute_window(op, ring, slot, reach, weights, op->depthwise_scales + channel, block->count, out);
        out += op->output_channels;
    }
}

void edgetool_expand_depthwise_s8(const void *descriptor, const edgetool_band *band)
{
    const fused_op *op = (const fused_op *)descriptor;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + (size_t)y * op->taps_y;
        int8_t *out = (int8_t *)band->out + (size_t)y * op->output_width * op->output_channels;
        for (uint32_t channel = 0; channel < op->output_channels; channel += CHANNELS) {
            const uint32_t left = op->output_channels - channel;
            channel_block block;
            block.weights = (const int8_t *)op->weights + (size_t)channel * op->input_channels;
            block.scales = op->scales + channel;
            block.count = left < CHANNELS ? left : CHANNELS;
            /* Where there are no more channels, the last one is computed again. */
            for (uint32_t i = 0; i < CHANNELS; i++) {
                const uint32_t first = i / EDGETOOL_CHANNELS * EDGETOOL_CHANNELS;
                block.distances[i] = ((i < block.count ? i : block.count - 1) - first) * op->input_channels;
            }
            compute_block(op, &block, rows, channel, (uint32_t *)band->scratch, out + channel);
        }
    }
}
