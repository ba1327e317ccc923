/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv2d_lean_s8.h"

#include "edgetool_dsp.h"

typedef edgetool_conv2d_lean_s8_op conv_op;

#define CHANNELS 8
#define LINE_SHIFT 3

/* What the blocks of a pixel's channels need, in the order that the assembly knows. */
typedef struct {
    const uint32_t *weights;
    /* Where the codes of all taps are: runs of `length` bytes, a multiple of 4. */
    const int8_t **runs;
    const int8_t **runs_end;
    uint32_t length;
    int8_t *out;
    /* Behind the outputs that are whole blocks of eight. */
    const int8_t *blocks_end;
    uint32_t is_signed;
} pixel;

#if defined(__thumb2__) && defined(__GNUC__)
#define EDGETOOL_THUMB2_ASSEMBLY 1

/* Sums are in r4 to r11, and for each pair those of lower bytes are first; codes are at r0, and weights at r1. */
#if defined(EDGETOOL_DSP)
#define PAIRS(taps, lower, whole, lower2, whole2) \
    "ldrd r12, lr, [r1], #8\n\t" \
    "smlad " whole ", r12, " taps ", " whole "\n\t" \
    "sxtb16 r12, r12\n\t" \
    "smlad " whole2 ", lr, " taps ", " whole2 "\n\t" \
    "sxtb16 lr, lr\n\t" \
    "smlad " lower ", r12, " taps ", " lower "\n\t" \
    "smlad " lower2 ", lr, " taps ", " lower2 "\n\t"
#define TURN \
    "ldr.w r2, [r0], #4\n\t" \
    "sxtb16 r3, r2, ror #8\n\t" \
    "sxtb16 r2, r2\n\t" \
    PAIRS("r2", "r4", "r5", "r6", "r7") PAIRS("r3", "r4", "r5", "r6", "r7") \
    PAIRS("r2", "r8", "r9", "r10", "r11") PAIRS("r3", "r8", "r9", "r10", "r11")
#define PRODUCT(sum) "smmla " sum ", " sum ", r2, r3\n\t"
#define SIGNED_SUM(sum) \
    "lsl.w lr, " sum ", #1\n\t" \
    "smmlar lr, lr, r2, r3\n\t" \
    "add.w " sum ", lr, " sum ", asr #31\n\t" \
    "asr.w " sum ", " sum ", r12\n\t" \
    "ssat " sum ", #8, " sum "\n\t"
#else
#define PAIR(lower, whole, place) \
    "ldrsh.w r3, [r1, #" place "]\n\t" \
    "sxtb.w r12, r3\n\t" \
    "mla " whole ", r3, r2, " whole "\n\t" \
    "mla " lower ", r12, r2, " lower "\n\t"
#define TAP(first, second, third, fourth) \
    "ldrsb r2, [r0], #1\n\t" \
    PAIR("r4", "r5", first) PAIR("r6", "r7", second) PAIR("r8", "r9", third) PAIR("r10", "r11", fourth)
#define TURN \
    TAP("0", "4", "16", "20") TAP("8", "12", "24", "28") TAP("2", "6", "18", "22") TAP("10", "14", "26", "30") \
    "adds r1, #32\n\t"
#define PRODUCT(sum) "smull lr, " sum ", " sum ", r2\n\tadd " sum ", r3\n\t"
#define SIGNED_SUM(sum) \
    "lsl.w lr, " sum ", #1\n\t" \
    "asr.w " sum ", " sum ", #31\n\t" \
    "smull r2, lr, lr, r2\n\t" \
    "lsls r2, r2, #1\n\t" \
    "adc.w lr, lr, r3\n\t" \
    "add.w " sum ", " sum ", lr\n\t" \
    "asr.w " sum ", " sum ", r12\n\t" \
    "ssat " sum ", #8, " sum "\n\t"
#endif
#define SECOND(lower, whole) "subs " whole ", " whole ", " lower "\n\tasr.w " whole ", " whole ", #8\n\t"
#define BOTH_CODES(first, second) \
    "ldrd r2, r3, [r1], #8\n\t" PRODUCT(first) \
    "ldrd r2, r3, [r1], #8\n\t" PRODUCT(second) \
    "ssat " first ", #8, " first ", asr #3\n\t" \
    "ssat " second ", #8, " second ", asr #3\n\t" \
    "strb " first ", [r0], #1\n\t" \
    "strb " second ", [r0], #1\n\t"
#define SIGNED_CODE(sum) "ldm.w r1!, {r2, r3, r12}\n\t" SIGNED_SUM(sum) "strb " sum ", [r0], #1\n\t"

/* The outputs of a pixel in all blocks of eight channels. With DSP instructions, its runs are at multiples of 4. */
static EDGETOOL_NOINLINE void compute_blocks(pixel *all)
{
    register pixel *arguments __asm__("r0") = all;
    __asm__ volatile("push {r0, r7}\n\t"
                     "sub sp, #8\n\t"
                     "mov r12, r0\n\t"
                     "ldr r1, [r0]\n"
                     /* For each block. */
                     "1:\n\t"
                     "ldr r2, [r12, #4]\n\t"
                     "ldm r1!, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
                     /* For each run. */
                     "2:\n\t"
                     "ldr r3, [r12, #12]\n\t"
                     "ldr r0, [r2], #4\n\t"
                     "tst r3, #4\n\t"
                     "add r3, r0\n\t"
                     "strd r3, r2, [sp]\n\t"
                     "bne.w 4f\n"
                     "3:\n\t" TURN "4:\n\t" TURN "ldr.w r12, [sp]\n\t"
                     "cmp r0, r12\n\t"
                     "bne.w 3b\n\t"
                     "ldrd r2, r12, [sp, #4]\n\t"
                     "ldr r3, [r12, #8]\n\t"
                     "cmp r2, r3\n\t"
                     "bne.w 2b\n\t"
                     /* Codes. */
                     SECOND("r4", "r5") SECOND("r6", "r7") SECOND("r8", "r9") SECOND("r10", "r11")
                     "ldr r2, [r12, #24]\n\t"
                     "ldr r0, [r12, #16]\n\t"
                     "cmp r2, #0\n\t"
                     "bne.w 5f\n\t"
                     BOTH_CODES("r4", "r5") BOTH_CODES("r6", "r7") BOTH_CODES("r8", "r9") BOTH_CODES("r10", "r11")
                     "6:\n\t"
                     "str r0, [r12, #16]\n\t"
                     "ldr r2, [r12, #20]\n\t"
                     "cmp r0, r2\n\t"
                     "bne.w 1b\n\t"
                     "str r1, [r12]\n\t"
                     "b.n 7f\n"
                     "5:\n\t"
                     SIGNED_CODE("r4") SIGNED_CODE("r5") SIGNED_CODE("r6") SIGNED_CODE("r7")
                     SIGNED_CODE("r8") SIGNED_CODE("r9") SIGNED_CODE("r10") SIGNED_CODE("r11")
                     "ldr r12, [sp, #8]\n\t"
                     "b.n 6b\n"
                     "7:\n\t"
                     "add sp, #12\n\t"
                     "pop {r7}\n\t"
                     : "+r"(arguments)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

#endif

/* The number for a tap and two channels: at a multiple of 2. */
static inline int32_t both_weights(const int8_t *from)
{
    int16_t both;
#if defined(__GNUC__)
    memcpy(&both, __builtin_assume_aligned(from, 2), sizeof both);
#else
    memcpy(&both, from, sizeof both);
#endif
    return both;
}

/* The sum of the second channel of a pair; sums of whole numbers wrap. */
static inline int32_t second_sum(int32_t lower, uint32_t whole)
{
    return (int32_t)(whole - (uint32_t)lower) >> 8;
}

/* The sums of a pair of channels. */
typedef struct {
    int32_t lower;
    uint32_t whole;
} pair_sums;

/*
 * Adds the products of `count` codes, a multiple of 4, with the weights of a pair of channels. `step` is the number of
 * bytes from the weights of four taps to the next ones, and `odd` from those of even taps to those of odd ones. Returns
 * the end of the weights.
 */
static EDGETOOL_INLINE const int8_t *add_taps(const int8_t *codes, uint32_t count, const int8_t *weights, uint32_t step,
                                              uint32_t odd, pair_sums *sums)
{
    int32_t lower = sums->lower;
    uint32_t whole = sums->whole;
    const int8_t *end = codes + count;
#if defined(EDGETOOL_DSP)
#define ADD_FOUR(taps, others) \
    const uint32_t first = edgetool_load_word(weights), second = edgetool_load_word(weights + odd); \
    whole = (uint32_t)edgetool_smlad(first, taps, (int32_t)whole); \
    whole = (uint32_t)edgetool_smlad(second, others, (int32_t)whole); \
    lower = edgetool_smlad(edgetool_sxtb16(first), taps, lower); \
    lower = edgetool_smlad(edgetool_sxtb16(second), others, lower);
    if (edgetool_is_aligned(codes)) {
        for (; codes != end; codes += 4) {
            const uint32_t word = edgetool_load_word(codes);
            const uint32_t taps = edgetool_sxtb16(word), others = edgetool_sxtb16_odd(word);
            ADD_FOUR(taps, others)
            weights += step;
        }
    } else {
        for (; codes != end; codes += 4) {
            const uint32_t taps = edgetool_pack_low((uint32_t)codes[0], (uint32_t)codes[2]);
            const uint32_t others = edgetool_pack_low((uint32_t)codes[1], (uint32_t)codes[3]);
            ADD_FOUR(taps, others)
            weights += step;
        }
    }
#else
#define ADD_CODE(tap, place) \
    lower += weights[place] * codes[tap]; \
    whole += (uint32_t)(both_weights(weights + (place)) * codes[tap]);
    for (; codes != end; codes += 4) {
        ADD_CODE(0, 0)
        ADD_CODE(1, odd)
        ADD_CODE(2, 2)
        ADD_CODE(3, odd + 2)
        weights += step;
    }
#endif
    sums->lower = lower;
    sums->whole = whole;
    return weights;
}

/* The sums of a pair of channels over all runs. Returns the end of the weights. */
static EDGETOOL_NOINLINE const uint32_t *sums_of_pair(const pixel *all, const uint32_t *starts, const uint32_t *weights,
                                                    uint32_t step, int32_t *sums)
{
    /* A block of four pairs has those of even taps of two pairs beside each other. */
    const uint32_t odd = step == 8 ? 4 : 8;
    const int8_t *next = (const int8_t *)weights;
    pair_sums pair;
    pair.lower = (int32_t)starts[0];
    pair.whole = starts[1];
    for (const int8_t *const *run = all->runs; run != all->runs_end; run++) {
        next = add_taps(*run, all->length, next, step, odd, &pair);
    }
    sums[0] = pair.lower;
    sums[1] = second_sum(pair.lower, pair.whole);
    return (const uint32_t *)EDGETOOL_ALIGNED(next);
}

#if defined(EDGETOOL_THUMB2_ASSEMBLY)
#define BY_PAIRS 1
#elif defined(__thumb__) && !defined(__thumb2__) && defined(__GNUC__)
#define BY_PAIRS 1
#define EDGETOOL_THUMB1_ASSEMBLY 1

/* Two taps of a pair of channels, whose numbers are multiplied whole and as lower bytes. */
#define WORD(place, lower, whole) \
    "ldr r4, [r1, " place "]\n\t" \
    "sxth r5, r4\n\t" \
    "muls r5, r2\n\t" \
    "add " whole ", r5\n\t" \
    "sxtb r5, r4\n\t" \
    "muls r5, r2\n\t" \
    "add " lower ", r5\n\t" \
    "asrs r4, r4, #16\n\t" \
    "sxtb r5, r4\n\t" \
    "muls r4, r3\n\t" \
    "add " whole ", r4\n\t" \
    "muls r5, r3\n\t" \
    "add " lower ", r5\n\t"

/* The sums of a block of eight channels, of runs at multiples of 4. GCC keeps sums in memory. */
static EDGETOOL_NOINLINE void sums_of_words(const pixel *all, int32_t *sums)
{
    register const pixel *arguments __asm__("r0") = all;
    register int32_t *to __asm__("r1") = sums;
    __asm__ volatile(".syntax unified\n\t"
                     "push {r0, r1, r7}\n\t"
                     "sub sp, #8\n\t"
                     "ldr r1, [r0]\n\t"
                     "ldmia r1!, {r2, r3, r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     "movs r6, r2\n\t"
                     "movs r7, r3\n\t"
                     "ldmia r1!, {r2, r3}\n\t"
                     "mov r12, r2\n\t"
                     "mov lr, r3\n\t"
                     "ldr r5, [r0, #4]\n"
                     /* For each run. */
                     "1:\n\t"
                     "ldr r4, [sp, #8]\n\t"
                     "ldr r4, [r4, #12]\n\t"
                     "ldmia r5!, {r0}\n\t"
                     "adds r4, r4, r0\n\t"
                     "str r4, [sp]\n\t"
                     "str r5, [sp, #4]\n"
                     /* For each four taps. */
                     "2:\n\t"
                     "ldr r3, [r0]\n\t"
                     "sxtb r2, r3\n\t"
                     "lsls r3, r3, #8\n\t"
                     "asrs r3, r3, #24\n\t"
                     WORD("#0", "r6", "r7") WORD("#4", "r8", "r9") WORD("#16", "r10", "r11") WORD("#20", "r12", "lr")
                     "ldmia r0!, {r3}\n\t"
                     "lsls r2, r3, #16\n\t"
                     "asrs r2, r2, #24\n\t"
                     "asrs r3, r3, #24\n\t"
                     WORD("#8", "r6", "r7") WORD("#12", "r8", "r9") WORD("#24", "r10", "r11") WORD("#28", "r12", "lr")
                     "adds r1, #32\n\t"
                     "ldr r4, [sp]\n\t"
                     "cmp r0, r4\n\t"
                     "bne 2b\n\t"
                     "ldr r5, [sp, #4]\n\t"
                     "ldr r4, [sp, #8]\n\t"
                     "ldr r4, [r4, #8]\n\t"
                     "cmp r5, r4\n\t"
                     "beq 3f\n\t"
                     "b 1b\n"
                     "3:\n\t"
                     "ldr r0, [sp, #12]\n\t"
                     "subs r7, r7, r6\n\t"
                     "asrs r7, r7, #8\n\t"
                     "stmia r0!, {r6, r7}\n\t"
                     "mov r2, r8\n\t"
                     "mov r3, r9\n\t"
                     "mov r4, r10\n\t"
                     "mov r5, r11\n\t"
                     "mov r6, r12\n\t"
                     "mov r7, lr\n\t"
                     "subs r3, r3, r2\n\t"
                     "asrs r3, r3, #8\n\t"
                     "subs r5, r5, r4\n\t"
                     "asrs r5, r5, #8\n\t"
                     "subs r7, r7, r6\n\t"
                     "asrs r7, r7, #8\n\t"
                     "stmia r0!, {r2, r3, r4, r5, r6, r7}\n\t"
                     "add sp, #16\n\t"
                     "pop {r7}\n\t"
                     : "+r"(arguments), "+r"(to)
                     :
                     : "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

#endif

#if defined(BY_PAIRS)

/* The sums of a block of eight channels in a slower way. */
static EDGETOOL_NOINLINE void sums_of_block(const pixel *all, int32_t *sums)
{
    for (uint32_t i = 0; i < CHANNELS; i += 2) {
        const uint32_t place = i / 4 * 4 + i / 2 % 2;
        sums_of_pair(all, all->weights + i, all->weights + CHANNELS + place, 4 * CHANNELS, sums + i);
    }
}

#else

/* The sums of a block of eight channels. */
static EDGETOOL_NOINLINE void sums_of_block(const pixel *all, int32_t *sums)
{
    const int8_t *weights = (const int8_t *)(all->weights + CHANNELS);
    const int32_t *starts = (const int32_t *)all->weights;
    int32_t s0 = starts[0], s1 = starts[2], s2 = starts[4], s3 = starts[6];
    uint32_t w0 = all->weights[1], w1 = all->weights[3], w2 = all->weights[5], w3 = all->weights[7];
    for (const int8_t *const *run = all->runs; run != all->runs_end; run++) {
        const int8_t *codes = *run, *end = codes + all->length;
/* GCC has too many numbers at once otherwise. */
#if defined(__GNUC__)
#define IN_ORDER(lower, whole) __asm__ volatile("" : "+r"(lower), "+r"(whole) : : "memory");
#else
#define IN_ORDER(lower, whole)
#endif
#define ADD_PAIR(lower, whole, place) \
    lower += weights[place] * code; \
    whole += (uint32_t)(both_weights(weights + (place)) * code); \
    IN_ORDER(lower, whole)
#define ADD_TAP(tap, place) \
    code = codes[tap]; \
    ADD_PAIR(s0, w0, place) \
    ADD_PAIR(s1, w1, (place) + 4) \
    ADD_PAIR(s2, w2, (place) + 16) \
    ADD_PAIR(s3, w3, (place) + 20)
        while (codes != end) {
            int32_t code;
            ADD_TAP(0, 0)
            ADD_TAP(1, 8)
            ADD_TAP(2, 2)
            ADD_TAP(3, 10)
            codes += 4;
            weights += 4 * CHANNELS;
        }
    }
    sums[0] = s0;
    sums[1] = second_sum(s0, w0);
    sums[2] = s1;
    sums[3] = second_sum(s1, w1);
    sums[4] = s2;
    sums[5] = second_sum(s2, w2);
    sums[6] = s3;
    sums[7] = second_sum(s3, w3);
}

#endif

/* The code of a sum that is a line. */
static inline int8_t line_code(int32_t sum, const uint32_t *numbers)
{
    return (int8_t)edgetool_ssat8(edgetool_smmla(sum, (int32_t)numbers[0], (int32_t)numbers[1]) >> LINE_SHIFT);
}

/* Writes the outputs of some channels; returns what is behind their numbers. */
static EDGETOOL_NOINLINE const uint32_t *put_codes(const conv_op *op, const uint32_t *numbers, const int32_t *sum,
                                                   int8_t *out, const int8_t *end)
{
    const uint32_t shift = op->shift;
    if (shift < EDGETOOL_SIGN) {
        for (; out != end; numbers += 2) {
            *out++ = line_code(*sum++, numbers);
        }
        return numbers;
    }
    for (; out != end; numbers += 2) {
        const int32_t multiplier = (int32_t)numbers[0], second = (int32_t)numbers[1];
        int32_t code;
        if (shift == EDGETOOL_SIGN) {
            code = (edgetool_smmlar(*sum * 2, multiplier, second) + (*sum >> 31)) >> numbers[2];
            numbers++;
        } else {
            const uint32_t shifts = numbers[1];
            code = edgetool_plus(edgetool_multiply(*sum, multiplier, shifts >> 16, shifts & 0xFFFFU), op->zero_point);
        }
        sum++;
        *out++ = (int8_t)edgetool_ssat8(code);
    }
    return numbers;
}

#if defined(EDGETOOL_DSP)

/* What the blocks of the channels of two pixels need, in the order that the assembly knows. */
typedef struct {
    const uint32_t *weights;
    /* Behind the weights of the first block. */
    const uint32_t *numbers;
    /* The taps 0 and 2 of the first and of the second pixel, and their taps 1 and 3, for each four taps. */
    const int16_t *columns;
    const int16_t *columns_end;
    int8_t *out;
    ptrdiff_t step;
    const int8_t *out_end;
    uint32_t is_signed;
    /* The bytes from the start of a block to its numbers. */
    uint32_t size;
} tile;

/* Extends the codes of a pixel's taps, wherever they are. */
static EDGETOOL_NOINLINE void put_columns(const pixel *all, int16_t *to)
{
    const uint32_t length = all->length;
    for (const int8_t *const *run = all->runs; run != all->runs_end; run++) {
        const int8_t *codes = *run, *end = codes + length;
        if (edgetool_is_aligned(codes)) {
#define PUT_WORD(place) \
    const uint32_t word##place = edgetool_load_word(codes + 4 * (place)); \
    edgetool_store_word(to + 8 * (place), edgetool_sxtb16(word##place)); \
    edgetool_store_word(to + 8 * (place) + 4, edgetool_sxtb16_odd(word##place));
            for (; end - codes >= 16; codes += 16) {
                PUT_WORD(0)
                PUT_WORD(1)
                PUT_WORD(2)
                PUT_WORD(3)
                to += 32;
            }
            for (; codes != end; codes += 4) {
                PUT_WORD(0)
                to += 8;
            }
        } else {
            for (; codes != end; codes += 4) {
                edgetool_store_word(to, edgetool_pack_low((uint32_t)codes[0], (uint32_t)codes[2]));
                edgetool_store_word(to + 4, edgetool_pack_low((uint32_t)codes[1], (uint32_t)codes[3]));
                to += 8;
            }
        }
    }
}

#if defined(EDGETOOL_THUMB2_ASSEMBLY)

/* Two taps of four channels and both pixels, whose sums are in r4 to r7 and in r8 to r11. */
#define TWO_TAPS(weights) \
    "ldrd r2, r3, [r0], #8\n\t" \
    "ldrd r12, lr, [r1, " weights "\n\t" \
    "smlad r5, r12, r2, r5\n\t" \
    "smlad r9, r12, r3, r9\n\t" \
    "smlad r7, lr, r2, r7\n\t" \
    "smlad r11, lr, r3, r11\n\t" \
    "sxtb16 r12, r12\n\t" \
    "sxtb16 lr, lr\n\t" \
    "smlad r4, r12, r2, r4\n\t" \
    "smlad r8, r12, r3, r8\n\t" \
    "smlad r6, lr, r2, r6\n\t" \
    "smlad r10, lr, r3, r10\n\t"
#define FOUR_TAPS TWO_TAPS("#32]!") TWO_TAPS("#8]")
#define CODES_OF_LINE(first, second) \
    "ldrd r2, r3, [r1], #8\n\t" PRODUCT(first) PRODUCT(second) \
    "ssat " first ", #8, " first ", asr #3\n\t" \
    "ssat " second ", #8, " second ", asr #3\n\t" \
    "strb " second ", [r0, lr]\n\t" \
    "strb " first ", [r0], #1\n\t"
#define SIGNED_CODES(first, second) \
    "ldm r1!, {r2, r3, r12}\n\t" SIGNED_SUM(first) SIGNED_SUM(second) \
    "ldr.w lr, [sp, #20]\n\t" \
    "strb " second ", [r0, lr]\n\t" \
    "strb " first ", [r0], #1\n\t"

/* The outputs of two pixels in all blocks of eight channels, four of them at once. Returns what is behind the weights. */
static EDGETOOL_NOINLINE const uint32_t *compute_tile(const conv_op *op, const tile *all)
{
    register const void *arguments __asm__("r0") = all;
    (void)op;
    __asm__ volatile("push {r7}\n\t"
                     "ldm r0, {r1, r2, r3, r4, r5, r6, r8, r9, r10}\n\t"
                     "push {r1, r2, r3, r4, r5, r6, r8, r9, r10}\n"
                     /* For each four channels. */
                     "1:\n\t"
                     "ldr r1, [sp]\n\t"
                     "ldr r0, [sp, #8]\n\t"
                     "ldr r2, [sp, #32]\n\t"
                     "ldm r1, {r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     /* The loop begins where the lower bits of the number of words plus 1 need it: bits 5 and 6. */
                     "lsls r2, r2, #26\n\t"
                     "bcs.w 8f\n\t"
                     "bpl.w 3f\n"
                     "2:\n\t" FOUR_TAPS "3:\n\t" FOUR_TAPS "9:\n\t" FOUR_TAPS "10:\n\t" FOUR_TAPS
                     "ldr.w r12, [sp, #12]\n\t"
                     "cmp r0, r12\n\t"
                     "bne.w 2b\n\t"
                     /* Codes. */
                     "ldr r1, [sp, #4]\n\t"
                     "ldrd r0, lr, [sp, #16]\n\t"
                     "ldr r2, [sp, #28]\n\t"
                     SECOND("r4", "r5") SECOND("r6", "r7") SECOND("r8", "r9") SECOND("r10", "r11")
                     "cmp r2, #0\n\t"
                     "bne.w 5f\n\t"
                     CODES_OF_LINE("r4", "r8") CODES_OF_LINE("r5", "r9")
                     CODES_OF_LINE("r6", "r10") CODES_OF_LINE("r7", "r11")
                     "4:\n\t"
                     "ldr r2, [sp, #24]\n\t"
                     "str r0, [sp, #16]\n\t"
                     "subs r0, r2, r0\n\t"
                     "beq.w 7f\n\t"
                     "str r1, [sp, #4]\n\t"
                     "lsls r0, r0, #29\n\t"
                     "ittee mi\n\t"
                     /* The other half of a block, or the next one. */
                     "ldrmi r1, [sp]\n\t"
                     "addmi r1, #16\n\t"
                     "ldrpl r2, [sp, #32]\n\t"
                     "addpl r2, r1\n\t"
                     "str r1, [sp]\n\t"
                     "it pl\n\t"
                     "strpl r2, [sp, #4]\n\t"
                     "b.w 1b\n"
                     "5:\n\t"
                     SIGNED_CODES("r4", "r8") SIGNED_CODES("r5", "r9")
                     SIGNED_CODES("r6", "r10") SIGNED_CODES("r7", "r11")
                     "b.n 4b\n"
                     "8:\n\t"
                     "bmi.w 9b\n\t"
                     "b.w 10b\n"
                     "7:\n\t"
                     "mov r0, r1\n\t"
                     "add sp, #36\n\t"
                     "pop {r7}\n\t"
                     : "+r"(arguments)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    return (const uint32_t *)arguments;
}

#else

static const uint32_t *compute_tile(const conv_op *op, const tile *all)
{
    const uint32_t *weights = all->weights;
    for (int8_t *out = all->out; out != all->out_end;) {
        const uint32_t *starts = weights, *numbers = weights + all->size / 4;
        for (uint32_t i = 0; i < CHANNELS; i += 2) {
            const uint32_t *word = weights + CHANNELS + i / 4 * 4 + i / 2 % 2, *next = numbers;
            int32_t lower[2];
            uint32_t whole[2];
            lower[0] = lower[1] = (int32_t)starts[i];
            whole[0] = whole[1] = starts[i + 1];
            for (const int16_t *column = all->columns; column != all->columns_end; column += 4) {
                for (uint32_t at = 0; at < 2; at++) {
                    const uint32_t taps = edgetool_load_word(column + 2 * at);
                    whole[at] = (uint32_t)edgetool_smlad(*word, taps, (int32_t)whole[at]);
                    lower[at] = edgetool_smlad(edgetool_sxtb16(*word), taps, lower[at]);
                }
                word += (column - all->columns) % 8 == 0 ? 2 : CHANNELS - 2;
            }
            for (uint32_t at = 0; at < 2; at++) {
                int32_t sums[2];
                int8_t *to = out + (ptrdiff_t)at * all->step;
                sums[0] = lower[at];
                sums[1] = second_sum(lower[at], whole[at]);
                next = put_codes(op, numbers, sums, to, to + 2);
            }
            numbers = next;
            out += 2;
        }
        weights = numbers;
    }
    return weights;
}

#endif
#endif

/* The outputs of a pixel in the blocks of eight channels, if those of a call are not in assembly. */
static EDGETOOL_NOINLINE void compute_slowly(const conv_op *op, pixel *all, uint32_t words, int is_aligned)
{
    (void)is_aligned;
    for (; all->out != all->blocks_end; all->out += CHANNELS) {
        int32_t sums[CHANNELS];
#if defined(EDGETOOL_THUMB1_ASSEMBLY)
        if (is_aligned) {
            sums_of_words(all, sums);
        } else
#endif
        {
            sums_of_block(all, sums);
        }
        all->weights = put_codes(op, all->weights + (words + 1) * CHANNELS, sums, all->out, all->out + CHANNELS);
    }
}

/* The outputs of a pixel in the channels that are not in blocks of eight, `left` of them. */
static EDGETOOL_NOINLINE void compute_pairs(const conv_op *op, pixel *all, uint32_t left)
{
    while (left != 0) {
        const uint32_t count = left == 1 ? 1 : 2;
        int32_t sums[2];
        all->weights = sums_of_pair(all, all->weights, all->weights + 2, 8, sums);
        put_codes(op, all->weights, sums, all->out, all->out + count);
        all->weights += op->shift == EDGETOOL_SIGN ? 6 : 4;
        all->out += count;
        left -= count;
    }
}

#if defined(EDGETOOL_THUMB1_ASSEMBLY) && !defined(__OPTIMIZE_SIZE__)
/* At -Os, GCC has no upper registers. */
#define EDGETOOL_TWO_PIXELS_ASSEMBLY 1

/* A tap of two pixels and a pair of channels, whose number is in lower bytes and in whole. */
#define TAP_OF_TWO(tap, place) \
    "ldrb %[a], [%[codes], #" tap "]\n\tsxtb %[a], %[a]\n\t" \
    "ldrb %[b], [%[other], #" tap "]\n\tsxtb %[b], %[b]\n\t" \
    "ldrh %[w], [%[weights], #" place "]\n\t" \
    "sxtb %[p], %[w]\n\tmuls %[p], %[a]\n\tadd %[lower0], %[p]\n\t" \
    "sxtb %[p], %[w]\n\tmuls %[p], %[b]\n\tadd %[lower1], %[p]\n\t" \
    "sxth %[w], %[w]\n\tmuls %[a], %[w]\n\tadd %[whole0], %[a]\n\t" \
    "muls %[b], %[w]\n\tadd %[whole1], %[b]\n\t"

#endif

/*
 * Adds the products of two pixels, the second one of which has its codes at `other`, with the weights of a pair of
 * channels, or of its first channel. Returns the end of the weights.
 */
static EDGETOOL_INLINE const int8_t *add_taps_of_two(const int8_t *codes, const int8_t *other, uint32_t count,
                                                     const int8_t *weights, int is_pair, pair_sums *sums)
{
    int32_t lower0 = sums[0].lower, lower1 = sums[1].lower;
    uint32_t whole0 = sums[0].whole, whole1 = sums[1].whole;
    const int8_t *end = codes + (count & ~3U);
#define ADD_CODES(tap, place) \
    { \
        const int32_t code = codes[tap], next = other[tap], lower = weights[place]; \
        lower0 += lower * code; \
        lower1 += lower * next; \
        if (is_pair) { \
            const int32_t both = both_weights(weights + (place)); \
            whole0 += (uint32_t)(both * code); \
            whole1 += (uint32_t)(both * next); \
        } \
    }
#if defined(EDGETOOL_DSP)
#define ADD_TWO(place, taps, others) \
    { \
        const uint32_t both = edgetool_load_word(weights + (place)), lower = edgetool_sxtb16(both); \
        whole0 = (uint32_t)edgetool_smlad(both, taps, (int32_t)whole0); \
        whole1 = (uint32_t)edgetool_smlad(both, others, (int32_t)whole1); \
        lower0 = edgetool_smlad(lower, taps, lower0); \
        lower1 = edgetool_smlad(lower, others, lower1); \
    }
    if (edgetool_is_aligned(codes) && edgetool_is_aligned(other)) {
        for (; codes != end; codes += 4) {
            const uint32_t word = edgetool_load_word(codes), next = edgetool_load_word(other);
            ADD_TWO(0, edgetool_sxtb16(word), edgetool_sxtb16(next))
            ADD_TWO(4, edgetool_sxtb16_odd(word), edgetool_sxtb16_odd(next))
            other += 4;
            weights += 8;
        }
    }
#define TWO_CODES(from, tap) edgetool_pack_low((uint32_t)(from)[tap], (uint32_t)(from)[(tap) + 2])
    for (; codes != end; codes += 4) {
        ADD_TWO(0, TWO_CODES(codes, 0), TWO_CODES(other, 0))
        ADD_TWO(4, TWO_CODES(codes, 1), TWO_CODES(other, 1))
        other += 4;
        weights += 8;
    }
#else
#if defined(EDGETOOL_TWO_PIXELS_ASSEMBLY)
    if (is_pair && codes != end) {
        /* GCC keeps sums in memory. */
        uint32_t a, b, w, p;
        __asm__ volatile(".syntax unified\n1:\n\t" TAP_OF_TWO("0", "0") TAP_OF_TWO("1", "4") TAP_OF_TWO("2", "2")
                             TAP_OF_TWO("3", "6")
                         "adds %[codes], #4\n\tadds %[other], #4\n\tadds %[weights], #8\n\t"
                         "cmp %[codes], %[end]\n\tbne 1b"
                         : [codes] "+l"(codes), [other] "+l"(other), [weights] "+l"(weights), [lower0] "+h"(lower0),
                           [lower1] "+h"(lower1), [whole0] "+h"(whole0), [whole1] "+h"(whole1), [a] "=&l"(a),
                           [b] "=&l"(b), [w] "=&l"(w), [p] "=&l"(p)
                         : [end] "h"(end)
                         : "cc", "memory");
    }
#endif
    for (; codes != end; codes += 4) {
        ADD_CODES(0, 0)
        ADD_CODES(1, 4)
        ADD_CODES(2, 2)
        ADD_CODES(3, 6)
        other += 4;
        weights += 8;
    }
#endif
    if (count % 4 != 0) {
        ADD_CODES(0, 0)
        if (count % 4 > 1) {
            ADD_CODES(1, 4)
        }
        if (count % 4 > 2) {
            ADD_CODES(2, 2)
        }
        weights += 8;
    }
    sums[0].lower = lower0;
    sums[0].whole = whole0;
    sums[1].lower = lower1;
    sums[1].whole = whole1;
    return weights;
}

/* Writes the outputs of a pixel in one or two channels. */
static EDGETOOL_INLINE void put_pair(const conv_op *op, uint32_t shift, const pair_sums *pair, const uint32_t *numbers,
                                     uint32_t count, int8_t *out)
{
    if (shift < EDGETOOL_SIGN) {
        out[0] = line_code(pair->lower, numbers);
        if (count > 1) {
            out[1] = line_code(second_sum(pair->lower, pair->whole), numbers + 2);
        }
    } else {
        int32_t sums[2];
        sums[0] = pair->lower;
        sums[1] = second_sum(pair->lower, pair->whole);
        put_codes(op, numbers, sums, out, out + count);
    }
}

/*
 * The outputs of a row in fewer channels than a block, two pixels at once, if all taps of a pixel are beside each other,
 * `count` of them. `step` and `output_step` go from one pixel to the next; a second pixel that does not exist is the
 * first one again.
 */
static EDGETOOL_NOINLINE void compute_few(const conv_op *op, const int8_t *codes, uint32_t count, ptrdiff_t step,
                                          int8_t *out, ptrdiff_t output_step)
{
    /* Outputs of the second pixel may take the place of taps of the first one, which the next channels need. */
    int8_t held[CHANNELS];
    const uint32_t filters = op->filters, is_held = filters > 2, shift = op->shift;
    const uint32_t *const first = op->weights;
    for (uint32_t pixels = op->output_width;;) {
        const uint32_t *weights = first;
        const int8_t *other = pixels > 1 ? codes + step : codes;
        int8_t *other_out = pixels > 1 ? out + output_step : out;
        int8_t *to = out, *to_other = is_held ? held : other_out;
        for (uint32_t left = filters; left != 0;) {
            const uint32_t channels = left > 1 ? 2 : 1;
            const int8_t *next = (const int8_t *)(weights + 2);
            pair_sums sums[2];
            sums[0].lower = sums[1].lower = (int32_t)weights[0];
            sums[0].whole = sums[1].whole = weights[1];
#if defined(EDGETOOL_DSP)
            next = add_taps_of_two(codes, other, count, next, 1, sums);
#else
            /* A single channel needs no sums of whole numbers. */
            next = channels == 1 ? add_taps_of_two(codes, other, count, next, 0, sums)
                                 : add_taps_of_two(codes, other, count, next, 1, sums);
#endif
            weights = (const uint32_t *)EDGETOOL_ALIGNED(next);
            put_pair(op, shift, &sums[0], weights, channels, to);
            put_pair(op, shift, &sums[1], weights, channels, to_other);
            weights += shift == EDGETOOL_SIGN ? 6 : 4;
            to += channels;
            to_other += channels;
            left -= channels;
        }
        for (const int8_t *code = held; is_held && code != to_other; code++) {
            *other_out++ = *code;
        }
        if (pixels <= 2) {
            break;
        }
        pixels -= 2;
        codes += 2 * step;
        out += 2 * output_step;
    }
}

#if defined(EDGETOOL_DSP)

/* The same for a single channel, pixel by pixel: it needs no sums of whole numbers, and few registers. */
static EDGETOOL_NOINLINE void compute_single(const conv_op *op, const int8_t *codes, uint32_t count, ptrdiff_t step,
                                             int8_t *out, ptrdiff_t output_step)
{
    const int8_t *const first = (const int8_t *)(op->weights + 2);
    const uint32_t *numbers = op->weights + 2 + (count + 3) / 4 * 2;
    const uint32_t rest = count % 4, shift = op->shift;
    const int32_t start = (int32_t)op->weights[0];
    for (uint32_t left = op->output_width;;) {
        const int8_t *weights = first, *from = codes, *end = codes + (count & ~3U);
        int32_t sum = start;
#define ADD_WORDS(taps, others) \
    sum = edgetool_smlad(edgetool_sxtb16(edgetool_load_word(weights)), taps, sum); \
    sum = edgetool_smlad(edgetool_sxtb16(edgetool_load_word(weights + 4)), others, sum); \
    from += 4; \
    weights += 8;
        if (edgetool_is_aligned(codes)) {
            while (from != end) {
                const uint32_t word = edgetool_load_word(from);
                ADD_WORDS(edgetool_sxtb16(word), edgetool_sxtb16_odd(word))
            }
        } else {
            while (from != end) {
                ADD_WORDS(TWO_CODES(from, 0), TWO_CODES(from, 1))
            }
        }
        if (rest != 0) {
            sum += weights[0] * from[0];
            if (rest > 1) {
                sum += weights[4] * from[1];
            }
            if (rest > 2) {
                sum += weights[2] * from[2];
            }
        }
        if (shift < EDGETOOL_SIGN) {
            *out = line_code(sum, numbers);
        } else {
            /* Not the address of the sum itself, which is to stay in a register. */
            const int32_t complete = sum;
            put_codes(op, numbers, &complete, out, out + 1);
        }
        if (--left == 0) {
            break;
        }
        codes += step;
        out += output_step;
    }
}

#endif

/* The outputs of a pixel in the channels of a group. `is_aligned`: the runs are at multiples of 4. */
static EDGETOOL_INLINE void compute_channels(const conv_op *op, pixel *all, uint32_t words, int is_aligned)
{
    const uint32_t filters = op->filters, whole = filters & ~(CHANNELS - 1U);
    all->blocks_end = all->out + whole;
    if (whole != 0) {
#if defined(EDGETOOL_THUMB2_ASSEMBLY)
#if defined(EDGETOOL_DSP)
        if (is_aligned && op->shift <= EDGETOOL_SIGN) {
#else
        if (op->shift <= EDGETOOL_SIGN) {
#endif
            compute_blocks(all);
        } else
#endif
        {
            compute_slowly(op, all, words, is_aligned);
        }
    }
    if (whole != filters) {
        compute_pairs(op, all, filters - whole);
    }
}

/* Copies bytes; returns what is behind them. */
static inline int8_t *copy_codes(int8_t *to, const int8_t *from, uint32_t count)
{
    for (; count >= 4; count -= 4) {
        to[0] = from[0];
        to[1] = from[1];
        to[2] = from[2];
        to[3] = from[3];
        from += 4;
        to += 4;
    }
    for (const int8_t *end = from + count; from != end; from++) {
        *to++ = *from;
    }
    return to;
}

/*
 * Where the taps of a pixel are listed; their codes are copied to the same place if they are not whole words. The taps
 * of two pixels are extended to `columns`, which is NULL if pixels are computed one by one.
 */
typedef struct {
    const int8_t **runs;
    int8_t *codes;
    int16_t *columns;
} tap_list;

/*
 * Lists the taps of a pixel, some of which may be outside the input, or copies their codes. Those of a group begin with
 * the input channel `channel`. Returns the end of the list.
 */
static EDGETOOL_NOINLINE const int8_t **list_taps(const conv_op *op, const void *const *rows, uint32_t start,
                                                  uint32_t channel, const int8_t **runs, int8_t *codes)
{
    const uint32_t depth = op->depth, channels = op->groups * depth, width = op->input_width;
    for (const void *const *end = rows + op->taps_y; rows != end; rows++) {
        const int8_t *row = (const int8_t *)*rows;
        uint32_t column = start;
        for (uint32_t left = op->taps_x; left != 0; left--) {
            const int8_t *from = (const int8_t *)op->zero_pixel;
            /* A column before the first one is a large number. */
            if (row != NULL && column < width) {
                from = row + (size_t)column * channels + channel;
            }
            if (codes == NULL) {
                *runs++ = from;
            } else {
                for (const int8_t *tap_end = from + depth; from != tap_end; from++) {
                    *codes++ = *from;
                }
            }
            column += op->dilation_x;
        }
    }
    return runs;
}

/*
 * What the outputs of a row are computed from: `rows`, in which the taps of a pixel are runs of `run` codes if they begin
 * in a column before `limit`.
 */
typedef struct {
    const void *const *rows;
    uint32_t taps_y, depth, run, limit;
    const int8_t **runs;
    int8_t *codes;
} source_row;

/* Finds the taps of a pixel in the channels of a group, which begin in column `start` with the channel `channel`. */
static EDGETOOL_NOINLINE void find_taps(const conv_op *op, const source_row *row, uint32_t start, uint32_t channel,
                                        pixel *all)
{
    int8_t *codes = row->codes;
    const int8_t **end = row->runs + row->taps_y;
    uint32_t length = row->run;
    if (start < row->limit) {
        const size_t offset = (size_t)start * row->depth;
        for (uint32_t ty = 0; ty < row->taps_y; ty++) {
            const int8_t *from = (const int8_t *)row->rows[ty] + offset;
            if (codes == NULL) {
                row->runs[ty] = from;
            } else {
                codes = copy_codes(codes, from, length);
            }
        }
    } else {
        end = list_taps(op, row->rows, start, channel, row->runs, codes);
        length = row->depth;
    }
    if (row->codes == NULL) {
        all->runs_end = end;
        all->length = length;
    }
}

#if defined(EDGETOOL_DSP)

/* The outputs of two pixels of a row. `stride` and `step` go from one input column or output to the next one. */
static EDGETOOL_NOINLINE void compute_both(const conv_op *op, const source_row *row, uint32_t start, uint32_t stride,
                                           int8_t *out, ptrdiff_t step, int16_t *columns, pixel *all)
{
    const uint32_t depth = op->depth, channels = op->groups * depth, words = (row->taps_y * row->run + 3) / 4;
    tile both;
    both.weights = op->weights;
    both.columns = columns;
    both.columns_end = both.columns + (size_t)words * 8;
    both.out = out;
    both.step = step;
    both.is_signed = all->is_signed;
    both.size = (words + 1) * 4 * CHANNELS;
    for (uint32_t channel = 0; channel < channels; channel += depth) {
        for (uint32_t i = 0; i < 2; i++) {
            find_taps(op, row, start + i * stride, channel, all);
            put_columns(all, columns + 2 * i);
        }
        both.numbers = both.weights + both.size / 4;
        both.out_end = both.out + op->filters;
        both.weights = compute_tile(op, &both);
        both.out += op->filters;
    }
}

#endif

/* The outputs of a row. */
static void compute_row(const conv_op *op, const void *const *rows, int8_t *out, const tap_list *list, pixel *all)
{
    const uint32_t depth = op->depth, channels = op->groups * depth, taps_y = op->taps_y, run = op->taps_x * depth;
    const uint32_t words = (taps_y * run + 3) / 4, width = op->input_width;
    ptrdiff_t step = (ptrdiff_t)(op->groups * (uint32_t)op->filters);
    uint32_t start = 0U - op->pad_x, stride = op->stride_x, left = op->output_width;
    uintptr_t bits = 0;
    source_row row;
    row.rows = rows;
    row.taps_y = taps_y;
    row.depth = depth;
    row.run = run;
    row.limit = 0;
    row.runs = list->runs;
    row.codes = list->codes;
    /* Rows that do not exist are the first or the last ones. */
    if (channels == depth && op->dilation_x == 1 && op->taps_x <= width && rows[0] != NULL && rows[taps_y - 1] != NULL) {
        row.limit = width - op->taps_x + 1;
    }
    if (list->codes == NULL) {
        for (uint32_t ty = 0; ty < taps_y; ty++) {
            bits |= (uintptr_t)rows[ty];
        }
    }
    if (op->descending != 0) {
        const uint32_t last = op->output_width - 1U;
        start += last * stride;
        out += (ptrdiff_t)last * step;
        stride = 0U - stride;
        step = -step;
    }
    if (op->filters < CHANNELS && taps_y == 1 && start < row.limit && start + (left - 1) * stride < row.limit) {
        /* All taps of few channels are inside one row: there is nothing to copy. */
        const int8_t *codes = (const int8_t *)rows[0] + (size_t)start * depth;
        const ptrdiff_t codes_step = (ptrdiff_t)(int32_t)stride * (ptrdiff_t)depth;
#if defined(EDGETOOL_DSP)
        if (op->filters == 1) {
            compute_single(op, codes, run, codes_step, out, step);
            return;
        }
#endif
        compute_few(op, codes, run, codes_step, out, step);
        return;
    }
    if (list->codes != NULL) {
        all->runs[0] = list->codes;
        all->runs_end = all->runs + 1;
        all->length = words * 4;
    }
#if defined(EDGETOOL_DSP)
    if (list->columns != NULL) {
        /* A copy, so that the compiler keeps the other one in registers. */
        const source_row same = row;
        for (; left > 1; left -= 2) {
            compute_both(op, &same, start, stride, out, step, list->columns, all);
            start += 2 * stride;
            out += 2 * step;
        }
    }
#endif
    for (; left != 0; left--) {
        all->weights = op->weights;
        all->out = out;
        for (uint32_t channel = 0; channel < channels; channel += depth) {
            find_taps(op, &row, start, channel, all);
            compute_channels(op, all, words, bits % 4 == 0);
        }
        start += stride;
        out += step;
    }
}

void edgetool_conv2d_lean_s8(const void *descriptor, const edgetool_band *band)
{
    const conv_op *op = (const conv_op *)descriptor;
    const uint32_t taps = (uint32_t)op->taps_y * op->taps_x, words = (taps * op->depth + 3) / 4;
    const uint32_t has_words = op->depth % 4 == 0, row_codes = op->output_width * op->groups * (uint32_t)op->filters;
    const int8_t *places[EDGETOOL_CONV2D_PLACES], *only;
    tap_list list;
    pixel all;
    int8_t *scratch = (int8_t *)band->scratch;
    list.runs = places;
    list.columns = NULL;
#if defined(EDGETOOL_DSP)
    if (op->pixels == 2 && band->scratch != NULL) {
        list.columns = (int16_t *)band->scratch;
        scratch += (size_t)words * 16;
    }
#endif
    if ((has_words ? taps : words) > EDGETOOL_CONV2D_PLACES) {
        const uintptr_t unit = has_words ? sizeof places[0] : 1;
        list.runs = (const int8_t **)(((uintptr_t)scratch + unit - 1) & ~(unit - 1));
    }
    all.is_signed = op->shift == EDGETOOL_SIGN;
    all.runs = list.runs;
    list.codes = NULL;
    if (!has_words) {
        list.codes = (int8_t *)list.runs;
        all.runs = &only;
        /* What is behind the last code has weights of 0, but is read. */
        edgetool_store_word(list.codes + 4 * (size_t)words - 4, 0);
    }
    for (uint32_t i = 0; i < band->count; i++) {
        const uint32_t y = op->descending != 0 ? band->count - 1 - i : i;
        int8_t *out = (int8_t *)band->out + (size_t)y * row_codes;
        compute_row(op, band->rows + (size_t)y * op->taps_y, out, &list, &all);
        edgetool_clamp_codes(out, row_codes, op->low, op->high);
    }
}
