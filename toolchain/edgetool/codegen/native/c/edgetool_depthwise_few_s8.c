/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_few_s8.h"

#include "edgetool_dsp.h"

typedef edgetool_depthwise_few_s8_op depthwise_op;

#define CHANNELS 4U

/* The codes of sums that are not products. */
static EDGETOOL_NOINLINE void store_others(const depthwise_op *op, const uint32_t *sums, uint32_t count,
                                           const edgetool_scale *scale, int8_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        edgetool_scale rest = *scale++;
        rest.low = 0;
        out[i] = (int8_t)edgetool_ssat8(edgetool_rescale((int32_t)sums[i], &rest, op->shift, op->zero_point));
    }
}

static inline int8_t code_of(uint32_t sum, const edgetool_scale *scale, uint32_t shift)
{
    return (int8_t)edgetool_ssat8(edgetool_smmla((int32_t)sum, scale->multiplier, scale->high) >> shift);
}

/* The taps of a pixel inside the input: rows that exist, and `count` columns from `start` bytes behind a row on. */
typedef struct {
    const void *const *rows;
    const void *const *rows_end;
    size_t start;
    uint32_t count;
} inside_taps;

/* What all pixels share. */
typedef struct {
    const depthwise_op *op;
    /* From a tap to the next one, and the weights of a row and of all rows. */
    size_t step, row_step, output_step;
    uint32_t multiplier, shift;
    int32_t zero_point;
} layer;

static inline layer layer_of(const depthwise_op *op, uint32_t together)
{
    layer all;
    all.op = op;
    all.step = (size_t)op->dilation_x * op->input_channels;
    all.row_step = (size_t)op->taps_x * together;
    all.output_step = all.row_step * op->taps_y;
    all.multiplier = op->depth_multiplier;
    all.shift = op->shift;
    all.zero_point = op->input_zero_point;
    return all;
}

/* Where the weights and scales of a pixel's next outputs are. */
typedef struct {
    const int8_t *weights;
    const edgetool_scale *scale;
    int8_t *out;
} place;

/* What is computed at once: one output, four that each read an input channel, or four that read the same one. */
typedef enum { ONES, FOURS, COPIES } kind;

#define ADD_TAP(tap) sum0 += (uint32_t)((codes[(tap) * step] - zero_point) * weights[tap]);
#define ADD_ROWS(taps) \
    for (const void *const *rows = at->rows; rows != at->rows_end; rows++) { \
        const int8_t *codes = (const int8_t *)*rows + channel; \
        taps weights += row_step; \
    }

/* Computes outputs of a pixel until `end` from an input channel on. */
static EDGETOOL_INLINE void compute_outputs(const layer *all, const inside_taps *at, uint32_t channel_of_input,
                                            place *next, const int8_t *end, kind how)
{
    const uint32_t together = how == ONES ? 1 : CHANNELS;
    const uint32_t multiplier = all->multiplier, shift = all->shift, count = at->count;
    const int32_t zero_point = all->zero_point;
    const size_t step = all->step, row_step = all->row_step;
    const edgetool_scale *scale = next->scale;
    const int8_t *first = next->weights;
    int8_t *out = next->out;
    size_t channel = at->start + channel_of_input;
    uint32_t copies = multiplier;
    for (; out != end; out += together) {
        const int8_t *weights = first;
        uint32_t sum0 = scale[0].low, sum1 = 0, sum2 = 0, sum3 = 0;
        if (together == CHANNELS) {
            sum1 = scale[1].low;
            sum2 = scale[2].low;
            sum3 = scale[3].low;
        }
        if (how == ONES && count == 3) {
            ADD_ROWS(ADD_TAP(0) ADD_TAP(1) ADD_TAP(2))
        } else if (how == ONES && count == 2) {
            ADD_ROWS(ADD_TAP(0) ADD_TAP(1))
        } else {
            for (const void *const *rows = at->rows; rows != at->rows_end; rows++) {
                const int8_t *codes = (const int8_t *)*rows + channel, *weight = weights;
                for (uint32_t taps = count; taps != 0; taps--) {
                    const int32_t code = codes[0] - zero_point;
                    sum0 += (uint32_t)(code * weight[0]);
                    if (together == CHANNELS) {
                        sum1 += (uint32_t)((how == COPIES ? code : codes[1] - zero_point) * weight[1]);
                        sum2 += (uint32_t)((how == COPIES ? code : codes[2] - zero_point) * weight[2]);
                        sum3 += (uint32_t)((how == COPIES ? code : codes[3] - zero_point) * weight[3]);
                    }
                    codes += step;
                    weight += together;
                }
                weights += row_step;
            }
        }
        if (shift < EDGETOOL_SIGN) {
            out[0] = code_of(sum0, scale, shift);
            if (together == CHANNELS) {
                out[1] = code_of(sum1, scale + 1, shift);
                out[2] = code_of(sum2, scale + 2, shift);
                out[3] = code_of(sum3, scale + 3, shift);
            }
        } else {
            const uint32_t sums[CHANNELS] = {sum0, sum1, sum2, sum3};
            store_others(all->op, sums, together, scale, out);
        }
        first += all->output_step;
        scale += together;
        if (how == FOURS) {
            channel += CHANNELS;
        } else {
            copies -= together;
            if (copies == 0) {
                copies = multiplier;
                channel++;
            }
        }
    }
    next->weights = first;
    next->scale = scale;
    next->out = out;
}

/* Computes all outputs. */
static EDGETOOL_INLINE void compute(const depthwise_op *op, const edgetool_band *band, kind how)
{
    const uint32_t channels = op->input_channels, outputs = channels * op->depth_multiplier;
    const uint32_t taps_x = op->taps_x, dilation = op->dilation_x, width = op->input_width;
    const uint32_t reach = (taps_x - 1) * dilation, inside = width > reach ? width - reach : 0;
    const uint32_t fours = how == FOURS ? channels & ~(CHANNELS - 1U) : outputs;
    const layer all = layer_of(op, how == ONES ? 1 : CHANNELS), one = layer_of(op, 1);
    const void *const *next_rows = band->rows;
    place next;
    next.out = (int8_t *)band->out;
    for (uint32_t y = band->count; y != 0; y--) {
        uint32_t column = 0U - op->pad_x, rows_outside = 0;
        inside_taps at;
        at.rows = next_rows;
        next_rows += op->taps_y;
        at.rows_end = next_rows;
        /* Rows that do not exist are the first or the last ones. */
        while (at.rows != at.rows_end && *at.rows == NULL) {
            at.rows++;
            rows_outside += taps_x;
        }
        while (at.rows_end != at.rows && at.rows_end[-1] == NULL) {
            at.rows_end--;
        }
        for (uint32_t left = op->output_width; left != 0; left--) {
            uint32_t start = column, count = taps_x, skipped = rows_outside;
            if (start >= inside) {
                /* A column before the first one is a large number. */
                for (; start >= width && count != 0; count--) {
                    start += dilation;
                    skipped++;
                }
                while (count != 0 && (count - 1) * dilation >= width - start) {
                    count--;
                }
            }
            at.start = (size_t)start * channels;
            at.count = count;
            next.scale = op->scales;
            next.weights = op->weights + (how == ONES ? skipped : skipped * CHANNELS);
            compute_outputs(&all, &at, 0, &next, next.out + fours, how);
            if (how == FOURS && fours != outputs) {
                next.weights = op->weights + fours * taps_x * op->taps_y + skipped;
                compute_outputs(&one, &at, fours, &next, next.out + (outputs - fours), ONES);
            }
            column += op->stride_x;
        }
    }
}

static EDGETOOL_NOINLINE void compute_ones(const depthwise_op *op, const edgetool_band *band)
{
    compute(op, band, ONES);
}

static EDGETOOL_NOINLINE void compute_fours(const depthwise_op *op, const edgetool_band *band)
{
    compute(op, band, FOURS);
}

static EDGETOOL_NOINLINE void compute_copies(const depthwise_op *op, const edgetool_band *band)
{
    compute(op, band, COPIES);
}

void edgetool_depthwise_few_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const uint32_t outputs = op->input_channels * (uint32_t)op->depth_multiplier;
    if (op->depth_multiplier % CHANNELS == 0) {
        compute_copies(op, band);
    } else if (outputs == op->input_channels && outputs >= CHANNELS) {
        compute_fours(op, band);
    } else {
        compute_ones(op, band);
    }
    edgetool_clamp_codes((int8_t *)band->out, band->count * op->output_width * outputs, op->low, op->high);
}
