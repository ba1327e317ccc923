/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_3x3_s8.h"

#include "edgetool_dsp.h"

typedef edgetool_depthwise_3x3_s8_op depthwise_op;

#define CHANNELS 4U
/* The words of weights of a channel. */
#define WORDS 3U

#if defined(EDGETOOL_DSP)

/*
 * Some outputs of a row, of up to four channels, in the order that the assembly knows. `top`, `bottom` and `out` are
 * behind the middle row of taps: `out` from the last column of a window to its output, for the last window if the
 * stride is 2. `middle` is the first column in the input, and `last` where the last one is or would be, less 1.
 */
typedef struct {
    uintptr_t top, bottom, out;
    uintptr_t last, middle;
    const edgetool_scale *scales;
    const uint32_t *weights;
    /* The zero point twice, and the channels of a pixel in the upper half. */
    uint32_t outside, step;
    uint32_t flags;
    /* What the outputs but the last one leave when they are divided by 3; 3 plus that of 2 if the stride is 2. */
    uint32_t entry;
    uint32_t channels;
    /* Bytes from the first output to the last one. */
    uint32_t ahead;
    uint32_t stride, count;
} outputs;

/* What is outside the input: the first and the last column, the top and the bottom row. */
#define LEFT 1U
#define RIGHT 2U
#define TOP 4U
#define BOTTOM 8U

#if defined(EDGETOOL_DSP_ASSEMBLY)

/*
 * r0 is at a column of the middle row, r1 to r3 are the distances to the other rows and the output. The weights of the
 * upper two rows are in r4, r6 and r8, those of the bottom row in r5 and r9, whose upper half is the step. r7 and lr
 * are the taps of a column. On the stack: low, multiplier, high, last, middle, scales, weights, outside, step, flags,
 * entry, channels, ahead.
 */
#define LOAD \
    "ldrsb.w r7, [r0, r1]\n\t" \
    "ldrsb.w lr, [r0]\n\t" \
    "pkhbt r7, r7, lr, lsl #16\n\t" \
    "ldrsb.w lr, [r0, r2]\n\t"
#define NEXT "add.w r0, r0, r9, lsr #16\n\t"
#define OUTSIDE \
    "ldr r7, [sp, #28]\n\t" \
    "mov lr, r7\n"
#define LOW(sum) "ldr.w " sum ", [sp]\n\t"
#define COLUMN0(sum, from) \
    "smlad " sum ", r7, r4, " from "\n\t" \
    "smlabb " sum ", lr, r5, " sum "\n\t"
#define COLUMN1(sum) \
    "smlad " sum ", r7, r6, " sum "\n\t" \
    "smlabt " sum ", lr, r5, " sum "\n\t"
#define COLUMN2(sum) \
    "smlad " sum ", r7, r8, " sum "\n\t" \
    "smlabb " sum ", lr, r9, " sum "\n\t"
#define CODE(sum, multiplier, high) \
    "smmla " sum ", " sum ", " multiplier ", " high "\n\t" \
    "ssat " sum ", #8, " sum "\n\t" \
    "strb.w " sum ", [r0, r3]\n\t"
#define SCALE "ldrd r7, lr, [sp, #4]\n\t"
/* A column is the last one of an output, the second one of the next output, and the first one of that behind it. */
#define STRIDE_1(first, second, third) \
    LOAD COLUMN2(first) COLUMN1(second) LOW(third) COLUMN0(third, third) SCALE CODE(first, "r7", "lr") NEXT
/* Two columns for an output; the scale is in r11 and r12. */
#define STRIDE_2 \
    LOAD COLUMN2("r10") CODE("r10", "r11", "r12") LOW("r10") NEXT "sub.w r3, r3, r9, lsr #16\n\t" \
        COLUMN0("r10", "r10") LOAD NEXT COLUMN1("r10")
#define UNTIL_LAST(label) \
    "ldr r7, [sp, #12]\n\t" \
    "cmp r0, r7\n\t" \
    "bne " label "b\n\t"

#else

static int32_t code_at(const outputs *all, const int8_t *weights, const edgetool_scale *scale, uintptr_t column,
                       uint32_t first, uint32_t end)
{
    const int8_t outside = (int8_t)all->outside;
    int32_t sum = (int32_t)scale->low;
    for (uint32_t x = 0; x < 3; x++) {
        const int is_inside = x >= first && x < end;
        const int8_t *middle = (const int8_t *)(column + x * (all->step >> 16));
        const int8_t *top = is_inside && (all->flags & TOP) == 0 ? (const int8_t *)((uintptr_t)middle + all->top) : &outside;
        const int8_t *bottom =
            is_inside && (all->flags & BOTTOM) == 0 ? (const int8_t *)((uintptr_t)middle + all->bottom) : &outside;
        const uint32_t pair = edgetool_pack_low((uint32_t)*top, (uint32_t)*(is_inside ? middle : &outside));
        sum = edgetool_smlad(pair, edgetool_sxtb16(*(const uint32_t *)(const void *)weights), sum);
        sum = edgetool_smlabt((uint32_t)*bottom, edgetool_sxtb16_odd(*(const uint32_t *)(const void *)weights), sum);
        weights += CHANNELS * CHANNELS;
    }
    return edgetool_ssat8(edgetool_smmla(sum, scale->multiplier, scale->high));
}

#endif

static EDGETOOL_NOINLINE void compute_outputs(const outputs *all)
{
#if defined(EDGETOOL_DSP_ASSEMBLY)
    register const outputs *arguments __asm__("r0") = all;
    __asm__ volatile(
        "push {r7}\n\t"
        "ldm r0!, {r1, r2, r3}\n\t"
        "ldm r0, {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n\t"
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n\t"
        "sub sp, #12\n"
        /* A channel: scale, weights, and where its columns are. */
        "1:\n\t"
        "ldrd r7, lr, [sp, #20]\n\t"
        "ldm r7!, {r10, r11, r12}\n\t"
        "ldr.w r4, [lr]\n\t"
        "ldr.w r6, [lr, #16]\n\t"
        "ldr.w r8, [lr, #32]\n\t"
        "add.w lr, lr, #4\n\t"
        "strd r7, lr, [sp, #20]\n\t"
        "strd r10, r12, [sp, #4]\n\t"
        "sxtb16 r5, r4, ror #8\n\t"
        "sxtb16 r4, r4\n\t"
        "sxtb16 r7, r6, ror #8\n\t"
        "sxtb16 r6, r6\n\t"
        "sxtb16 r9, r8, ror #8\n\t"
        "sxtb16 r8, r8\n\t"
        "pkhtb r5, r7, r5, asr #16\n\t"
        "ldrd r7, lr, [sp, #32]\n\t"
        "pkhtb r9, r7, r9, asr #16\n\t"
        "tst.w lr, #12\n\t"
        "bne 8f\n"
        "2:\n\t"
        "ldrd r7, r0, [sp, #12]\n\t"
        "adds r7, #1\n\t"
        "add.w r10, r0, #1\n\t"
        "strd r7, r10, [sp, #12]\n\t"
        "str.w r11, [sp]\n\t"
        "lsls.w lr, lr, #31\n\t"
        "bmi 9f\n\t"
        LOAD NEXT
        "3:\n\t"
        COLUMN0("r10", "r11")
        LOAD NEXT COLUMN1("r10") COLUMN0("r11", "r11")
        /* The first output has two columns, and the next one has one. */
        "ldr r7, [sp, #40]\n\t"
        "cmp r7, #1\n\t"
        "bcc 6f\n\t"
        "beq 5f\n\t"
        "cmp r7, #3\n\t"
        "bcs 10f\n\t"
        "mov r12, r11\n\t"
        "mov r11, r10\n\t"
        "b 4f\n"
        "5:\n\t"
        "mov r12, r10\n\t"
        "mov r10, r11\n\t"
        "b 7f\n"
        "15:\n\t"
        STRIDE_1("r10", "r11", "r12")
        "4:\n\t"
        STRIDE_1("r11", "r12", "r10")
        "7:\n\t"
        STRIDE_1("r12", "r10", "r11")
        "6:\n\t"
        UNTIL_LAST("15")
        "b 13f\n"
        /* Weights of a row outside the input: the zero point's products are in the sum. */
        "8:\n\t"
        "ldr r7, [sp, #28]\n\t"
        "tst.w lr, #4\n\t"
        "beq 16f\n\t"
        "smlabb r11, r7, r4, r11\n\t"
        "smlabb r11, r7, r6, r11\n\t"
        "smlabb r11, r7, r8, r11\n\t"
        "bfc r4, #0, #16\n\t"
        "bfc r6, #0, #16\n\t"
        "bfc r8, #0, #16\n\t"
        "b 2b\n"
        "16:\n\t"
        "smlabb r11, r7, r5, r11\n\t"
        "smlabt r11, r7, r5, r11\n\t"
        "smlabb r11, r7, r9, r11\n\t"
        "movs r5, #0\n\t"
        "bfc r9, #0, #16\n\t"
        "b 2b\n"
        "9:\n\t"
        OUTSIDE
        "b 3b\n"
        "10:\n\t"
        "ldr r7, [sp, #48]\n\t"
        "ldrd r11, r12, [sp, #4]\n\t"
        "add r3, r7\n\t"
        "beq 12f\n"
        "b 11f\n"
        "14:\n\t"
        STRIDE_2
        "11:\n\t"
        STRIDE_2
        "12:\n\t"
        UNTIL_LAST("14")
        /* The last output. */
        "13:\n\t"
        "ldr r7, [sp, #36]\n\t"
        "lsls r7, r7, #30\n\t"
        "bmi 17f\n\t"
        LOAD
        "b 18f\n"
        "17:\n\t"
        OUTSIDE
        "18:\n\t"
        COLUMN2("r10") SCALE CODE("r10", "r7", "lr")
        "ldr r7, [sp, #44]\n\t"
        "subs r7, #1\n\t"
        "str r7, [sp, #44]\n\t"
        "tst.w r7, #3\n\t"
        "bne 1b\n\t"
        /* The weights of the next four channels. */
        "ldr.w lr, [sp, #24]\n\t"
        "add.w lr, lr, #32\n\t"
        "str.w lr, [sp, #24]\n\t"
        "cmp r7, #0\n\t"
        "bne 1b\n\t"
        "add sp, #52\n\t"
        "pop {r7}\n\t"
        : "+r"(arguments)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    const uint32_t step = all->step >> 16, left = all->flags & LEFT;
    const uintptr_t start = all->middle - left * step;
    const uintptr_t out = all->last + 1 + all->out - (all->stride == 1 ? (all->count - 1) * step : all->ahead);
    for (uint32_t channel = 0; channel < all->channels; channel++) {
        const uint32_t four = channel / CHANNELS * CHANNELS;
        const int8_t *weights = (const int8_t *)(all->weights + four * WORDS + channel - four);
        for (uint32_t x = 0; x < all->count; x++) {
            const uint32_t end = x == all->count - 1 && (all->flags & RIGHT) != 0 ? 2 : 3;
            const uintptr_t column = start + channel + x * all->stride * step;
            int8_t *to = (int8_t *)(out + channel + x * step);
            *to = (int8_t)code_at(all, weights, all->scales + channel, column, x == 0 ? left : 0, end);
        }
    }
#endif
}

/* Computes `count` pixels of a row from x on, channel by channel. */
static EDGETOOL_NOINLINE void compute_pixels(const depthwise_op *op, const void *const *rows, uint32_t x, uint32_t count, int8_t *out)
{
    const uint32_t channels = op->input_channels, stride = op->stride_x, others = count - 1;
    const uint32_t start = x * stride, reach = others * stride + 2, pad = op->pad_x;
    const uintptr_t middle = (uintptr_t)rows[1];
    outputs all;
    all.flags = (start < pad ? LEFT : 0) | (start + reach - pad >= op->input_width ? RIGHT : 0);
    all.flags |= (rows[0] == NULL ? TOP : 0) | (rows[2] == NULL ? BOTTOM : 0);
    all.top = rows[0] != NULL ? (uintptr_t)rows[0] - middle : 0;
    all.bottom = rows[2] != NULL ? (uintptr_t)rows[2] - middle : 0;
    all.middle = middle + (start < pad ? 0 : start - pad) * channels;
    all.last = middle + (start + reach - pad) * channels - 1;
    all.out = (uintptr_t)out + others * channels - all.last - 1;
    all.scales = op->scales;
    all.weights = op->weights;
    all.outside = edgetool_sxtb16(*op->zero_pixel);
    all.step = channels << 16;
    all.entry = stride == 1 ? others % 3 : 3 + others % 2;
    all.ahead = others * channels;
    all.stride = stride;
    all.count = count;
    all.channels = channels & ~3U;
    if (all.channels != 0) {
        compute_outputs(&all);
        all.scales += all.channels;
        all.weights += all.channels * WORDS;
        all.middle += all.channels;
        all.last += all.channels;
    }
    all.channels = channels % CHANNELS;
    if (all.channels != 0) {
        compute_outputs(&all);
    }
}

#define FAR 0x10000

/*
 * Returns how many whole pixels are from an output row to a row of taps of which it has bytes at a distance that is no
 * multiple of a pixel; FAR if there is none, and a negative number if it is behind the row's first byte.
 */
static int32_t nearest(const depthwise_op *op, const void *const *rows, const int8_t *out)
{
    const uint32_t channels = op->input_channels;
    int32_t pixels = FAR;
    for (uint32_t i = 0; i < 3; i++) {
        const uintptr_t to_row = (uintptr_t)rows[i] - (uintptr_t)out, from_row = 0U - to_row;
        if (rows[i] != NULL && to_row < (uintptr_t)op->output_width * channels) {
            const int32_t distance = (int32_t)(to_row / channels);
            pixels = to_row % channels != 0 && distance < pixels ? distance : pixels;
        } else if (rows[i] != NULL && from_row < (uintptr_t)op->input_width * channels && from_row % channels != 0) {
            pixels = -FAR;
        }
    }
    return pixels;
}

void edgetool_depthwise_3x3_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const uint32_t width = op->output_width;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int32_t apart = nearest(op, rows, out);
        for (uint32_t x = 0; x < width;) {
            uint32_t count = width - x;
            if (apart != FAR) {
                /* All outputs of some pixels are in front of the first pixel that they read. */
                const int32_t start = (int32_t)(x * op->stride_x) - op->pad_x;
                const int32_t most = apart + (start > 0 ? start : 0) - (int32_t)x;
                count = most >= (int32_t)count ? count : (most > 1 ? (uint32_t)most : 1);
            }
            compute_pixels(op, rows, x, count, out);
            x += count;
            out += count * op->input_channels;
        }
        rows += 3;
    }
    edgetool_clamp_codes((int8_t *)band->out, band->count * width * op->input_channels, op->low, op->high);
}

#else

static inline int8_t code_of(int32_t sum, const edgetool_scale *scale)
{
    return (int8_t)edgetool_ssat8(edgetool_smmla(sum, scale->multiplier, scale->high));
}

/* Writes the addresses of the taps of a pixel, column by column; a column before the first one is a large number. */
static void find_taps(const depthwise_op *op, const void *const *rows, uint32_t column, const int8_t **taps)
{
    for (const uint32_t end = column + 3; column != end; column++) {
        const size_t place = (size_t)column * op->input_channels;
        for (uint32_t ty = 0; ty < 3; ty++) {
            const int8_t *row = column < op->input_width ? (const int8_t *)rows[ty] : NULL;
            *taps++ = row != NULL ? row + place : (const int8_t *)op->zero_pixel;
        }
    }
}

/* Adds a tap of four channels. */
static inline void add_tap(const int8_t *codes, const int8_t *weights, int32_t *sums)
{
    sums[0] += codes[0] * weights[0];
    sums[1] += codes[1] * weights[4];
    sums[2] += codes[2] * weights[8];
    sums[3] += codes[3] * weights[12];
}

/* Computes the channels of a pixel in fours; its taps are `offset` behind the addresses of the table. */
static EDGETOOL_NOINLINE void compute_fours(const depthwise_op *op, const int8_t *const *taps, size_t offset, int8_t *out)
{
    const int8_t *weights = (const int8_t *)op->weights;
    const edgetool_scale *scale = op->scales;
    const size_t last = offset + (op->input_channels & ~3U);
    for (size_t channel = offset; channel != last; channel += CHANNELS) {
        int32_t sums[CHANNELS] = {(int32_t)scale[0].low, (int32_t)scale[1].low, (int32_t)scale[2].low,
                                  (int32_t)scale[3].low};
        for (const int8_t *const *tap = taps; tap != taps + 9; tap += 3) {
            add_tap(tap[0] + channel, weights, sums);
            add_tap(tap[1] + channel, weights + 1, sums);
            add_tap(tap[2] + channel, weights + 3, sums);
            weights += 4 * CHANNELS;
        }
        out[0] = code_of(sums[0], scale);
        out[1] = code_of(sums[1], scale + 1);
        out[2] = code_of(sums[2], scale + 2);
        out[3] = code_of(sums[3], scale + 3);
        out += CHANNELS;
        scale += CHANNELS;
    }
}

/* Computes the channels that are no four. */
static void compute_rest(const depthwise_op *op, const int8_t *const *taps, size_t offset, int8_t *out)
{
    const uint32_t first = op->input_channels & ~3U;
    for (uint32_t channel = first; channel < op->input_channels; channel++) {
        const int8_t *weights = (const int8_t *)(op->weights + (size_t)first * WORDS + channel % CHANNELS);
        int32_t sum = (int32_t)op->scales[channel].low;
        for (const int8_t *const *tap = taps; tap != taps + 9; tap += 3) {
            sum += tap[0][offset + channel] * weights[0];
            sum += tap[1][offset + channel] * weights[1];
            sum += tap[2][offset + channel] * weights[3];
            weights += 4 * CHANNELS;
        }
        out[channel] = code_of(sum, op->scales + channel);
    }
}

void edgetool_depthwise_3x3_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const uint32_t step = (uint32_t)op->stride_x * op->input_channels;
    const int8_t *taps[9];
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        uint32_t column = 0U - op->pad_x;
        size_t offset = 0;
        int was_inside = 0;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const int is_inside = rows[0] != NULL && rows[2] != NULL && column < op->input_width - 2U;
            /* The same addresses serve all pixels of which all taps exist. */
            if (is_inside && was_inside) {
                offset += step;
            } else {
                find_taps(op, rows, column, taps);
                offset = 0;
            }
            was_inside = is_inside;
            compute_fours(op, taps, offset, out);
            if (op->input_channels % CHANNELS != 0) {
                compute_rest(op, taps, offset, out);
            }
            column += op->stride_x;
            out += op->input_channels;
        }
        rows += 3;
    }
    edgetool_clamp_codes((int8_t *)band->out, (uint32_t)(out - (int8_t *)band->out), op->low, op->high);
}

#endif
