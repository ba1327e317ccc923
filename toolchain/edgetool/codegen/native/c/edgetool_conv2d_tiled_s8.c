/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv2d_tiled_s8.h"

#include "edgetool_dsp.h"

typedef edgetool_conv2d_tiled_s8_op conv_op;

#define LINE_SHIFT 3
/* The most bytes of one row of taps that are copied twice if some are outside. */
#define ASIDE 16

/*
 * Columns have the taps of the pixels of a group in the order of the weights; SPREAD is the distance of two pixels, and
 * PLACE that of the taps of four. Armv6-M has eight registers for most instructions. It loads several words at once,
 * but not signed bytes.
 */
#if defined(EDGETOOL_DSP)
#define PIXELS 4
#define SPREAD 2
#define PLACE(tap) ((tap) % 2 * 8 + (tap) / 2)
typedef int16_t column_type;
#elif defined(__thumb__) && !defined(__thumb2__)
#define PIXELS 2
#define SPREAD 1
#define PLACE(tap) (((tap) % 2 * 2 + (tap) / 2) * PIXELS)
typedef int32_t column_type;
#else
#define PIXELS 4
#define SPREAD 1
#define PLACE(tap) (((tap) % 2 * 2 + (tap) / 2) * PIXELS)
typedef int8_t column_type;
#endif

/* What the loop over pairs of channels needs, in the order that its assembly knows. */
typedef struct {
    const uint32_t *weights;
    column_type *columns;
    const column_type *columns_end;
    /* The instructions that the first pass of the loop over taps skips, in bytes. */
    uint32_t skipped;
    int8_t *out;
    /* From a pixel to the next one, and from the first to the last one. */
    size_t step, last;
    const int8_t *out_end;
    uint32_t is_signed;
} group;

#if defined(__thumb2__) && defined(__GNUC__)

/*
 * The outputs of four pixels, of which the last two may be the same, for pairs of channels.
 *
 * Eight sums, two pointers and four numbers are all the registers there are, and GCC spills; so the rest is on the
 * stack. The sums of the first channel are in r4, r5, r6 and r8, those of the second one in r9 to r12.
 */
#if defined(EDGETOOL_DSP)
#define TURN(first, second) \
    "ldr.w r2, [r1], #4\n\t" \
    "sxtb16 r3, r2, ror #8\n\t" \
    "sxtb16 r2, r2\n\t" \
    "ldrd lr, r7, [r0], #8\n\t" \
    "smlad r4, r2, lr, " first("r4") "\n\t" \
    "smlad r5, r2, r7, " first("r5") "\n\t" \
    "smlad r9, r3, lr, " second("r9") "\n\t" \
    "smlad r10, r3, r7, " second("r10") "\n\t" \
    "ldrd lr, r7, [r0], #8\n\t" \
    "smlad r6, r2, lr, " first("r6") "\n\t" \
    "smlad r8, r2, r7, r8\n\t" \
    "smlad r11, r3, lr, " second("r11") "\n\t" \
    "smlad r12, r3, r7, r12\n\t"
#define SAME(sum) sum
#define START_FIRST(sum) "r8"
#define START_SECOND(sum) "r12"
#define TURNS \
    TURN(START_FIRST, START_SECOND) \
    "ldr r2, [sp, #8]\n\t" \
    "add pc, r2\n\t" \
    "nop\n" \
    "2:\n\t" \
    TURN(SAME, SAME) TURN(SAME, SAME) TURN(SAME, SAME) TURN(SAME, SAME) \
    TURN(SAME, SAME) TURN(SAME, SAME) TURN(SAME, SAME) TURN(SAME, SAME)
#define PRODUCT(sum) "smmla " sum ", " sum ", r2, r3\n\t"
#define ROUNDED "smmlar r0, r0, r2, r3\n\t"
#else
#define BOTH(first, second, column) \
    "ldrsb lr, [r0" column "\n\t" \
    "mla " first ", r2, lr, " first "\n\t" \
    "mla " second ", r3, lr, " second "\n\t"
#define TURN \
    "ldrsb r2, [r1], #4\n\t" \
    "ldrsb r3, [r1, #-3]\n\t" \
    BOTH("r4", "r9", "], #8") BOTH("r5", "r10", ", #-7]") BOTH("r6", "r11", ", #-6]") BOTH("r8", "r12", ", #-5]") \
    "ldrsb r2, [r1, #-2]\n\t" \
    "ldrsb r3, [r1, #-1]\n\t" \
    BOTH("r4", "r9", ", #-4]") BOTH("r5", "r10", ", #-3]") BOTH("r6", "r11", ", #-2]") BOTH("r8", "r12", ", #-1]")
#define TURNS \
    "mov r4, r8\n\tmov r5, r8\n\tmov r6, r8\n\tmov r9, r12\n\tmov r10, r12\n\tmov r11, r12\n" \
    "2:\n\t" \
    TURN TURN
#define PRODUCT(sum) "smull r0, " sum ", " sum ", r2\n\tadd " sum ", r3\n\t"
#define ROUNDED "smull r7, r0, r0, r2\n\tlsls r7, r7, #1\n\tadc r0, r0, r3\n\t"
#endif
#define SHIFTED(sum) "ssat " sum ", #8, " sum ", asr #3\n\t"
#define SIGNED(sum) \
    "lsl.w r0, " sum ", #1\n\t" \
    ROUNDED \
    "add.w " sum ", r0, " sum ", asr #31\n\t" \
    "asr.w " sum ", " sum ", lr\n\t" \
    "ssat " sum ", #8, " sum "\n\t"

static EDGETOOL_NOINLINE void compute_pairs(const group *all)
{
    register const group *arguments __asm__("r0") = all;
    __asm__ volatile(
        "push {r7}\n\t"
        "ldm r0, {r1, r2, r3, r4, r5, r6, r8, r9, r10}\n\t"
        "push {r2, r3, r4, r5, r6, r8, r9, r10}\n"
        /* For each pair. */
        "1:\n\t"
        "ldrd r8, r12, [r1], #8\n\t"
        "ldr r0, [sp]\n\t"
        TURNS
        "ldr r2, [sp, #4]\n\t"
        "cmp r2, r0\n\t"
        "bne.w 2b\n\t"
        /* Codes, in the registers of the sums. */
        "ldr r0, [sp, #28]\n\t"
        "cmp r0, #0\n\t"
        "bne.w 5f\n\t"
        "ldrd r2, r3, [r1], #8\n\t"
        PRODUCT("r4") PRODUCT("r5") PRODUCT("r6") PRODUCT("r8")
        "ldrd r2, r3, [r1], #8\n\t"
        PRODUCT("r9") PRODUCT("r10") PRODUCT("r11") PRODUCT("r12")
        SHIFTED("r4") SHIFTED("r5") SHIFTED("r6") SHIFTED("r8")
        SHIFTED("r9") SHIFTED("r10") SHIFTED("r11") SHIFTED("r12")
        "4:\n\t"
        "ldrd r2, r3, [sp, #12]\n\t"
        "ldr.w lr, [sp, #20]\n\t"
        "strb r5, [r2, r3]\n\t"
        "strb r6, [r2, r3, lsl #1]\n\t"
        "strb r8, [r2, lr]\n\t"
        "strb r4, [r2], #1\n\t"
        "strb r10, [r2, r3]\n\t"
        "strb r11, [r2, r3, lsl #1]\n\t"
        "strb r12, [r2, lr]\n\t"
        "strb r9, [r2], #1\n\t"
        "str r2, [sp, #12]\n\t"
        "ldr r3, [sp, #24]\n\t"
        "cmp r3, r2\n\t"
        "bne.w 1b\n\t"
        "b.n 6f\n"
        "5:\n\t"
        "ldm r1!, {r2, r3, lr}\n\t"
        SIGNED("r4") SIGNED("r5") SIGNED("r6") SIGNED("r8")
        "ldm r1!, {r2, r3, lr}\n\t"
        SIGNED("r9") SIGNED("r10") SIGNED("r11") SIGNED("r12")
        "b.n 4b\n"
        "6:\n\t"
        "add sp, #32\n\t"
        "pop {r7}\n\t"
        : "+r"(arguments)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

#else

/*
 * The sums of two channels for the pixels of a group, first those of the first channel. Returns what is behind the
 * weights.
 */
static EDGETOOL_NOINLINE const uint32_t *add_products(const group *all, const uint32_t *weights, int32_t *sums)
{
    const column_type *columns = all->columns;
#if defined(__thumb__) && !defined(__thumb2__) && defined(__GNUC__)
    /* GCC keeps sums in memory and needs two instructions for each byte; here sums are in the upper registers. */
    register const int32_t *column __asm__("r0") = columns;
    register const uint32_t *word __asm__("r1") = weights + 2;
    register const int32_t *end __asm__("r12") = all->columns_end;
    register int32_t s0 __asm__("r8") = (int32_t)weights[0];
    register int32_t s1 __asm__("r9") = s0;
    register int32_t s2 __asm__("r10") = (int32_t)weights[1];
    register int32_t s3 __asm__("r11") = s2;
#define FIRST "mov r6, r5\n\tmuls r6, r2\n\tadd r8, r6\n\tmuls r5, r3\n\tadd r9, r5\n\t"
#define SECOND(weight) "muls r2, " weight "\n\tadd r10, r2\n\tmuls r3, " weight "\n\tadd r11, r3\n\t"
#define TURN \
    "ldmia r1!, {r4}\n\t" \
    "ldmia r0!, {r2, r3}\n\t" \
    "sxtb r5, r4\n\t" FIRST \
    "lsls r5, r4, #16\n\t" \
    "asrs r5, r5, #24\n\t" SECOND("r5") \
    "ldmia r0!, {r2, r3}\n\t" \
    "lsls r5, r4, #8\n\t" \
    "asrs r5, r5, #24\n\t" FIRST \
    "asrs r4, r4, #24\n\t" SECOND("r4")
    __asm__ volatile(".syntax unified\n"
                     "1:\n\t" TURN TURN
                     "cmp r0, r12\n\t"
                     "bne 1b\n\t"
                     : "+r"(column), "+r"(word), "+r"(end), "+r"(s0), "+r"(s1), "+r"(s2), "+r"(s3)
                     :
                     : "r2", "r3", "r4", "r5", "r6", "cc", "memory");
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
    return word;
#else
    int32_t s0 = (int32_t)weights[0], s1 = s0, s2 = s0, s3 = s0, s4 = (int32_t)weights[1], s5 = s4, s6 = s4, s7 = s4;
#if defined(EDGETOOL_DSP)
    for (weights += 2; columns != all->columns_end; columns += 8) {
        const uint32_t first = edgetool_sxtb16(*weights), second = edgetool_sxtb16_odd(*weights);
        const uint32_t taps0 = edgetool_load_word(columns), taps1 = edgetool_load_word(columns + 2);
        const uint32_t taps2 = edgetool_load_word(columns + 4), taps3 = edgetool_load_word(columns + 6);
        s0 = edgetool_smlad(first, taps0, s0);
        s1 = edgetool_smlad(first, taps1, s1);
        s2 = edgetool_smlad(first, taps2, s2);
        s3 = edgetool_smlad(first, taps3, s3);
        s4 = edgetool_smlad(second, taps0, s4);
        s5 = edgetool_smlad(second, taps1, s5);
        s6 = edgetool_smlad(second, taps2, s6);
        s7 = edgetool_smlad(second, taps3, s7);
        weights++;
    }
#else
    const int8_t *weight = (const int8_t *)(weights + 2);
#define ADD(tap) \
    s0 += weight[2 * (tap)] * columns[4 * (tap)]; \
    s1 += weight[2 * (tap)] * columns[4 * (tap) + 1]; \
    s2 += weight[2 * (tap)] * columns[4 * (tap) + 2]; \
    s3 += weight[2 * (tap)] * columns[4 * (tap) + 3]; \
    s4 += weight[2 * (tap) + 1] * columns[4 * (tap)]; \
    s5 += weight[2 * (tap) + 1] * columns[4 * (tap) + 1]; \
    s6 += weight[2 * (tap) + 1] * columns[4 * (tap) + 2]; \
    s7 += weight[2 * (tap) + 1] * columns[4 * (tap) + 3];
    for (const column_type *end = all->columns_end; columns != end; columns += 8) {
        ADD(0)
        ADD(1)
        weight += 4;
    }
    weights = (const uint32_t *)EDGETOOL_ALIGNED(weight);
#endif
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
    sums[4] = s4;
    sums[5] = s5;
    sums[6] = s6;
    sums[7] = s7;
    return weights;
#endif
}

/* The outputs of the pixels of a group, of which the last two may be the same, for pairs of channels. */
static void compute_pairs(const group *all)
{
    const uint32_t *weights = all->weights;
    const size_t step = all->step, last = all->last;
    for (int8_t *out = all->out; out != all->out_end;) {
        int32_t sums[2 * PIXELS];
        const int32_t *sum = sums;
        weights = add_products(all, weights, sums);
        for (uint32_t i = 0; i < 2; i++) {
            const int32_t multiplier = (int32_t)weights[0], second = (int32_t)weights[1];
            weights += 2;
            if (all->is_signed != 0) {
                const uint32_t shift = *weights++;
                for (uint32_t pixel = 0; pixel < PIXELS; pixel++) {
                    const int32_t code = edgetool_smmlar(sum[pixel] * 2, multiplier, second) + (sum[pixel] >> 31);
                    out[pixel + 1 < PIXELS ? pixel * step : last] = (int8_t)edgetool_ssat8(code >> shift);
                }
            } else {
#define CODE(pixel) (int8_t)edgetool_ssat8(edgetool_smmla(sum[pixel], multiplier, second) >> LINE_SHIFT)
                out[0] = CODE(0);
#if PIXELS == 4
                out[step] = CODE(1);
                out[2 * step] = CODE(2);
#endif
                out[last] = CODE(PIXELS - 1);
            }
            sum += PIXELS;
            out++;
        }
    }
}

#endif

/* The code of a sum in the forms other than lines. */
static int32_t other_code(const conv_op *op, const uint32_t *numbers, int32_t sum)
{
    const int32_t multiplier = (int32_t)numbers[0];
    if (op->shift == EDGETOOL_SIGN) {
        return (edgetool_smmlar(sum * 2, multiplier, (int32_t)numbers[1]) + (sum >> 31)) >> numbers[2];
    }
    const int32_t scaled = edgetool_multiply(sum, multiplier, numbers[1] >> 16, numbers[1] & 0xFFFFU);
    return edgetool_plus(scaled, op->zero_point);
}

/* The outputs of one pixel in an odd number of channels or an even one, whose weights follow. */
static EDGETOOL_NOINLINE void compute_pixel(const conv_op *op, const column_type *columns, const column_type *end,
                                            const uint32_t *weights, int8_t *out, const int8_t *out_end)
{
    while (out != out_end) {
        int32_t sum = (int32_t)weights[0], next = (int32_t)weights[1];
        weights += 2;
        for (const column_type *column = columns; column != end; column += 4 * PIXELS) {
#if defined(EDGETOOL_DSP)
            const uint32_t word0 = weights[0], word1 = weights[1];
            const uint32_t taps0 = edgetool_load_word(column), taps1 = edgetool_load_word(column + 8);
            sum = edgetool_smlad(edgetool_sxtb16(word0), taps0, sum);
            next = edgetool_smlad(edgetool_sxtb16_odd(word0), taps0, next);
            sum = edgetool_smlad(edgetool_sxtb16(word1), taps1, sum);
            next = edgetool_smlad(edgetool_sxtb16_odd(word1), taps1, next);
#else
            const int8_t *weight = (const int8_t *)weights;
#define ADD_TAP(tap) \
    sum += weight[2 * (tap)] * column[(tap) * PIXELS]; \
    next += weight[2 * (tap) + 1] * column[(tap) * PIXELS];
            ADD_TAP(0)
            ADD_TAP(1)
            ADD_TAP(2)
            ADD_TAP(3)
#endif
            weights += 2;
        }
        if (op->shift < EDGETOOL_SIGN) {
            sum = edgetool_smmla(sum, (int32_t)weights[0], (int32_t)weights[1]) >> LINE_SHIFT;
            next = edgetool_smmla(next, (int32_t)weights[2], (int32_t)weights[3]) >> LINE_SHIFT;
            weights += 4;
        } else {
            const uint32_t numbers = op->shift == EDGETOOL_SIGN ? 3 : 2;
            sum = other_code(op, weights, sum);
            next = other_code(op, weights + numbers, next);
            weights += 2 * numbers;
        }
        *out++ = (int8_t)edgetool_ssat8(sum);
        if (out != out_end) {
            *out++ = (int8_t)edgetool_ssat8(next);
        }
    }
}

/* Clamps codes that are beside each other. */
static void clamp_codes(const conv_op *op, int8_t *out, uint32_t count)
{
    const int32_t low = op->low, high = op->high;
#if defined(EDGETOOL_DSP)
    if (edgetool_is_aligned(out)) {
        const uint32_t lows = (uint32_t)(uint8_t)low * 0x01010101U, highs = (uint32_t)(uint8_t)high * 0x01010101U;
        for (; count >= 4; count -= 4) {
            edgetool_store_word(out, edgetool_min8(edgetool_max8(edgetool_load_word(out), lows), highs));
            out += 4;
        }
    }
#endif
    for (const int8_t *end = out + count; out != end; out++) {
        *out = (int8_t)edgetool_clamp(*out, low, high);
    }
}

/* The words of a pair of channels. */
static inline size_t words_of_pair(const conv_op *op, const group *all)
{
    return (size_t)(all->columns_end - all->columns) / (2 * PIXELS) + (op->shift == EDGETOOL_SIGN ? 8 : 6);
}

/* The outputs of a group of pixels in the last channel, which makes a pair with one that does not exist. */
static EDGETOOL_NOINLINE void compute_last(const conv_op *op, const group *all, uint32_t count, int8_t *out)
{
    int8_t codes[2 * PIXELS];
    group pair = *all;
    pair.weights += op->filters / 2U * words_of_pair(op, all);
    pair.step = 2;
    pair.last = (count - 1) * 2;
    pair.out = codes;
    pair.out_end = codes + 2;
    compute_pairs(&pair);
    for (uint32_t i = 0; i < count; i++) {
        *out = codes[2 * i];
        out += all->step;
    }
}

/* The outputs of a group of pixels. */
static inline void compute_group(const conv_op *op, group *all, uint32_t count, int8_t *out)
{
    const uint32_t channels = op->filters, paired = channels & ~1U;
    if (count > PIXELS / 2 && op->shift != EDGETOOL_DOUBLE_ROUNDING) {
        if (paired != 0) {
            all->out = out;
            all->out_end = out + paired;
            all->last = (count - 1) * all->step;
            compute_pairs(all);
        }
        if (paired != channels) {
            compute_last(op, all, count, out + paired);
        }
    } else {
        for (uint32_t place = 0; place < count * SPREAD; place += SPREAD) {
            compute_pixel(op, all->columns + place, all->columns_end + place, all->weights, out, out + channels);
            out += all->step;
        }
    }
}

#if defined(EDGETOOL_DSP_ASSEMBLY)

/* GCC has no stores of several registers for this, and up to twice as many instructions. */
#define COPY(four_taps) \
    register int16_t *column __asm__("r0") = to; \
    register const int8_t *const *pixels __asm__("r1") = from; \
    register const int16_t *column_end __asm__("r2") = end; \
    __asm__ volatile("push {r7}\n\t" \
                     "ldm r1, {r1, r3, r12, lr}\n" \
                     "1:\n\t" four_taps \
                     "cmp r0, r2\n\t" \
                     "bne 1b\n\t" \
                     "pop {r7}\n\t" \
                     : "+r"(column), "+r"(pixels), "+r"(column_end) \
                     : \
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory")
#define EXTEND(rotation) \
    "sxtb16 r4, r8" rotation "\n\t" \
    "sxtb16 r5, r9" rotation "\n\t" \
    "sxtb16 r6, r10" rotation "\n\t" \
    "sxtb16 r7, r11" rotation "\n\t" \
    "stmia r0!, {r4, r5, r6, r7}\n\t"
#define PAIR(pair, pixel, first, second) \
    "ldrsb " pair ", [" pixel first "\n\t" \
    "ldrsb r8, [" pixel ", #" second "]\n\t" \
    "pkhbt " pair ", " pair ", r8, lsl #16\n\t"
#define PAIRS(first, second) \
    PAIR("r4", "r1", first, second) PAIR("r5", "r3", first, second) \
    PAIR("r6", "r12", first, second) PAIR("r7", "lr", first, second) \
    "stmia r0!, {r4, r5, r6, r7}\n\t"

/* Copies four taps of each of four pixels, as often as there are, from multiples of 4. */
static EDGETOOL_NOINLINE void put_words(int16_t *to, const int8_t *const *from, const int16_t *end)
{
    COPY("ldr.w r8, [r1], #4\n\t"
         "ldr.w r9, [r3], #4\n\t"
         "ldr.w r10, [r12], #4\n\t"
         "ldr.w r11, [lr], #4\n\t" EXTEND("") EXTEND(", ror #8"));
}

/* The same from any address. */
static EDGETOOL_NOINLINE void put_fours(int16_t *to, const int8_t *const *from, const int16_t *end)
{
    COPY(PAIRS("], #4", "-2") PAIRS(", #-3]", "-1"));
}

#else

/* Copies four taps of each pixel of a group, as often as there are. */
static void put_fours(column_type *to, const int8_t *const *from, const column_type *end)
{
    const int8_t *first = from[0], *second = from[1];
#if PIXELS == 4
    const int8_t *third = from[2], *fourth = from[3];
#endif
    for (; to != end; to += 4 * PIXELS) {
#define PUT(tap) \
    to[PLACE(tap)] = first[tap]; \
    to[PLACE(tap) + SPREAD] = second[tap];
        PUT(0)
        PUT(1)
        PUT(2)
        PUT(3)
        first += 4;
        second += 4;
#if PIXELS == 4
#define PUT_MORE(tap) \
    to[PLACE(tap) + 2 * SPREAD] = third[tap]; \
    to[PLACE(tap) + 3 * SPREAD] = fourth[tap];
        PUT_MORE(0)
        PUT_MORE(1)
        PUT_MORE(2)
        PUT_MORE(3)
        third += 4;
        fourth += 4;
#endif
    }
}

#if defined(EDGETOOL_DSP)

static void put_words(int16_t *to, const int8_t *const *from, const int16_t *end)
{
    for (uint32_t tap = 0; to != end; tap += 4) {
        for (uint32_t pixel = 0; pixel < 4; pixel++) {
            const uint32_t word = edgetool_load_word(from[pixel] + tap);
            edgetool_store_word(to + pixel * 2, edgetool_sxtb16(word));
            edgetool_store_word(to + pixel * 2 + 8, edgetool_sxtb16_odd(word));
        }
        to += 16;
    }
}

#endif
#endif

/* Copies a few taps of all pixels of a group, from `tap` on, to the place of the tap `rest` and behind. */
static EDGETOOL_NOINLINE void put_rest(column_type *columns, uint32_t rest, const int8_t *const *from, uint32_t tap,
                                       uint32_t end)
{
    for (; tap != end; tap++) {
        column_type *to = columns + (size_t)(rest / 4) * 4 * PIXELS + PLACE(rest % 4);
        to[0] = from[0][tap];
        to[SPREAD] = from[1][tap];
#if PIXELS == 4
        to[2 * SPREAD] = from[2][tap];
        to[3 * SPREAD] = from[3][tap];
#endif
        rest++;
    }
}

/* Copies `count` taps of all pixels of a group: fours to `to`, and others to the place of the tap `rest` and behind. */
static inline void put_taps(column_type *to, const int8_t *const *from, uint32_t count, column_type *columns,
                            uint32_t rest)
{
    const uint32_t whole = count & ~3U;
    const column_type *end = to + (size_t)whole * PIXELS;
#if defined(EDGETOOL_DSP)
    const uintptr_t bits = (uintptr_t)from[0] | (uintptr_t)from[1] | (uintptr_t)from[2] | (uintptr_t)from[3];
    if ((count | bits) % 4 == 0) {
        put_words(to, from, end);
        return;
    }
#endif
    if (whole != 0) {
        put_fours(to, from, end);
    }
    if (whole != count) {
        put_rest(columns, rest, from, whole, count);
    }
}

/* Whether the taps of a row do not follow each other. */
static inline int is_apart(const conv_op *op)
{
    return op->dilation_x != 1 || op->groups != 1;
}

/* Whether all taps of a row fit aside, where they are beside each other even if some are outside. */
static inline int is_short(const conv_op *op)
{
    return (uint32_t)op->taps_x * op->depth <= ASIDE && !is_apart(op);
}

/* Copies the taps of a row from a byte on; some of them are outside. */
static EDGETOOL_NOINLINE const int8_t *put_aside(const conv_op *op, const int8_t *row, int32_t at, int8_t *to)
{
    const int8_t outside = *(const int8_t *)op->zero_pixel;
    const int32_t end = at + op->taps_x * op->depth, width = (int32_t)op->input_width * op->depth;
    int8_t *next = to;
    for (; at < end; at++) {
        *next++ = at >= 0 && at < width ? row[at] : outside;
    }
    return to;
}

/* Where the taps of a pixel are: in these rows, from this byte on. */
typedef struct {
    const void *const *rows;
    int32_t start;
} place;

/*
 * Copies the taps of a group from column x on, wherever they are, from the input channel `channel` on; those of its
 * last pixel for missing ones.
 */
static EDGETOOL_NOINLINE void put_anywhere(const conv_op *op, const void *const *rows, uint32_t x, uint32_t count,
                                           uint32_t channel, column_type *columns)
{
    const int32_t channels = op->groups * op->depth, depth = op->depth, end = op->taps_x * depth;
    const int32_t width = (int32_t)op->input_width * channels, is_row = is_short(op), length = is_row ? end : depth;
    /* Where the taps of a row, or those of a tap, do not begin inside the input. */
    const uint32_t limit = (uint32_t)(!is_row ? width : (end <= width ? width - end + 1 : 0));
    const int32_t whole = is_apart(op) ? op->taps_x * (depth & ~3) : end & ~3, is_run = is_row || is_apart(op);
    uint32_t next = 0, rest = op->taps_y * (uint32_t)whole;
    int8_t aside[PIXELS][ASIDE];
    const int8_t *from[PIXELS], *outside = (const int8_t *)op->zero_pixel;
    place places[PIXELS];
    for (uint32_t i = 0; i < PIXELS; i++) {
        places[i].rows = rows;
        places[i].start = (int32_t)(x * op->stride_x - op->pad_x) * channels + (int32_t)channel;
        if (i + 1 < count && ++x == op->output_width) {
            x = 0;
            rows += op->taps_y;
        }
    }
    for (uint32_t ty = 0; ty < op->taps_y; ty++) {
        for (int32_t at = 0, tap = 0; at < end; at += length, tap += op->dilation_x * channels) {
            for (uint32_t i = 0; i < PIXELS; i++) {
                const int8_t *row = (const int8_t *)places[i].rows[ty];
                const int32_t start = places[i].start + tap;
                from[i] = outside;
                if (row != NULL) {
                    if ((uint32_t)start < limit) {
                        from[i] = row + start;
                    } else if (is_row) {
                        from[i] = put_aside(op, row, start, aside[i]);
                    }
                }
            }
            if (is_run || length % 4 == 0) {
                put_taps(columns + (size_t)next * PIXELS, from, (uint32_t)length, columns, rest);
                next += (uint32_t)length & ~3U;
                rest += (uint32_t)length % 4;
            } else {
                /* Fours of taps go on from one tap to the next. */
                const int32_t left = at < whole ? whole - at : 0;
                const uint32_t fours = (uint32_t)(left < length ? left : length);
                put_rest(columns, next, from, 0, fours);
                put_rest(columns, rest, from, fours, (uint32_t)length);
                next += fours;
                rest += (uint32_t)length - fours;
            }
        }
    }
}

/* Copies the taps of a group of which none is outside the input, from the byte `start` of rows on. */
static EDGETOOL_NOINLINE void put_inside(const conv_op *op, const void *const *rows, size_t start, column_type *columns)
{
    const uint32_t taps_y = op->taps_y, run = op->taps_x * (uint32_t)op->depth;
    const uint32_t step = op->stride_x * (uint32_t)op->depth;
    column_type *to = columns;
    uint32_t rest = taps_y * (run & ~3U);
    for (uint32_t ty = 0; ty < taps_y; ty++) {
        const int8_t *from[PIXELS];
        from[0] = (const int8_t *)rows[ty] + start;
        from[1] = from[0] + step;
#if PIXELS == 4
        from[2] = from[1] + step;
        from[3] = from[2] + step;
#endif
        put_taps(to, from, run, columns, rest);
        to += (size_t)(run & ~3U) * PIXELS;
        rest += run % 4;
    }
}

/* The first output column from which a group has no taps beside the input, and how many follow. */
typedef struct {
    uint32_t first, count;
} inside;

static inline inside inside_of(const conv_op *op)
{
    const uint32_t stride = op->stride_x, pad = op->pad_x, reach = (PIXELS - 1U) * stride + op->taps_x;
    const uint32_t input_end = op->input_width + pad, width = op->output_width;
    inside columns = {0, 0};
    if (reach <= input_end && width >= PIXELS && (!is_apart(op) || (op->taps_x == 1 && op->groups == 1))) {
        uint32_t end = (stride == 1 ? input_end - reach : (input_end - reach) / stride) + 1;
        end = end < width - PIXELS + 1 ? end : width - PIXELS + 1;
        columns.first = pad == 0 ? 0 : (pad + stride - 1) / stride;
        columns.count = end > columns.first ? end - columns.first : 0;
    }
    return columns;
}

/* Whether the taps of all pixels follow each other in one row, and compute_pairs is all that their outputs need. */
static inline int is_line(const conv_op *op, const edgetool_band *band)
{
    const int is_point = op->taps_y == 1 && op->taps_x == 1 && op->stride_x == 1 && op->pad_x == 0 && band->count == 1;
    const int is_even = op->groups == 1 && op->filters % 2 == 0 && op->shift != EDGETOOL_DOUBLE_ROUNDING;
    return is_point && is_even && op->output_width >= PIXELS && band->rows[0] != NULL && op->depth % 4 == 0;
}

/* The outputs of all whole groups; returns the number of their pixels. */
static EDGETOOL_NOINLINE uint32_t compute_line(const conv_op *op, const edgetool_band *band, group *all)
{
    const uint32_t channels = op->depth, pixels = op->output_width & ~(PIXELS - 1U);
    const int8_t *pixel = (const int8_t *)band->rows[0];
    int8_t *out = (int8_t *)band->out;
    ptrdiff_t advance = PIXELS;
    if (op->descending != 0) {
        const uint32_t last = op->output_width - PIXELS;
        pixel += (size_t)last * channels;
        out += last * all->step;
        advance = -PIXELS;
    }
    all->last = (PIXELS - 1U) * all->step;
    for (uint32_t done = 0; done < pixels; done += PIXELS) {
        const int8_t *from[PIXELS];
        from[0] = pixel;
        from[1] = from[0] + channels;
#if PIXELS == 4
        from[2] = from[1] + channels;
        from[3] = from[2] + channels;
#endif
        put_taps(all->columns, from, channels, all->columns, 0);
        all->out = out;
        all->out_end = out + all->step;
        compute_pairs(all);
        pixel += advance * (ptrdiff_t)channels;
        out += advance * (ptrdiff_t)all->step;
    }
    return pixels;
}

/* The outputs of all pixels in the channels of a group, which reads input channels from `channel` on. */
static EDGETOOL_NOINLINE void compute_channels(const conv_op *op, const edgetool_band *band, group *all,
                                               uint32_t channel, int8_t *out)
{
    const uint32_t width = op->output_width, pixels = band->count * width, channels = op->groups * (uint32_t)op->depth;
    const uint32_t taps_y = op->taps_y;
    const inside whole = inside_of(op);
    const void *const *rows = band->rows;
    uint32_t x = 0, done = 0;
    if (is_line(op, band)) {
        x = done = compute_line(op, band, all);
    }
    while (done < pixels) {
        const uint32_t left = pixels - done, count = left < PIXELS ? left : PIXELS;
        uint32_t first = done;
        if (op->descending != 0) {
            first = left - count;
            rows = band->rows;
            x = first;
        }
        for (; x >= width; x -= width) {
            rows += taps_y;
        }
        /* Rows that do not exist are the first or the last ones. */
        if (count == PIXELS && x - whole.first < whole.count && rows[0] != NULL && rows[taps_y - 1] != NULL) {
            put_inside(op, rows, (size_t)(x * op->stride_x - op->pad_x) * channels, all->columns);
        } else {
            put_anywhere(op, rows, x, count, channel, all->columns);
        }
        compute_group(op, all, count, out + (size_t)first * all->step);
        x += count;
        done += count;
    }
}

void edgetool_conv2d_tiled_s8(const void *descriptor, const edgetool_band *band)
{
    const conv_op *op = (const conv_op *)descriptor;
    const uint32_t groups = op->groups, depth = op->depth, words = ((uint32_t)op->taps_y * op->taps_x * depth + 3) / 4;
    int8_t *out = (int8_t *)band->out;
    group all;
    all.weights = op->weights;
    all.columns = (column_type *)band->scratch;
    all.columns_end = all.columns + (size_t)words * 4 * PIXELS;
    all.skipped = (1U - words * 2) % 8 * 52;
    all.step = groups * (size_t)op->filters;
    all.is_signed = op->shift == EDGETOOL_SIGN;
    for (uint32_t i = 0; i < groups; i++) {
        compute_channels(op, band, &all, i * depth, out);
        all.weights += (op->filters + 1U) / 2 * words_of_pair(op, &all);
        out += op->filters;
    }
    if (op->low != -128 || op->high != 127) {
        clamp_codes(op, (int8_t *)band->out, band->count * op->output_width * (uint32_t)all.step);
    }
}
