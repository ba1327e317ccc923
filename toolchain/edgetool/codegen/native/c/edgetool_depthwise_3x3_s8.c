/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_3x3_s8.h"

#include "edgetool_dsp.h"

typedef edgetool_depthwise_3x3_s8_op depthwise_op;

/* The words of a channel, and those of them in front of what its sum begins with, its multiplier and the rest. */
#define WORDS 6U
#define LOW 3U
#define MULTIPLIER 4U
#define HIGH 5U

static inline int8_t code_of(int32_t sum, const uint32_t *channel)
{
    return (int8_t)edgetool_ssat8(edgetool_smmla(sum, (int32_t)channel[MULTIPLIER], (int32_t)channel[HIGH]));
}

#if defined(EDGETOOL_DSP)

/*
 * Some outputs of a row, in the order that the assembly knows. `top`, `bottom` and `out` are behind the middle row of
 * taps: `out` from the last column of a window to its output, for the last window if the stride is 2. `middle` is the
 * first column in the input, and `last` where the last one is or would be, less 1. `start` to `finish` are places in
 * the code; `first` is that of the first column, which `start` is, too, unless a row is outside the input.
 */
typedef struct {
    uintptr_t top, bottom, out;
    const uint32_t *weights, *weights_end;
    uintptr_t last, middle;
    /* The zero point twice. */
    uint32_t outside;
    uint32_t start, first, entry, finish;
    /* Bytes from the first output to the last one. */
    uint32_t ahead;
    uint32_t stride, count, step;
} outputs;

/*
 * Places in the code: with the first column outside the input or inside, with the top or the bottom row outside, what
 * follows the first two columns by what the outputs but the last one leave when they are divided by 3, or by 2 if the
 * stride is 2, and with the last column outside or inside.
 */
enum { LEFT, NOT_LEFT, TOP, BOTTOM, BY_ONE, BY_TWO = BY_ONE + 3, RIGHT = BY_TWO + 2, NOT_RIGHT };

#if defined(EDGETOOL_DSP_ASSEMBLY)

/*
 * r0 is at a column of the middle row, r1 to r3 are the distances to the other rows and the output. The weights of the
 * upper two rows are in r4, r6 and r8, those of the bottom row in r5 and r9, whose upper half is the step. r7 and lr
 * are the taps of a column. On the stack: low, multiplier, high, weights, weights_end, last, middle, outside, start,
 * first, entry, finish, ahead.
 */
#define LOAD \
    "ldrsb.w r7, [r0, r1]\n\t" \
    "ldrsb.w lr, [r0]\n\t" \
    "pkhbt r7, r7, lr, lsl #16\n\t" \
    "ldrsb.w lr, [r0, r2]\n\t"
#define NEXT "add.w r0, r0, r9, lsr #16\n\t"
#define OUTSIDE "ldr r7, [sp, #28]\n\t"
#define START(sum) "ldr.w " sum ", [sp]\n\t"
#define COLUMN0(sum, from, below) \
    "smlad " sum ", r7, r4, " from "\n\t" \
    "smlabb " sum ", " below ", r5, " sum "\n\t"
#define COLUMN1(sum) \
    "smlad " sum ", r7, r6, " sum "\n\t" \
    "smlabt " sum ", lr, r5, " sum "\n\t"
#define COLUMN2(sum, below) \
    "smlad " sum ", r7, r8, " sum "\n\t" \
    "smlabb " sum ", " below ", r9, " sum "\n\t"
#define CODE(sum, multiplier, high) \
    "smmla " sum ", " sum ", " multiplier ", " high "\n\t" \
    "ssat " sum ", #8, " sum "\n\t" \
    "strb.w " sum ", [r0, r3]\n\t"
#define SCALE "ldrd r7, lr, [sp, #4]\n\t"
/* A column is the last one of an output, the second one of the next output, and the first one of that behind it. */
#define STRIDE_1(first, second, third) \
    LOAD COLUMN2(first, "lr") COLUMN1(second) START(third) COLUMN0(third, third, "lr") SCALE \
        CODE(first, "r7", "lr") NEXT
/* Two columns for an output; the scale is in r10 and r11. */
#define STRIDE_2 \
    LOAD COLUMN2("r12", "lr") CODE("r12", "r10", "r11") START("r12") NEXT "sub.w r3, r3, r9, lsr #16\n\t" \
        COLUMN0("r12", "r12", "lr") LOAD NEXT COLUMN1("r12")
#define BEGIN_STRIDE_2 \
    "ldr r7, [sp, #48]\n\t" \
    "mov r12, r11\n\t" \
    "ldrd r10, r11, [sp, #4]\n\t" \
    "add r3, r7\n\t"
#define UNTIL_LAST(label) \
    "ldr r7, [sp, #20]\n\t" \
    "cmp r0, r7\n\t" \
    "bne " label "b\n\t" \
    "ldr.w pc, [sp, #44]\n"
#define ADDRESS(place) "ldrh.w " place ", [r0, " place ", lsl #1]\n\tadd " place ", r0\n\t"
#define PLACE(label) ".hword " label "f - 2b + 1\n\t"

#else

static int8_t code_at(const outputs *all, const uint32_t *channel, uintptr_t column, uint32_t first, uint32_t end)
{
    const uint32_t words[3] = {channel[0], channel[1], channel[2]};
    const uint32_t above[3] = {edgetool_sxtb16(words[0]), edgetool_sxtb16_odd(words[0]), edgetool_sxtb16(words[1])};
    const uint32_t below = edgetool_sxtb16_odd(words[1]), lasts[3] = {below, below >> 16, words[2]};
    const int8_t outside = (int8_t)all->outside;
    int32_t sum = (int32_t)channel[LOW];
    for (uint32_t x = 0; x < 3; x++) {
        const int is_inside = x >= first && x < end;
        const int8_t *middle = (const int8_t *)(column + x * all->step);
        const int8_t *top = is_inside && all->start != TOP ? (const int8_t *)((uintptr_t)middle + all->top) : &outside;
        const int8_t *bottom =
            is_inside && all->start != BOTTOM ? (const int8_t *)((uintptr_t)middle + all->bottom) : &outside;
        const uint32_t pair = edgetool_pack_low((uint32_t)*top, (uint32_t)*(is_inside ? middle : &outside));
        sum = edgetool_smlad(pair, above[x], sum);
        sum = edgetool_smlabb((uint32_t)*bottom, lasts[x], sum);
    }
    return code_of(sum, channel);
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
        "adr.w r0, 2f\n\t"
        ADDRESS("r9") ADDRESS("r10") ADDRESS("r11") ADDRESS("r12")
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n\t"
        "sub sp, #12\n\t"
        "mov lr, r4\n\t"
        "b.n 1f\n\t"
        ".balign 4\n"
        "2:\n\t"
        PLACE("3") PLACE("4") PLACE("7") PLACE("8") PLACE("10") PLACE("11") PLACE("14") PLACE("17") PLACE("18")
        PLACE("22") PLACE("23")
        ".balign 4\n"
        /* A channel: weights and scale, and where its columns are. */
        "1:\n\t"
        "ldm.w lr!, {r4, r5, r9, r10, r11, r12}\n\t"
        "stm.w sp, {r10, r11, r12, lr}\n\t"
        "sxtb16 r6, r4, ror #8\n\t"
        "sxtb16 r4, r4\n\t"
        "sxtb16 r8, r5\n\t"
        "sxtb16 r5, r5, ror #8\n\t"
        "ldrd r7, r0, [sp, #20]\n\t"
        "adds r7, #1\n\t"
        "add.w lr, r0, #1\n\t"
        "strd r7, lr, [sp, #20]\n\t"
        "ldr.w pc, [sp, #32]\n"
        /* Weights of a row outside the input: the zero point's products are in the sum. */
        "7:\n\t"
        OUTSIDE
        "smlabb r10, r7, r4, r10\n\t"
        "smlabb r10, r7, r6, r10\n\t"
        "smlabb r10, r7, r8, r10\n\t"
        "bfc r4, #0, #16\n\t"
        "bfc r6, #0, #16\n\t"
        "bfc r8, #0, #16\n\t"
        "b.n 9f\n"
        "8:\n\t"
        OUTSIDE
        "smlabb r10, r7, r5, r10\n\t"
        "smlabt r10, r7, r5, r10\n\t"
        "smlabb r10, r7, r9, r10\n\t"
        "movs r5, #0\n\t"
        "bfc r9, #0, #16\n"
        "9:\n\t"
        "str.w r10, [sp]\n\t"
        "ldr.w pc, [sp, #36]\n"
        /* The first output has two columns, and the next one has one. */
        "4:\n\t"
        LOAD NEXT COLUMN0("r11", "r10", "lr")
        "b.n 5f\n"
        "3:\n\t"
        OUTSIDE COLUMN0("r11", "r10", "r7")
        "5:\n\t"
        LOAD NEXT COLUMN1("r11") COLUMN0("r10", "r10", "lr")
        "ldr.w pc, [sp, #40]\n"
        "10:\n\t"
        "mov r12, r11\n\t"
        "mov r11, r10\n\t"
        "b.n 15f\n"
        "11:\n\t"
        "mov r12, r10\n\t"
        "mov r10, r11\n\t"
        "b.n 12f\n"
        "13:\n\t"
        STRIDE_1("r12", "r11", "r10")
        "14:\n\t"
        STRIDE_1("r11", "r10", "r12")
        "12:\n\t"
        STRIDE_1("r10", "r12", "r11")
        "15:\n\t"
        UNTIL_LAST("13")
        "18:\n\t"
        BEGIN_STRIDE_2
        "b.n 19f\n"
        "17:\n\t"
        BEGIN_STRIDE_2
        "b.n 21f\n"
        "20:\n\t"
        STRIDE_2
        "19:\n\t"
        STRIDE_2
        "21:\n\t"
        UNTIL_LAST("20")
        /* The last output. */
        "23:\n\t"
        LOAD COLUMN2("r12", "lr")
        "b.n 24f\n"
        "22:\n\t"
        OUTSIDE COLUMN2("r12", "r7")
        "24:\n\t"
        SCALE CODE("r12", "r7", "lr")
        "ldrd lr, r7, [sp, #12]\n\t"
        "cmp lr, r7\n\t"
        "bne.w 1b\n\t"
        "add sp, #52\n\t"
        "pop {r7}\n\t"
        : "+r"(arguments)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    const uint32_t step = all->step, left = all->first == LEFT;
    uintptr_t start = all->middle - left * step, out = all->last + 1 + all->out - all->ahead;
    for (const uint32_t *channel = all->weights; channel != all->weights_end; channel += WORDS) {
        for (uint32_t x = 0; x < all->count; x++) {
            const uint32_t end = x == all->count - 1 && all->finish == RIGHT ? 2 : 3;
            int8_t *to = (int8_t *)(out + x * step);
            *to = code_at(all, channel, start + x * all->stride * step, x == 0 ? left : 0, end);
        }
        start++;
        out++;
    }
#endif
}

/* Computes `count` pixels of a row from x on, channel by channel. */
static EDGETOOL_NOINLINE void compute_pixels(const depthwise_op *op, const void *const *rows, uint32_t x,
                                             uint32_t count, int8_t *out)
{
    const uint32_t channels = op->input_channels, stride = op->stride_x, others = count - 1;
    const uint32_t start = x * stride, reach = others * stride + 2, pad = op->pad_x;
    const uintptr_t middle = (uintptr_t)rows[1];
    outputs all;
    all.first = start < pad ? LEFT : NOT_LEFT;
    all.start = rows[0] == NULL ? TOP : (rows[2] == NULL ? BOTTOM : all.first);
    all.entry = stride == 1 ? BY_ONE + others % 3 : BY_TWO + others % 2;
    all.finish = start + reach - pad >= op->input_width ? RIGHT : NOT_RIGHT;
    all.top = rows[0] != NULL ? (uintptr_t)rows[0] - middle : 0;
    all.bottom = rows[2] != NULL ? (uintptr_t)rows[2] - middle : 0;
    all.middle = middle + (start < pad ? 0 : start - pad) * channels;
    all.last = middle + (start + reach - pad) * channels - 1;
    all.out = (uintptr_t)out + others * channels - all.last - 1;
    all.weights = op->weights;
    all.weights_end = op->weights + channels * WORDS;
    all.outside = edgetool_sxtb16(*op->zero_pixel);
    all.ahead = others * channels;
    all.stride = stride;
    all.count = count;
    all.step = channels;
    compute_outputs(&all);
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

/* Where the addresses of the taps of a column are, which have the order of the weights. */
static const uint8_t places[3][3] = {{0, 2, 5}, {1, 3, 7}, {4, 6, 8}};

/* Writes the addresses of the taps of a pixel; a column before the first one is a large number. */
static void find_taps(const depthwise_op *op, const void *const *rows, uint32_t column, const int8_t **taps)
{
    for (uint32_t tx = 0; tx < 3; tx++) {
        const size_t place = (size_t)column * op->input_channels;
        for (uint32_t ty = 0; ty < 3; ty++) {
            const int8_t *row = column < op->input_width ? (const int8_t *)rows[ty] : NULL;
            taps[places[tx][ty]] = row != NULL ? row + place : (const int8_t *)op->zero_pixel;
        }
        column++;
    }
}

#if !defined(__thumb__) || defined(__thumb2__)
/* Armv6-M has too few registers. */
#define HAS_FOURS 1
#define CHANNELS 4U

/* Adds a tap of four channels. */
static inline void add_tap(const int8_t *codes, const int8_t *weights, int32_t *sums)
{
    sums[0] += codes[0] * weights[0];
    sums[1] += codes[1] * weights[4 * WORDS];
    sums[2] += codes[2] * weights[8 * WORDS];
    sums[3] += codes[3] * weights[12 * WORDS];
}

/* Computes the channels of a pixel in fours; its taps are `offset` behind the addresses of the table. */
static EDGETOOL_NOINLINE void compute_fours(const depthwise_op *op, const int8_t *const *taps, size_t offset,
                                            int8_t *out)
{
    const uint32_t *four = op->weights;
    const size_t last = offset + (op->input_channels & ~3U);
    for (size_t channel = offset; channel != last; channel += CHANNELS) {
        int32_t sums[CHANNELS] = {(int32_t)four[LOW], (int32_t)four[WORDS + LOW], (int32_t)four[2 * WORDS + LOW],
                                  (int32_t)four[3 * WORDS + LOW]};
        const int8_t *weights = (const int8_t *)four;
        for (const int8_t *const *tap = taps; tap != taps + 9; tap += 3) {
            add_tap(tap[0] + channel, weights, sums);
            add_tap(tap[1] + channel, weights + 1, sums);
            add_tap(tap[2] + channel, weights + 2, sums);
            weights += 3;
        }
        out[0] = code_of(sums[0], four);
        out[1] = code_of(sums[1], four + WORDS);
        out[2] = code_of(sums[2], four + 2 * WORDS);
        out[3] = code_of(sums[3], four + 3 * WORDS);
        out += CHANNELS;
        four += CHANNELS * WORDS;
    }
}

#endif

/* Computes the channels from `first` on one by one. */
static EDGETOOL_NOINLINE void compute_ones(const depthwise_op *op, const int8_t *const *taps, size_t offset,
                                           uint32_t first, int8_t *out)
{
    const uint32_t *channel = op->weights + (size_t)first * WORDS;
    const uint32_t *end = op->weights + (size_t)op->input_channels * WORDS;
    out += first;
    for (offset += first; channel != end; offset++) {
        const int8_t *weights = (const int8_t *)channel;
        int32_t sum = (int32_t)channel[LOW];
#define ADD(tap) sum += taps[tap][offset] * weights[tap];
        ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(8)
        *out++ = code_of(sum, channel);
        channel += WORDS;
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
#if defined(HAS_FOURS)
            compute_fours(op, taps, offset, out);
            if (op->input_channels % CHANNELS != 0) {
                compute_ones(op, taps, offset, op->input_channels & ~3U, out);
            }
#else
            compute_ones(op, taps, offset, 0, out);
#endif
            column += op->stride_x;
            out += op->input_channels;
        }
        rows += 3;
    }
    edgetool_clamp_codes((int8_t *)band->out, (uint32_t)(out - (int8_t *)band->out), op->low, op->high);
}

#endif
