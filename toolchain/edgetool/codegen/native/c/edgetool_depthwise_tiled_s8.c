/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_tiled_s8.h"

#include "edgetool_dsp.h"
#include "edgetool_taps.h"

typedef edgetool_depthwise_tiled_s8_op depthwise_op;

#define CHANNELS 4U
/* The addresses for a word of weights. */
#define SLOTS 4U

/* The shift of codes if taps are not 3 x 3, with which nearly all layers have scales. */
#define SHIFT 2

static inline int8_t code_of(int32_t shifted, const edgetool_scale *scale, uint32_t shift)
{
    return (int8_t)edgetool_ssat8(edgetool_smmla(shifted, scale->multiplier, scale->high) >> shift);
}

#if defined(EDGETOOL_DSP)

/* The words of a column: the pairs of rows of all groups. */
#define COLUMN 8U

/* What the loops over the outputs of one channel need, in the order that their assembly knows. */
typedef struct {
    int32_t low, multiplier, high;
    /* From an output to that in the other row of a group, and from a column of outputs to the next one. */
    uint32_t other, step;
    /*
     * Where the tiles of a group end in the plane, and its columns; from there back to the next group, and on to its
     * outputs; behind the last group.
     */
    const uint32_t *tiles_end, *columns_end;
    uint32_t back_bytes, next_bytes;
    const uint32_t *last;
    /* Whether another group follows with one row. */
    uint32_t is_odd;
    const uint32_t *data;
    int8_t *out;
    const uint32_t *weights;
} rows_of_3x3;

/* The same for outputs anywhere: a list of four offsets in the plane and four of the output, again and again. */
typedef struct {
    int32_t low, multiplier, high;
    const uint32_t *list, *list_end;
    const uint32_t *weights, *weights_end;
    const uint32_t *data;
    int8_t *out;
    uint32_t pairs;
} any_outputs;

#if defined(EDGETOOL_DSP_ASSEMBLY)

/*
 * Six words of weights, four sums, two words of data and two pointers are all the registers there are; the rest is on
 * the stack. Weights are in r4 to r9, two words for each column; data is in r2 and r3, the tap rows of a column.
 */
#define BEGIN(numbers) \
    "push {r7}\n\t" \
    "ldm r0!, {" numbers "}\n\t" \
    "push {" numbers "}\n\t"
#define END(bytes) \
    "add sp, #" bytes "\n\t" \
    "pop {r7}\n\t"
#define LOAD_WEIGHTS \
    "ldm r0, {r0, r1, r2}\n\t" \
    "ldr r4, [r2]\n\t" \
    "ldr r6, [r2, #16]\n\t" \
    "ldr.w r8, [r2, #32]\n\t" \
    "sxtb16 r5, r4, ror #8\n\t" \
    "sxtb16 r4, r4\n\t" \
    "sxtb16 r7, r6, ror #8\n\t" \
    "sxtb16 r6, r6\n\t" \
    "sxtb16 r9, r8, ror #8\n\t" \
    "sxtb16 r8, r8\n\t"
#define NEXT_COLUMN "ldrd r2, r3, [r0], #32\n\t"
#define SAME_COLUMN "ldrd r2, r3, [r0]\n\t"
#define COLUMN_BEHIND "ldrd r2, r3, [r0, #32]\n\t"
#define LOW "ldr.w lr, [sp]\n\t"
/* A column of taps for the first and the second row of a group: sums, the sums before, and weights. */
#define FIRST(sum, from, pair, rest) \
    "smlad " sum ", r2, " pair ", " from "\n\t" \
    "smlabt " sum ", r3, " rest ", " sum "\n\t"
#define SECOND(sum, from, pair, rest) \
    "smlatb " sum ", r2, " pair ", " from "\n\t" \
    "smlad " sum ", r3, " rest ", " sum "\n\t"
#define COLUMN0(row, sum, from) row(sum, from, "r4", "r5")
#define COLUMN1(row, sum) row(sum, sum, "r6", "r7")
#define COLUMN2(row, sum) row(sum, sum, "r8", "r9")
#define SCALE "ldrd r2, r3, [sp, #4]\n\t"
#define CODE(sum) \
    "smmla " sum ", " sum ", r2, r3\n\t" \
    "ssat " sum ", #8, " sum "\n\t"
#define SHIFTED_CODE(sum) \
    "smmla " sum ", " sum ", r2, r3\n\t" \
    "ssat " sum ", #8, " sum ", asr #2\n\t"
#define OTHER_AND_STEP "ldrd r2, r3, [sp, #12]\n\t"
#define ENDS "ldrd r2, r3, [sp, #20]\n\t"
/* Goes to the next group, one word behind, or to the label 4. */
#define NEXT_GROUP \
    "ldrd r2, r3, [sp, #28]\n\t" \
    "subs r0, r0, r2\n\t" \
    "add r1, r3\n\t" \
    "ldr.w r10, [sp, #36]\n\t" \
    "cmp r0, r10\n\t" \
    "beq 4f\n" \
    "6:\n\t" \
    ENDS \
    "adds r2, #4\n\t" \
    "adds r3, #4\n\t" \
    "strd r2, r3, [sp, #20]\n\t" \
    "b 2b\n"
#define CLOBBERED "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory"

#else

static int8_t code_at(const rows_of_3x3 *all, const uint32_t *data, int is_second)
{
    int32_t sum = all->low;
    edgetool_scale scale;
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t pair = edgetool_sxtb16(all->weights[4 * i]), rest = edgetool_sxtb16_odd(all->weights[4 * i]);
        sum = is_second ? edgetool_smlatb(data[0], pair, sum) : edgetool_smlad(data[0], pair, sum);
        sum = is_second ? edgetool_smlad(data[1], rest, sum) : edgetool_smlabt(data[1], rest, sum);
        data += COLUMN;
    }
    scale.multiplier = all->multiplier;
    scale.high = all->high;
    return code_of(sum, &scale, 0);
}

static void rows_in_c(const rows_of_3x3 *all)
{
    const uint32_t *data = all->data;
    int8_t *out = all->out;
    const uint32_t count = (uint32_t)(all->columns_end - data) / COLUMN;
    const uint32_t *const last = all->last + all->is_odd;
    for (; data != last; data++) {
        const uint32_t *column = data;
        for (uint32_t x = 0; x < count; x++) {
            if (data != all->last) {
                out[all->other] = code_at(all, column, 1);
            }
            out[0] = code_at(all, column, 0);
            out += all->step;
            column += COLUMN;
        }
        out += all->next_bytes;
    }
}

#endif

/* Groups of two rows, in tiles of two columns. The second row is written first, as both may be the same. */
static EDGETOOL_NOINLINE void compute_double_rows(const rows_of_3x3 *all)
{
#if defined(EDGETOOL_DSP_ASSEMBLY)
    register const rows_of_3x3 *arguments __asm__("r0") = all;
    __asm__ volatile(
        BEGIN("r1-r6, r8-r12")
        LOAD_WEIGHTS
        "b 2f\n"
        "1:\n\t"
        NEXT_COLUMN LOW
        COLUMN0(FIRST, "r10", "lr") COLUMN0(SECOND, "r12", "lr")
        NEXT_COLUMN
        COLUMN1(FIRST, "r10") COLUMN1(SECOND, "r12") COLUMN0(FIRST, "r11", "lr") COLUMN0(SECOND, "lr", "lr")
        SAME_COLUMN
        COLUMN2(FIRST, "r10") COLUMN2(SECOND, "r12") COLUMN1(FIRST, "r11") COLUMN1(SECOND, "lr")
        COLUMN_BEHIND
        COLUMN2(FIRST, "r11") COLUMN2(SECOND, "lr")
        SCALE CODE("r10") CODE("r11") CODE("r12") CODE("lr")
        OTHER_AND_STEP
        "strb.w r12, [r1, r2]\n\t"
        "strb.w r10, [r1]\n\t"
        "add r1, r3\n\t"
        "strb.w lr, [r1, r2]\n\t"
        "strb.w r11, [r1]\n\t"
        "add r1, r3\n"
        "2:\n\t"
        ENDS
        "cmp r0, r2\n\t"
        "bne 1b\n\t"
        "cmp r0, r3\n\t"
        "beq 3f\n\t"
        /* The last column. */
        NEXT_COLUMN LOW
        COLUMN0(FIRST, "r10", "lr") COLUMN0(SECOND, "r12", "lr")
        SAME_COLUMN
        COLUMN1(FIRST, "r10") COLUMN1(SECOND, "r12")
        COLUMN_BEHIND
        COLUMN2(FIRST, "r10") COLUMN2(SECOND, "r12")
        SCALE CODE("r10") CODE("r12")
        OTHER_AND_STEP
        "strb.w r12, [r1, r2]\n\t"
        "strb.w r10, [r1]\n\t"
        "add r1, r3\n"
        "3:\n\t"
        NEXT_GROUP
        /* One more group, whose rows are both the first one. */
        "4:\n\t"
        "ldr r2, [sp, #40]\n\t"
        "cbz r2, 7f\n\t"
        "movs r3, #0\n\t"
        "str r3, [sp, #40]\n\t"
        "str r3, [sp, #12]\n\t"
        "add.w r10, r10, #4\n\t"
        "str.w r10, [sp, #36]\n\t"
        "b 6b\n"
        "7:\n\t"
        END("44")
        : "+r"(arguments)
        :
        : CLOBBERED);
#else
    rows_in_c(all);
#endif
}

/* Four outputs of the list at once. */
static EDGETOOL_NOINLINE void compute_outputs(const any_outputs *all)
{
#if defined(EDGETOOL_DSP_ASSEMBLY)
/* Two or one word of each output; `next` bytes to the one behind. */
#define TWO(sum, from, next) \
    "ldrd r10, r11, [" from "], #" next "\n\t" \
    "smlad " sum ", r10, r8, " sum "\n\t" \
    "smlad " sum ", r11, r9, " sum "\n\t"
#define TURN(next) \
    "ldrd r8, r9, [r12], #8\n\t" \
    TWO("r4", "r0", next) TWO("r5", "r1", next) TWO("r6", "r2", next) TWO("r7", "r3", next)
#define ONE(sum, from) \
    "ldr.w r10, [" from "], #24\n\t" \
    "smlad " sum ", r10, r8, " sum "\n\t"
#define HALF_TURN \
    "ldr.w r8, [r12], #4\n\t" \
    ONE("r4", "r0") ONE("r5", "r1") ONE("r6", "r2") ONE("r7", "r3")
#define LOOP(label) \
    "cmp r12, lr\n\t" \
    "bne " label "b\n\t"
    register const any_outputs *arguments __asm__("r0") = all;
    __asm__ volatile(
        BEGIN("r1-r6, r8-r11")
        "1:\n\t"
        "ldr.w r12, [sp, #12]\n\t"
        "ldm r12, {r0, r1, r2, r3}\n\t"
        "ldr r4, [sp, #28]\n\t"
        "add r0, r4\n\t"
        "add r1, r4\n\t"
        "add r2, r4\n\t"
        "add r3, r4\n\t"
        "ldr r4, [sp]\n\t"
        "mov r5, r4\n\t"
        "mov r6, r4\n\t"
        "mov r7, r4\n\t"
        "ldrd r12, lr, [sp, #20]\n\t"
        /* The columns of the taps, of two, three or four words. */
        "ldr.w r8, [sp, #36]\n\t"
        "cmp.w r8, #3\n\t"
        "beq 3f\n\t"
        "bhi 4f\n"
        "2:\n\t"
        TURN("32") LOOP("2")
        "b 5f\n"
        "3:\n\t"
        TURN("8") HALF_TURN LOOP("3")
        "b 5f\n"
        "4:\n\t"
        TURN("8") TURN("24") LOOP("4")
        "5:\n\t"
        SCALE SHIFTED_CODE("r4") SHIFTED_CODE("r5") SHIFTED_CODE("r6") SHIFTED_CODE("r7")
        "ldr.w r12, [sp, #12]\n\t"
        "adds.w r12, r12, #16\n\t"
        "ldm r12!, {r0, r1, r2, r3}\n\t"
        "ldr.w r8, [sp, #32]\n\t"
        "strb.w r4, [r8, r0]\n\t"
        "strb.w r5, [r8, r1]\n\t"
        "strb.w r6, [r8, r2]\n\t"
        "strb.w r7, [r8, r3]\n\t"
        "str.w r12, [sp, #12]\n\t"
        "ldr r0, [sp, #16]\n\t"
        "cmp r12, r0\n\t"
        "bne 1b\n\t"
        END("40")
        : "+r"(arguments)
        :
        : CLOBBERED);
#undef TWO
#undef TURN
#undef ONE
#undef HALF_TURN
#undef LOOP
#else
    edgetool_scale scale;
    scale.multiplier = all->multiplier;
    scale.high = all->high;
    for (const uint32_t *list = all->list; list != all->list_end; list += 8) {
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t *data = all->data + list[i] / 4;
            int32_t sum = all->low;
            for (const uint32_t *word = all->weights; word != all->weights_end; word += all->pairs) {
                for (uint32_t pair = 0; pair < all->pairs; pair++) {
                    sum = edgetool_smlad(data[pair], word[pair], sum);
                }
                data += COLUMN;
            }
            all->out[list[i + 4]] = code_of(sum, &scale, SHIFT);
        }
    }
#endif
}

/* Some columns of one or more groups of output rows, and the words of a plane. */
typedef struct {
    const void *const *rows;
    uint32_t count, groups, width, columns, plane;
    /* Columns of the planes of which the input has all: from `left` on. */
    uint32_t left, inside;
    uint32_t *planes, *weights, *lists, *lists_middle, *lists_end;
    /* The input rows from `left` on, NULL outside of the input. */
    const int8_t **inputs;
    uint32_t inputs_count;
    /* Whether all of them are at multiples of 4, and their columns. */
    int are_words;
    union {
        rows_of_3x3 rows;
        any_outputs any;
    } loop;
} section;

/* A section is in scratch rather than on the stack; its size where tests run, with pointers of 8 bytes. */
#define SECTION_WORDS 64U
typedef char section_fits[sizeof(section) + 4 <= 4 * SECTION_WORDS ? 1 : -1];

/* Lists the input rows of a section, of which the first column is `start`. */
static void list_inputs(const depthwise_op *op, section *part, uint32_t start)
{
    const uint32_t taps = op->taps_y, advance = op->advance, rows = (part->count - 1) * advance + taps;
    uintptr_t bits = op->input_channels;
    part->inputs_count = 2 * (part->groups + op->pairs - 1);
    for (uint32_t i = 0; i < part->inputs_count; i++) {
        const int8_t *row = NULL;
        if (i < rows) {
            /* The first output row that has it; advance is 1 or 2 if there are several. */
            const uint32_t y = i < taps ? 0 : (i - taps + advance) >> (advance - 1);
            row = (const int8_t *)part->rows[y * (taps - advance) + i];
        }
        bits |= (uintptr_t)row;
        part->inputs[i] = row != NULL ? row + start * op->input_channels : NULL;
    }
    part->are_words = bits % 4 == 0;
}

/* Fills columns that are outside of the input. */
static void fill_columns(const section *part, uint32_t *to, uint32_t count, uint32_t pair)
{
    const uint32_t plane = part->plane;
    for (; count != 0; count--) {
        edgetool_store_word(to, pair);
        edgetool_store_word(to + plane, pair);
        edgetool_store_word(to + 2 * plane, pair);
        edgetool_store_word(to + 3 * plane, pair);
        to += COLUMN;
    }
}

/* What is outside of the input is the same for all channels. */
static void fill_outside(const depthwise_op *op, const section *part)
{
    const uint32_t zero = edgetool_sxtb16(*op->zero_pixel), right = part->left + part->inside;
    const int8_t *const *row = part->inputs, *const *end = row + part->inputs_count;
    for (uint32_t *to = part->planes; row != end; to++) {
        if (row[0] == NULL && row[1] == NULL) {
            fill_columns(part, to, part->columns, zero);
        } else {
            fill_columns(part, to, part->left, zero);
            fill_columns(part, to + right * COLUMN, part->columns - right, zero);
        }
        row += 2;
    }
}

/* Up to four bytes as a word. */
static uint32_t load_bytes(const int8_t *from, uint32_t count)
{
    uint32_t word = 0;
    while (count-- != 0) {
        word = word << 8 | (uint8_t)from[count];
    }
    return word;
}

/* Copies all rows of four channels, from multiples of 4 on. */
static EDGETOOL_NOINLINE void put_words(const section *part, const int8_t *outside, uint32_t channel, uint32_t step)
{
    const uint32_t plane = part->plane, columns = part->inside * COLUMN;
    const int8_t *const *row = part->inputs, *const *end_of_rows = row + part->inputs_count;
    for (uint32_t *start = part->planes + part->left * COLUMN; row != end_of_rows; start++) {
        uint32_t *to0 = start, *to1 = start + plane, *to2 = to1 + plane, *to3 = to2 + plane;
        const int8_t *above = row[0], *below = row[1];
        uint32_t above_step = step, below_step = step;
        row += 2;
        if (above == NULL || below == NULL) {
            if (above == below) {
                continue;
            }
            above_step = above != NULL ? step : 0;
            below_step = step - above_step;
            above = above != NULL ? above + channel : outside;
            below = below_step != 0 ? below + channel : outside;
        } else {
            above += channel;
            below += channel;
        }
        for (const uint32_t *const end = to0 + columns; to0 != end; to0 += COLUMN) {
            const uint32_t first = edgetool_load_word(above), second = edgetool_load_word(below);
            const uint32_t first_even = edgetool_sxtb16(first), first_odd = edgetool_sxtb16_odd(first);
            const uint32_t second_even = edgetool_sxtb16(second), second_odd = edgetool_sxtb16_odd(second);
            above += above_step;
            below += below_step;
            edgetool_store_word(to0, edgetool_pack_low(first_even, second_even));
            edgetool_store_word(to1, edgetool_pack_low(first_odd, second_odd));
            to1 += COLUMN;
            edgetool_store_word(to2, edgetool_pack_high(first_even, second_even));
            to2 += COLUMN;
            edgetool_store_word(to3, edgetool_pack_high(first_odd, second_odd));
            to3 += COLUMN;
        }
    }
}

/* The same for fewer channels, and any addresses. */
static EDGETOOL_NOINLINE void put_bytes(const section *part, const int8_t *outside, uint32_t channel, uint32_t channels,
                                        uint32_t step)
{
    const uint32_t plane = part->plane;
    uint32_t *start = part->planes + part->left * COLUMN;
    for (uint32_t i = 0; i < part->inputs_count; i += 2) {
        const int8_t *above = part->inputs[i], *below = part->inputs[i + 1];
        uint32_t *to = start++;
        if (above == NULL && below == NULL) {
            continue;
        }
        const uint32_t above_step = above != NULL ? step : 0, below_step = below != NULL ? step : 0;
        above = above != NULL ? above + channel : outside;
        below = below != NULL ? below + channel : outside;
        for (uint32_t count = part->inside; count != 0; count--) {
            const uint32_t first = load_bytes(above, channels), second = load_bytes(below, channels);
            const uint32_t first_even = edgetool_sxtb16(first), first_odd = edgetool_sxtb16_odd(first);
            const uint32_t second_even = edgetool_sxtb16(second), second_odd = edgetool_sxtb16_odd(second);
            edgetool_store_word(to, edgetool_pack_low(first_even, second_even));
            edgetool_store_word(to + plane, edgetool_pack_low(first_odd, second_odd));
            edgetool_store_word(to + 2 * plane, edgetool_pack_high(first_even, second_even));
            edgetool_store_word(to + 3 * plane, edgetool_pack_high(first_odd, second_odd));
            above += above_step;
            below += below_step;
            to += COLUMN;
        }
    }
}

/*
 * Writes the list of every other output row, from `row` on; returns its end. The last output is computed again where
 * four are not full.
 */
static uint32_t *list_outputs(const depthwise_op *op, const section *part, uint32_t row, uint32_t *list)
{
    const uint32_t rows = op->advance == 1 ? 2 : 1, width = part->width, channels = op->input_channels;
    uint32_t data = 0, out = 0, x = 0, place = 0;
    while (row < part->count || place != 0) {
        if (row < part->count) {
            data = 4 * (row / rows + x * op->stride_x * COLUMN);
            out = (row * op->output_width + x) * channels;
        }
        list[place] = data;
        list[place + 4] = out;
        if (++place == 4) {
            place = 0;
            list += 8;
        }
        if (++x == width) {
            x = 0;
            row += rows;
        }
    }
    return list;
}

/*
 * Expands the weights of a channel for the first row of groups, and behind them for the second one: one tap later. The
 * last one of a column is 0.
 */
static void expand_weights(const depthwise_op *op, const uint32_t *from, uint32_t *to, int both)
{
    uint32_t *other = to + 2U * op->words, *const end = other;
    uint32_t before = 0;
    while (to != end) {
        const uint32_t first = edgetool_sxtb16(*from), second = edgetool_sxtb16_odd(*from);
        from += CHANNELS;
        to[0] = first;
        to[1] = second;
        to += 2;
        if (both) {
            other[0] = edgetool_pack_low(before >> 16, first);
            other[1] = edgetool_pack_low(first >> 16, second);
            other += 2;
            before = second;
        }
    }
}

static void compute_list(const depthwise_op *op, section *part, uint32_t channel, uint32_t channels, int8_t *out)
{
    const uint32_t words = (uint32_t)op->taps_x * op->pairs, plane = part->plane;
    const uint32_t *lists = part->lists, *middle = part->lists_middle, *end = part->lists_end;
    const int both = op->advance == 1 && part->count > 1;
    const edgetool_scale *scale = op->scales + channel;
    const uint32_t *from = op->weights + (size_t)channel * op->words;
    uint32_t *weights = part->weights;
    any_outputs *const all = &part->loop.any;
    all->pairs = op->pairs;
    all->data = part->planes;
    all->out = out + channel;
    for (uint32_t i = 0; i < channels; i++) {
        expand_weights(op, from++, weights, both);
        all->low = (int32_t)scale->low;
        all->multiplier = scale->multiplier;
        all->high = scale->high;
        scale++;
        all->list = lists;
        all->list_end = middle;
        all->weights = weights;
        all->weights_end = weights + words;
        compute_outputs(all);
        if (both) {
            all->list = middle;
            all->list_end = end;
            all->weights = weights + 2U * op->words;
            all->weights_end = all->weights + words;
            compute_outputs(all);
        }
        all->data += plane;
        all->out++;
    }
}

static void compute_3x3(const depthwise_op *op, section *part, uint32_t channel, uint32_t channels, int8_t *out)
{
    const uint32_t width = part->width, row = op->output_width * op->input_channels, single = part->count % 2;
    const uint32_t columns = COLUMN * width, tiles = columns - COLUMN * (width % 2);
    /* A single group has the same row twice. */
    const uint32_t is_odd = part->groups > 1 ? single : 0, full = part->groups - is_odd;
    const edgetool_scale *scale = op->scales + channel;
    const uint32_t plane = part->plane, *data = part->planes;
    rows_of_3x3 *const all = &part->loop.rows;
    all->other = single == is_odd ? row : 0;
    all->step = op->input_channels;
    all->is_odd = is_odd;
    all->back_bytes = 4 * columns - 4;
    all->next_bytes = 2 * row - width * op->input_channels;
    all->weights = op->weights + 3 * (size_t)channel;
    out += channel;
    for (uint32_t i = 0; i < channels; i++) {
        all->low = (int32_t)scale->low;
        all->multiplier = scale->multiplier;
        all->high = scale->high;
        scale++;
        all->out = out++;
        all->data = data;
        all->tiles_end = data + tiles;
        all->columns_end = data + columns;
        all->last = data + full;
        compute_double_rows(all);
        data += plane;
        all->weights++;
    }
}

/* Whether the tap rows of output rows are those of the output rows before, as far as both have them. */
static int are_shared(const depthwise_op *op, const edgetool_band *band)
{
    const uint32_t taps = op->taps_y, advance = op->advance;
    const void *const *rows = band->rows;
    if (advance == 0) {
        return 0;
    }
    for (uint32_t y = 1; y < band->count; y++) {
        for (uint32_t t = advance; t < taps; t++) {
            if (rows[t] != rows[taps + t - advance]) {
                return 0;
            }
        }
        rows += taps;
    }
    return 1;
}

static void compute_section(const depthwise_op *op, section *part, uint32_t x, int8_t *out)
{
    const uint32_t rows = op->advance == 1 ? 2 : 1, channels = op->input_channels, from = x * op->stride_x;
    const uint32_t start = from > op->pad_x ? from - op->pad_x : 0, pad = from < op->pad_x ? op->pad_x - from : 0;
    const uint32_t right = start < op->input_width ? op->input_width - start : 0;
    const int8_t *outside = (const int8_t *)op->zero_pixel;
    part->columns = (part->width - 1) * op->stride_x + op->taps_x;
    part->left = pad < part->columns ? pad : part->columns;
    part->inside = part->columns - part->left < right ? part->columns - part->left : right;
    part->plane = COLUMN * part->columns;
    part->weights = part->planes + CHANNELS * part->plane;
    part->lists = part->weights + 4U * op->words;
    list_inputs(op, part, start);
    fill_outside(op, part);
    if (!op->is_3x3) {
        part->lists_middle = list_outputs(op, part, 0, part->lists);
        part->lists_end = rows == 2 && part->count > 1 ? list_outputs(op, part, 1, part->lists_middle) : NULL;
    }
    for (uint32_t channel = 0; channel < channels; channel += CHANNELS) {
        const uint32_t count = channels - channel < CHANNELS ? channels - channel : CHANNELS;
        if (part->are_words) {
            put_words(part, outside, channel, channels);
        } else {
            put_bytes(part, outside, channel, count, channels);
        }
        if (op->is_3x3) {
            compute_3x3(op, part, channel, count, out);
        } else {
            compute_list(op, part, channel, count, out);
        }
    }
}

void edgetool_depthwise_tiled_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const uint32_t rows = op->advance == 1 ? 2 : 1, width = op->output_width;
    const uint32_t most = are_shared(op, band) ? op->groups * rows : 1;
    int8_t *out = (int8_t *)band->out;
    uint32_t *words = (uint32_t *)band->scratch + SECTION_WORDS;
    section *part = (section *)(void *)edgetool_tap_table(band->scratch);
    part->rows = band->rows;
    part->inputs = edgetool_tap_table(words);
    part->planes = words + 4 * (op->groups + op->pairs) - 3;
    for (uint32_t y = 0; y < band->count; y += most) {
        part->count = band->count - y < most ? band->count - y : most;
        part->groups = (part->count + rows - 1) / rows;
        for (uint32_t x = 0; x < width; x += op->tile) {
            part->width = width - x < op->tile ? width - x : op->tile;
            compute_section(op, part, x, out + x * op->input_channels);
        }
        part->rows += (size_t)part->count * op->taps_y;
        out += (size_t)part->count * width * op->input_channels;
    }
    edgetool_clamp_codes((int8_t *)band->out, band->count * width * op->input_channels, op->low, op->high);
}

#else

/*
 * Writes the addresses of the taps of a pixel in the order of their weights; a column before the first one is a large
 * number. Where weights are 0 because there is no tap, the address is that of another one.
 */
static void find_taps(const depthwise_op *op, const void *const *rows, uint32_t start, const int8_t **taps)
{
    const uint32_t width = op->input_width, taps_y = op->taps_y, count = op->is_3x3 ? taps_y : 2U * op->pairs;
    uint32_t entry = 0;
    for (uint32_t tx = 0; tx < op->taps_x; tx++) {
        const uint32_t column = start + tx;
        const size_t place = (size_t)column * op->input_channels;
        for (uint32_t ty = 0; ty < count; ty++) {
            const int8_t *row = column < width ? (const int8_t *)rows[ty < taps_y ? ty : 0] : NULL;
            const int8_t *tap = row != NULL ? row + place : (const int8_t *)op->zero_pixel;
            if (op->is_3x3) {
                *taps++ = tap;
            } else {
                taps[entry / 2 * SLOTS + entry % 2 + ty % 2 * 2] = tap;
                entry += ty % 2;
            }
        }
    }
    if (entry % 2 != 0) {
        taps[entry / 2 * SLOTS + 1] = taps[0];
        taps[entry / 2 * SLOTS + 3] = taps[0];
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

/* Computes four channels at once of a pixel, whose taps are `offset` behind the addresses of the table. */
static inline void compute_fours(const depthwise_op *op, const int8_t *const *taps, const int8_t *const *end,
                                 uint32_t slots, uint32_t shift, size_t offset, int8_t *out)
{
    const int8_t *weights = (const int8_t *)op->weights;
    const edgetool_scale *scale = op->scales;
    const size_t last = offset + (op->input_channels & ~3U);
    for (size_t channel = offset; channel != last; channel += CHANNELS) {
        int32_t sums[CHANNELS] = {(int32_t)scale[0].low, (int32_t)scale[1].low, (int32_t)scale[2].low,
                                  (int32_t)scale[3].low};
        for (const int8_t *const *tap = taps; tap != end; tap += slots) {
            add_tap(tap[0] + channel, weights, sums);
            add_tap(tap[1] + channel, weights + 1, sums);
            if (slots == SLOTS) {
                add_tap(tap[2] + channel, weights + 2, sums);
            }
            add_tap(tap[slots - 1] + channel, weights + 3, sums);
            weights += 4 * CHANNELS;
        }
        out[0] = code_of(sums[0], scale, shift);
        out[1] = code_of(sums[1], scale + 1, shift);
        out[2] = code_of(sums[2], scale + 2, shift);
        out[3] = code_of(sums[3], scale + 3, shift);
        out += CHANNELS;
        scale += CHANNELS;
    }
}

static EDGETOOL_NOINLINE void compute_3x3(const depthwise_op *op, const int8_t *const *taps, size_t offset, int8_t *out)
{
    compute_fours(op, taps, taps + 9, 3, 0, offset, out);
}

static EDGETOOL_NOINLINE void compute_any(const depthwise_op *op, const int8_t *const *taps, size_t offset, int8_t *out)
{
    compute_fours(op, taps, taps + SLOTS * op->words, SLOTS, SHIFT, offset, out);
}

/* Computes the channels that are no four. */
static void compute_rest(const depthwise_op *op, const int8_t *const *taps, size_t offset, int8_t *out)
{
    const uint32_t slots = op->is_3x3 ? 3 : SLOTS, first = op->input_channels & ~3U;
    for (uint32_t channel = first; channel < op->input_channels; channel++) {
        const int8_t *weights = (const int8_t *)(op->weights + (size_t)first * op->words + channel % CHANNELS);
        const edgetool_scale *scale = op->scales + channel;
        int32_t sum = (int32_t)scale->low;
        const int8_t *const *tap = taps;
        for (uint32_t word = 0; word < op->words; word++) {
            for (uint32_t i = 0; i < slots; i++) {
                sum += (*tap++)[offset + channel] * weights[i == 2 && slots == 3 ? 3 : i];
            }
            weights += 4 * CHANNELS;
        }
        out[channel] = code_of(sum, scale, op->is_3x3 ? 0 : SHIFT);
    }
}

void edgetool_depthwise_tiled_s8(const void *descriptor, const edgetool_band *band)
{
    const depthwise_op *op = (const depthwise_op *)descriptor;
    const uint32_t step = op->stride_x * op->input_channels, reach = op->taps_x - 1U;
    const int8_t **taps = edgetool_tap_table(band->scratch);
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + (size_t)y * op->taps_y;
        uint32_t column = 0U - op->pad_x, present = 0;
        size_t offset = 0;
        int was_inside = 0;
        while (present < op->taps_y && rows[present] != NULL) {
            present++;
        }
        for (uint32_t x = 0; x < op->output_width; x++) {
            const int is_inside = column < op->input_width && reach < op->input_width - column;
            /* The same addresses serve all pixels of which all taps exist. */
            if (is_inside && was_inside && present == op->taps_y) {
                offset += step;
            } else {
                find_taps(op, rows, column, taps);
                offset = 0;
            }
            was_inside = is_inside;
            if (op->is_3x3) {
                compute_3x3(op, taps, offset, out);
            } else {
                compute_any(op, taps, offset, out);
            }
            if (op->input_channels % CHANNELS != 0) {
                compute_rest(op, taps, offset, out);
            }
            column += op->stride_x;
            out += op->input_channels;
        }
    }
    edgetool_clamp_codes((int8_t *)band->out, band->count * op->output_width * op->input_channels, op->low, op->high);
}

#endif
