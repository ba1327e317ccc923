/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_s8.h"

#include "edgetool_dsp.h"
#include "edgetool_taps.h"

typedef edgetool_depthwise_s8_op depthwise_op;

/* Four output channels of a pixel: `count` taps, whose addresses are in the table. */
typedef struct {
    const int8_t *const *taps;
    const uint32_t *weights;
    uint32_t count;
} four_channels;

/* The code of a sum, if it is in the form "rounded" and has no narrower clamp. */
static inline int8_t direct_code(int32_t sum, const edgetool_scale *scale, uint32_t shift)
{
    return (int8_t)edgetool_ssat8(edgetool_smmlar(sum, scale->multiplier, scale->high) >> shift);
}

/*
 * Computes the channels of a pixel in fours, with direct codes: four of input and output, or of outputs that read the same
 * input. Returns how many are done. `is_aligned`: the taps are at multiples of 4.
 */
static EDGETOOL_NOINLINE uint32_t compute_fours(const depthwise_op *op, const int8_t *const *taps, int is_aligned,
                                                int8_t *out)
{
    const uint32_t *word = op->weights, shift = op->shift, count = (uint32_t)op->taps_y * op->taps_x;
    const uint32_t multiplier = op->depth_multiplier, outputs = op->input_channels * multiplier;
    const edgetool_scale *scale = op->scales;
    uint32_t output = 0, channel = 0, copies = 0;
    for (; output + 4 <= outputs; output += 4) {
        const int8_t *const *tap = taps;
        int32_t sum0 = (int32_t)scale[0].low, sum1 = (int32_t)scale[1].low;
        int32_t sum2 = (int32_t)scale[2].low, sum3 = (int32_t)scale[3].low;
        const uint32_t *end = word + count;
#if defined(EDGETOOL_DSP)
        if (is_aligned && multiplier == 1) {
            do {
                const uint32_t codes = edgetool_load_word(*tap++ + channel), weights = *word++;
                const uint32_t even = edgetool_sxtb16(codes), odd = edgetool_sxtb16_odd(codes);
                const uint32_t even_weights = edgetool_sxtb16(weights), odd_weights = edgetool_sxtb16_odd(weights);
                sum0 = edgetool_smlabb(even, even_weights, sum0);
                sum1 = edgetool_smlabb(odd, odd_weights, sum1);
                sum2 = edgetool_smlatt(even, even_weights, sum2);
                sum3 = edgetool_smlatt(odd, odd_weights, sum3);
            } while (word != end);
        } else
#endif
        if (multiplier != 1) {
            do {
                const int8_t code = (*tap++)[channel], *weights = (const int8_t *)word++;
                sum0 += code * weights[0];
                sum1 += code * weights[1];
                sum2 += code * weights[2];
                sum3 += code * weights[3];
            } while (word != end);
        } else {
            do {
                const int8_t *code = *tap++ + channel, *weights = (const int8_t *)word++;
                sum0 += code[0] * weights[0];
                sum1 += code[1] * weights[1];
                sum2 += code[2] * weights[2];
                sum3 += code[3] * weights[3];
            } while (word != end);
        }
        out[0] = direct_code(sum0, scale, shift);
        out[1] = direct_code(sum1, scale + 1, shift);
        out[2] = direct_code(sum2, scale + 2, shift);
        out[3] = direct_code(sum3, scale + 3, shift);
        out += 4;
        scale += 4;
        copies += 4;
        if (multiplier == 1) {
            channel += 4;
        } else if (copies == multiplier) {
            channel++;
            copies = 0;
        }
    }
    (void)is_aligned;
    return output;
}

/* The sum of one channel: `index` is its place in the four, `channel` that of its input. */
static int32_t sum_channel(const four_channels *four, uint32_t channel, uint32_t index)
{
    const int8_t *weights = (const int8_t *)four->weights + index;
    const int8_t *const *tap = four->taps;
    int32_t sum = 0;
    for (const int8_t *const *end = tap + four->count; tap != end; tap++) {
        sum += (*tap)[channel] * *weights;
        weights += 4;
    }
    return sum;
}

/* Computes a pixel; the table has the addresses of all its taps. */
static void compute_pixel(const depthwise_op *op, const int8_t *const *taps, int is_aligned, int8_t *out)
{
    const uint32_t multiplier = op->depth_multiplier, outputs = (uint32_t)op->input_channels * multiplier;
    const int is_direct = op->is_rounded != 0 && op->low == -128 && op->high == 127;
    uint32_t output = 0, input = 0, copies = 0;
    four_channels four;
    four.taps = taps;
    four.count = (uint32_t)op->taps_y * op->taps_x;
    if (is_direct && (multiplier == 1 || multiplier % 4 == 0)) {
        output = compute_fours(op, taps, is_aligned, out);
        input = output;
    }
    four.weights = op->weights + output / 4 * four.count;
    for (const edgetool_scale *scale = op->scales + output; output < outputs; scale++) {
        const int32_t sum = sum_channel(&four, input, output % 4);
        int32_t value;
        if (op->is_rounded != 0) {
            value = edgetool_rounded(sum, scale, op->shift);
        } else {
            value = edgetool_rescale(sum, scale, op->shift, op->zero_point);
        }
        out[output] = (int8_t)edgetool_clamp(value, op->low, op->high);
        if (++output % 4 == 0) {
            four.weights += four.count;
        }
        if (++copies == multiplier) {
            copies = 0;
            input++;
        }
    }
}

void edgetool_depthwise_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const size_t step = (size_t)op->input_channels * op->depth_multiplier;
    const int8_t **taps = edgetool_tap_table(band->scratch);
    int8_t *out = (int8_t *)band->out;
    edgetool_window window;
    window.outside = (const int8_t *)op->zero_pixel;
    window.width = op->input_width;
    window.channels = op->input_channels;
    window.taps_y = op->taps_y;
    window.taps_x = op->taps_x;
    window.dilation = op->dilation_x;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + (size_t)y * op->taps_y;
        int is_aligned = op->input_channels % 4 == 0;
        for (uint32_t ty = 0; ty < op->taps_y; ty++) {
            is_aligned = is_aligned && edgetool_is_aligned(rows[ty]);
        }
        for (uint32_t x = 0; x < op->output_width; x++) {
            edgetool_find_taps(&window, rows, x * op->stride_x - op->pad_x, taps);
            compute_pixel(op, taps, is_aligned, out);
            out += step;
        }
    }
}
