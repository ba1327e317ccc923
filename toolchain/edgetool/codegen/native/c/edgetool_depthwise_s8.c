/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_s8.h"

#include "edgetool_dsp.h"
#include "edgetool_taps.h"

typedef edgetool_depthwise_s8_op depthwise_op;

#define CHANNELS 4U

/* How four channels read a tap: a word, four bytes, or the same byte for all. */
typedef enum { WORDS, BYTES, COPIES } tap_kind;

/* The kind of layers that are worth more code. */
#if defined(EDGETOOL_DSP)
#define USUAL WORDS
#else
#define USUAL BYTES
#endif

/* The taps of a pixel, `count` of them, in threes and the rest: those of its first channel are `offset` behind the addresses. */
typedef struct {
    const int8_t *const *taps;
    size_t offset;
    uint32_t count;
    uint32_t threes;
    uint32_t rest;
    int is_aligned;
} pixel;

/* The codes of sums that are not products. */
static EDGETOOL_NOINLINE void store_others(const depthwise_op *op, const int32_t *sums, uint32_t count,
                                           const edgetool_scale *scale, int8_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        edgetool_scale rest = *scale++;
        rest.low = 0;
        out[i] = (int8_t)edgetool_ssat8(edgetool_rescale(sums[i], &rest, op->shift, op->zero_point));
    }
}

static inline int8_t code_of(int32_t sum, const edgetool_scale *scale, uint32_t shift)
{
    return (int8_t)edgetool_ssat8(edgetool_smmla(sum, scale->multiplier, scale->high) >> shift);
}

/* Adds a tap of four channels. */
static EDGETOOL_INLINE void add_tap(const int8_t *codes, const uint32_t *word, tap_kind kind, int32_t *sums)
{
    const int8_t *weights = (const int8_t *)word;
#if defined(EDGETOOL_DSP)
    if (kind == WORDS) {
        const uint32_t even = edgetool_sxtb16(edgetool_load_word(codes)), even_weights = edgetool_sxtb16(*word);
        const uint32_t odd = edgetool_sxtb16_odd(edgetool_load_word(codes)), odd_weights = edgetool_sxtb16_odd(*word);
        sums[0] = edgetool_smlabb(even, even_weights, sums[0]);
        sums[1] = edgetool_smlabb(odd, odd_weights, sums[1]);
        sums[2] = edgetool_smlatt(even, even_weights, sums[2]);
        sums[3] = edgetool_smlatt(odd, odd_weights, sums[3]);
        return;
    }
#endif
    sums[0] += codes[0] * weights[0];
    sums[1] += codes[kind == COPIES ? 0 : 1] * weights[1];
    sums[2] += codes[kind == COPIES ? 0 : 2] * weights[2];
    sums[3] += codes[kind == COPIES ? 0 : 3] * weights[3];
}

/*
 * Computes the channels of a pixel in fours: four of input and output, or of outputs that read the same input. Returns
 * how many are done.
 */
static EDGETOOL_INLINE uint32_t compute_fours(const depthwise_op *op, const pixel *at, tap_kind kind, int8_t *out)
{
    const uint32_t *weights = op->weights;
    const uint32_t shift = op->shift, outputs = op->input_channels * (uint32_t)op->depth_multiplier & ~(CHANNELS - 1);
    const edgetool_scale *scale = op->scales;
    size_t channel = at->offset;
    uint32_t copies = op->depth_multiplier;
    for (const int8_t *const end = out + outputs; out != end; out += CHANNELS) {
        const uint32_t *const end_of_weights = weights + at->count;
        uint32_t left = at->count;
        int32_t sums[CHANNELS] = {(int32_t)scale[0].low, (int32_t)scale[1].low, (int32_t)scale[2].low,
                                  (int32_t)scale[3].low};
        if (kind == USUAL) {
            const int8_t *const *tap = at->taps;
            for (uint32_t threes = at->threes; threes != 0; threes--) {
                add_tap(tap[0] + channel, weights, kind, sums);
                add_tap(tap[1] + channel, weights + 1, kind, sums);
                add_tap(tap[2] + channel, weights + 2, kind, sums);
                tap += 3;
                weights += 3;
            }
            left = at->rest;
        }
        if (left != 0) {
            const int8_t *const *tap = at->taps + (at->count - left);
            weights = end_of_weights - left;
            do {
                add_tap(*tap++ + channel, weights++, kind, sums);
            } while (weights != end_of_weights);
        }
        weights = end_of_weights;
        if (shift < EDGETOOL_SIGN) {
            out[0] = code_of(sums[0], scale, shift);
            out[1] = code_of(sums[1], scale + 1, shift);
            out[2] = code_of(sums[2], scale + 2, shift);
            out[3] = code_of(sums[3], scale + 3, shift);
        } else {
            const int32_t others[CHANNELS] = {sums[0], sums[1], sums[2], sums[3]};
            store_others(op, others, CHANNELS, scale, out);
        }
        scale += CHANNELS;
        if (kind != COPIES) {
            channel += CHANNELS;
        } else {
            copies -= CHANNELS;
            if (copies == 0) {
                copies = op->depth_multiplier;
                channel++;
            }
        }
    }
    return outputs;
}

static EDGETOOL_NOINLINE uint32_t compute_bytes(const depthwise_op *op, const pixel *at, int8_t *out)
{
    return compute_fours(op, at, BYTES, out);
}

static EDGETOOL_NOINLINE uint32_t compute_copies(const depthwise_op *op, const pixel *at, int8_t *out)
{
    return compute_fours(op, at, COPIES, out);
}

#if defined(EDGETOOL_DSP)
static EDGETOOL_NOINLINE uint32_t compute_words(const depthwise_op *op, const pixel *at, int8_t *out)
{
    return at->is_aligned ? compute_fours(op, at, WORDS, out) : compute_bytes(op, at, out);
}
#else
#define compute_words compute_bytes
#endif

/* Computes output channels one by one, from `output` on, which is the first one unless each input has one output. */
static EDGETOOL_NOINLINE void compute_rest(const depthwise_op *op, const pixel *at, uint32_t output, int8_t *out)
{
    const uint32_t multiplier = op->depth_multiplier, outputs = (uint32_t)op->input_channels * multiplier;
    const uint32_t count = at->count, rest = at->rest, shift = op->shift;
    const uint32_t *four = op->weights + (size_t)output / CHANNELS * count;
    const edgetool_scale *scale = op->scales + output;
    size_t channel = at->offset + output;
    uint32_t copies = multiplier;
    for (; output != outputs; output++) {
        const int8_t *weights = (const int8_t *)four + output % CHANNELS;
        const int8_t *const *tap = at->taps;
        int32_t sum = (int32_t)scale->low;
        for (uint32_t threes = at->threes; threes != 0; threes--) {
            sum += tap[0][channel] * weights[0];
            sum += tap[1][channel] * weights[CHANNELS];
            sum += tap[2][channel] * weights[2 * CHANNELS];
            tap += 3;
            weights += 3 * CHANNELS;
        }
        for (uint32_t left = rest; left != 0; left--) {
            sum += (*tap++)[channel] * *weights;
            weights += CHANNELS;
        }
        if (shift < EDGETOOL_SIGN) {
            out[output] = code_of(sum, scale, shift);
        } else {
            const int32_t other = sum;
            store_others(op, &other, 1, scale, out + output);
        }
        scale++;
        if (output % CHANNELS == CHANNELS - 1) {
            four += count;
        }
        if (--copies == 0) {
            copies = multiplier;
            channel++;
        }
    }
}

/* Whether all rows of taps exist, and whether their pixels are at multiples of 4. */
static void judge_rows(const depthwise_op *op, const void *const *rows, int *are_present, int *are_aligned)
{
    *are_present = 1;
    *are_aligned = op->input_channels % 4 == 0;
    for (const void *const *const end = rows + op->taps_y; rows != end; rows++) {
        *are_present = *are_present && *rows != NULL;
        *are_aligned = *are_aligned && edgetool_is_aligned(*rows);
    }
}

void edgetool_depthwise_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const uint32_t multiplier = op->depth_multiplier, outputs = (uint32_t)op->input_channels * multiplier;
    const uint32_t step = op->stride_x * op->input_channels, reach = (op->taps_x - 1U) * op->dilation_x;
    const int8_t **taps = edgetool_tap_table(band->scratch);
    int8_t *out = (int8_t *)band->out;
    pixel at;
    edgetool_window window;
    at.taps = taps;
    at.count = (uint32_t)op->taps_y * op->taps_x;
    at.threes = at.count / 3;
    at.rest = at.count % 3;
    window.outside = (const int8_t *)op->zero_pixel;
    window.width = op->input_width;
    window.channels = op->input_channels;
    window.taps_y = op->taps_y;
    window.taps_x = op->taps_x;
    window.dilation = op->dilation_x;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + (size_t)y * op->taps_y;
        uint32_t column = 0U - op->pad_x;
        int are_present, was_inside = 0;
        judge_rows(op, rows, &are_present, &at.is_aligned);
        for (uint32_t x = 0; x < op->output_width; x++) {
            const int is_inside = are_present && column < op->input_width && reach < op->input_width - column;
            uint32_t done = 0;
            /* The same addresses serve all pixels of which all taps exist. */
            if (is_inside && was_inside) {
                at.offset += step;
            } else {
                edgetool_find_taps(&window, rows, column, taps);
                at.offset = 0;
            }
            was_inside = is_inside;
            if (multiplier == 1 && op->input_channels >= CHANNELS) {
                done = compute_words(op, &at, out);
            } else if (multiplier % CHANNELS == 0) {
                done = compute_copies(op, &at, out);
            }
            if (done != outputs) {
                compute_rest(op, &at, done, out);
            }
            column += op->stride_x;
            out += outputs;
        }
    }
    edgetool_clamp_codes((int8_t *)band->out, (uint32_t)(out - (int8_t *)band->out), op->low, op->high);
}
