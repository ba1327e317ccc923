/* SPDX-License-Identifier: 0BSD */
#include "edgetool_batch_matmul_s8.h"

#include "edgetool_dsp.h"

#define TOGETHER 4U /* columns whose sums are computed at once */
#define MANY 16U    /* columns whose sums are computed before their outputs, a multiple of 4 */
#define FEW 8U      /* columns from which on a row of whole words is expanded first */
#define DEEP 16U    /* elements from which on a row is */

/* Writes the outputs of some columns, from whose sums `excess` is taken. */
static EDGETOOL_NOINLINE void finish(const edgetool_batch_matmul_s8_op *op, const int32_t *sums, uint32_t column,
                                     uint32_t count, int32_t excess, int8_t *out)
{
    const edgetool_scale *scale = op->scale;
    const uint32_t shift = op->shift;
    const int32_t low = op->low, high = op->high, zero_point = op->zero_point;
    const int32_t *bias = op->bias != NULL ? op->bias + column : NULL;
    for (const int8_t *end = out + count; out != end; out++) {
        int32_t sum = *sums++ - excess, value;
        if (bias != NULL) {
            sum = edgetool_plus(sum, *bias++);
        }
        if (shift < EDGETOOL_SIGN) {
            const int64_t line = (int64_t)sum * scale->multiplier + edgetool_line_offset(scale);
            value = (int32_t)(line >> 32) >> shift;
        } else {
            value = edgetool_rescale(sum, scale, shift, zero_point);
        }
        *out = (int8_t)edgetool_clamp(value, low, high);
    }
}

/* The product of a row and `minus_row` for each of its elements with a column; their elements are any steps apart. */
static int32_t dot(const int8_t *row, size_t row_step, const int8_t *column, size_t column_step, uint32_t depth,
                   int32_t minus_row)
{
    int32_t sum = 0;
    if (row_step == 1 && column_step == 1) {
        for (; depth >= 4; depth -= 4) {
            sum += (row[0] + minus_row) * column[0];
            sum += (row[1] + minus_row) * column[1];
            sum += (row[2] + minus_row) * column[2];
            sum += (row[3] + minus_row) * column[3];
            row += 4;
            column += 4;
        }
    }
    for (; depth != 0; depth--) {
        sum += (*row + minus_row) * *column;
        row += row_step;
        column += column_step;
    }
    return sum;
}

#if defined(EDGETOOL_DSP)

#define ONE_WORD(at, sum)                                                                                              \
    do {                                                                                                               \
        const uint32_t word = edgetool_load_word(at);                                                                  \
        sum = edgetool_smlad(edgetool_sxtb16(word), even, sum);                                                        \
        sum = edgetool_smlad(edgetool_sxtb16_odd(word), odd, sum);                                                     \
    } while (0)

#if defined(__GNUC__)
/* It would load all words first, and spill. */
#define KEEP_ORDER __asm__ volatile("" : : : "memory")
#else
#define KEEP_ORDER
#endif

/* The products with four columns whose elements are next to each other; all are words at multiples of 4. */
static EDGETOOL_NOINLINE void four_words(const int8_t *row, const int8_t *column, uint32_t depth, uint32_t minus_row,
                                         int32_t *sums)
{
    const int8_t *third = column + (size_t)depth * 2;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (const int8_t *end = row + depth; row != end; row += 4) {
        const uint32_t words = edgetool_load_word(row);
        const uint32_t even = edgetool_sxtab16(minus_row, words), odd = edgetool_sxtab16_odd(minus_row, words);
        ONE_WORD(column, sum0);
        KEEP_ORDER;
        ONE_WORD(column + depth, sum1);
        KEEP_ORDER;
        ONE_WORD(third, sum2);
        KEEP_ORDER;
        ONE_WORD(third + depth, sum3);
        column += 4;
        third += 4;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

#define ONE_OF_PAIRS(word, sum)                                                                                        \
    do {                                                                                                               \
        const uint32_t value = word;                                                                                   \
        sum = edgetool_smlad(edgetool_sxtab16(minus_right, value), even, sum);                                         \
        sum = edgetool_smlad(edgetool_sxtab16_odd(minus_right, value), odd, sum);                                      \
    } while (0)

/* The same with two columns, of which the second one is `next` elements behind the first, which can be 0. */
static EDGETOOL_NOINLINE void two_words(const int8_t *row, const int8_t *column, uint32_t next, uint32_t depth,
                                        uint32_t minus_row, uint32_t minus_right, int32_t *sums)
{
    int32_t sum0 = 0, sum1 = 0;
    for (const int8_t *end = row + depth; row != end; row += 4) {
        const uint32_t words = edgetool_load_word(row);
        const uint32_t even = edgetool_sxtab16(minus_row, words), odd = edgetool_sxtab16_odd(minus_row, words);
        ONE_OF_PAIRS(edgetool_load_word(column), sum0);
        if (next != 0) {
            ONE_OF_PAIRS(edgetool_load_word(column + next), sum1);
        }
        column += 4;
    }
    sums[0] = sum0;
    if (next != 0) {
        sums[1] = sum1;
    }
}

/*
 * Expands a row, whose elements are `step` apart, to pairs of elements plus `minus`. Its first element has the place
 * `start`, 0 to 3, which is that in its word if step is 1. For every fourth place e, there are the pairs of places
 * (e - 2, e), (e - 1, e + 1), (e, e + 2) and (e + 1, e + 3), and a word in front: to be multiplied with words of a
 * column, those that belong to their bytes 0 and 2, and 1 and 3, are next to each other for any place of the column's
 * first byte. Places outside the row are 0.
 */
static EDGETOOL_NOINLINE void expand(const int8_t *row, size_t step, uint32_t start, uint32_t depth, int32_t minus,
                                     uint32_t *pairs)
{
    const uint32_t both = edgetool_pack_low((uint32_t)minus, (uint32_t)minus), last = start + depth;
    uint32_t even_before = 0, odd_before = 0;
    *pairs++ = 0;
    for (uint32_t at = 0; at < last + 3; at += 4) {
        uint32_t word = 0, mask = 0;
        if (step == 1 && at >= start && at + 4 <= last) {
            const int8_t *from = row + (at - start), *end = from + ((last - at) & ~3U);
            at += (uint32_t)(end - from);
            do {
                const uint32_t codes = edgetool_load_word(from);
                const uint32_t even = edgetool_sxtab16(both, codes), odd = edgetool_sxtab16_odd(both, codes);
                pairs[0] = even_before >> 16 | even << 16;
                pairs[1] = odd_before >> 16 | odd << 16;
                pairs[2] = even_before = even;
                pairs[3] = odd_before = odd;
                pairs += 4;
                from += 4;
            } while (from != end);
        }
        for (uint32_t i = 0; i < 4; i++) {
            if (at + i >= start && at + i < last) {
                word |= (uint32_t)(uint8_t)row[(at + i - start) * step] << 8 * i;
                mask |= 0xFFU << 8 * i;
            }
        }
        const uint32_t even = edgetool_sxtab16(both & edgetool_sxtb16(mask), word);
        const uint32_t odd = edgetool_sxtab16_odd(both & edgetool_sxtb16_odd(mask), word);
        pairs[0] = even_before >> 16 | even << 16;
        pairs[1] = odd_before >> 16 | odd << 16;
        pairs[2] = even_before = even;
        pairs[3] = odd_before = odd;
        pairs += 4;
    }
}

#if defined(EDGETOOL_DSP_ASSEMBLY)

#define COLUMN_OF_PAIRS(column, sum)                                                                                   \
    "ldr %[word], [%[" column "]], #4\n\t"                                                                             \
    "sxtab16 %[codes], %[minus], %[word]\n\t"                                                                          \
    "sxtab16 %[word], %[minus], %[word], ror #8\n\t"                                                                   \
    "smlad %[" sum "], %[codes], %[even], %[" sum "]\n\t"                                                              \
    "smlad %[" sum "], %[word], %[odd], %[" sum "]\n\t"
#define PAIRS "ldrd %[even], %[odd], [%[pairs]], #16\n\t"
/* Two words of each column per turn, and one before if their number is odd. Compilers load pairs one by one. */
#define COLUMNS_OF_PAIRS(columns)                                                                                      \
    __asm__ volatile("lsrs %[left], %[left], #1\n\t"                                                                   \
                     "bcc 1f\n\t" PAIRS columns "1:\n\t"                                                               \
                     "cbz %[left], 3f\n"                                                                               \
                     "2:\n\t" PAIRS columns PAIRS columns "subs %[left], #1\n\t"                                       \
                     "bne 2b\n"                                                                                        \
                     "3:"                                                                                              \
                     : [first] "+r"(first), [second] "+r"(second), [pairs] "+r"(pairs), [sum0] "+r"(sum0),             \
                       [sum1] "+r"(sum1), [left] "+l"(words), [word] "=&r"(word), [codes] "=&r"(codes),                \
                       [even] "=&r"(even), [odd] "=&r"(odd)                                                            \
                     : [minus] "r"(minus_right)                                                                        \
                     : "cc", "memory")
#define ONE_COLUMN COLUMNS_OF_PAIRS(COLUMN_OF_PAIRS("first", "sum0"))
#define TWO_COLUMNS COLUMNS_OF_PAIRS(COLUMN_OF_PAIRS("first", "sum0") COLUMN_OF_PAIRS("second", "sum1"))

#else

#define ONE_COLUMN                                                                                                     \
    for (; words != 0; words--) {                                                                                      \
        even = pairs[0];                                                                                               \
        odd = pairs[1];                                                                                                \
        word = edgetool_load_word(first);                                                                              \
        ONE_OF_PAIRS(word, sum0);                                                                                      \
        first += 4;                                                                                                    \
        pairs += 4;                                                                                                    \
    }
#define TWO_COLUMNS                                                                                                    \
    for (; words != 0; words--) {                                                                                      \
        even = pairs[0];                                                                                               \
        odd = pairs[1];                                                                                                \
        word = edgetool_load_word(first);                                                                              \
        ONE_OF_PAIRS(word, sum0);                                                                                      \
        word = edgetool_load_word(second);                                                                             \
        ONE_OF_PAIRS(word, sum1);                                                                                      \
        first += 4;                                                                                                    \
        second += 4;                                                                                                   \
        pairs += 4;                                                                                                    \
    }

#endif

/* The products of pairs with two columns of some words. */
static EDGETOOL_NOINLINE void two_of_pairs(const uint32_t *pairs, const int8_t *first, const int8_t *second,
                                           uint32_t words, uint32_t minus_right, int32_t *sum, int32_t *other)
{
    int32_t sum0 = 0, sum1 = 0;
    uint32_t even, odd, word, codes;
    TWO_COLUMNS;
    (void)codes;
    *sum = sum0;
    *other = sum1;
}

/* The same with one column, of which `rest` bytes follow the last word. */
static EDGETOOL_NOINLINE int32_t one_of_pairs(const uint32_t *pairs, const int8_t *first, uint32_t words, uint32_t rest,
                                              uint32_t minus_right)
{
    const int8_t *second = first;
    int32_t sum0 = 0, sum1 = 0;
    uint32_t even, odd, word, codes;
    ONE_COLUMN;
    (void)codes;
    (void)second;
    if (rest != 0) {
        even = pairs[0];
        odd = pairs[1];
        word = 0;
        for (uint32_t i = 0; i < rest; i++) {
            word |= (uint32_t)(uint8_t)first[i] << 8 * i;
        }
        ONE_OF_PAIRS(word, sum0);
    }
    return sum0 + sum1;
}

/*
 * The products of a row with `count` columns, which follow each other: `pairs` are those for a column that starts at a
 * multiple of 4. Those that start at the same place in a
 * word are multiplied together. No word is read that contains bytes from `last` on.
 */
static void columns_of_pairs(const uint32_t *pairs, const int8_t *right, uint32_t count, uint32_t depth,
                             uint32_t minus_right, const int8_t *last, int32_t *sums)
{
    const uint32_t period = (depth & 1U) != 0 ? 4 : (depth & 2U) != 0 ? 2 : 1;
    const size_t next = (size_t)period * depth;
    for (uint32_t i = 0; i < period && i < count; i++) {
        const int8_t *column = right + (size_t)i * depth;
        const uint32_t before = (uint32_t)((uintptr_t)column & 3U), bytes = before + depth, words = (bytes + 3) / 4;
        const uint32_t *from = pairs - before;
        uint32_t at = i;
        column -= before;
        for (; at + period < count && column + next + (size_t)words * 4 <= last; at += 2 * period) {
            two_of_pairs(from, column, column + next, words, minus_right, sums + at, sums + at + period);
            column += 2 * next;
        }
        for (; at < count; at += period) {
            const int fits = column + (size_t)words * 4 <= last;
            sums[at] = one_of_pairs(from, column, fits ? words : bytes / 4, fits ? 0 : bytes & 3U, minus_right);
            column += next;
        }
    }
}

#endif

/* The products with `count` columns, 3 or 4, whose elements are next to each other. */
static EDGETOOL_NOINLINE void four_rows(const int8_t *row, const int8_t *first, uint32_t count, uint32_t depth,
                                        int32_t minus_row, int32_t *sums)
{
    const int8_t *second = first + depth, *third = second + depth, *fourth = count == 4 ? third + depth : third;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (const int8_t *end = row + (depth & ~1U); row != end; row += 2) {
        const int32_t value0 = row[0] + minus_row, value1 = row[1] + minus_row;
        sum0 += value0 * first[0];
        sum1 += value0 * second[0];
        sum2 += value0 * third[0];
        sum3 += value0 * fourth[0];
        sum0 += value1 * first[1];
        sum1 += value1 * second[1];
        sum2 += value1 * third[1];
        sum3 += value1 * fourth[1];
        first += 2;
        second += 2;
        third += 2;
        fourth += 2;
    }
    if ((depth & 1U) != 0) {
        const int32_t value = *row + minus_row;
        sum0 += value * *first;
        sum1 += value * *second;
        sum2 += value * *third;
        sum3 += value * *fourth;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* The products with four columns next to each other, whose elements are `step` apart. */
static EDGETOOL_NOINLINE void four_columns(const int8_t *row, const int8_t *columns, size_t step, uint32_t depth,
                                           int32_t minus_row, int32_t *sums)
{
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (const int8_t *end = row + depth; row != end; row++) {
        const int32_t value = *row + minus_row;
        sum0 += value * columns[0];
        sum1 += value * columns[1];
        sum2 += value * columns[2];
        sum3 += value * columns[3];
        columns += step;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* The same with two columns. */
static void two_columns(const int8_t *row, const int8_t *columns, size_t step, size_t next, uint32_t depth,
                        int32_t minus_row, int32_t *sums)
{
    int32_t sum0 = 0, sum1 = 0;
    for (const int8_t *end = row + depth; row != end; row++) {
        const int32_t value = *row + minus_row;
        sum0 += value * columns[0];
        sum1 += value * columns[next];
        columns += step;
    }
    sums[0] = sum0;
    sums[1] = sum1;
}

/* The sum of the elements of a row and `minus` for each of them. */
static int32_t total(const int8_t *row, size_t step, uint32_t depth, int32_t minus)
{
    int32_t sum = (int32_t)depth * minus;
    for (; step == 1 && depth >= 4; depth -= 4) {
        sum += row[0] + row[1] + row[2] + row[3];
        row += 4;
    }
    for (; depth != 0; depth--) {
        sum += *row;
        row += step;
    }
    return sum;
}

/* The products of a row, whose elements are `step` apart, with `count` columns. */
static void multiply_columns(const edgetool_batch_matmul_s8_op *op, const int8_t *row, size_t step, const int8_t *right,
                             uint32_t count, int words, int32_t *sums)
{
    const uint32_t depth = op->depth;
    const size_t right_step = op->right_depth_step, next = op->right_column_step;
    const int32_t minus_row = -op->left_zero_point;
    (void)words;
#if defined(EDGETOOL_DSP)
    const uint32_t rows2 = edgetool_pack_low((uint32_t)minus_row, (uint32_t)minus_row);
    const uint32_t right2 = edgetool_pack_low((uint32_t)-op->right_zero_point, (uint32_t)-op->right_zero_point);
#endif
    while (count != 0) {
        uint32_t done = step != 1 ? 1 : (count < TOGETHER ? count : TOGETHER);
#if defined(EDGETOOL_DSP)
        if (words) {
            if (done == TOGETHER) {
                four_words(row, right, depth, rows2, sums);
            } else {
                done = done == 1 ? 1 : 2;
                two_words(row, right, done == 1 ? 0 : depth, depth, rows2, right2, sums);
            }
        } else
#endif
        if (right_step == 1 && done >= 3) {
            four_rows(row, right, done, depth, minus_row, sums);
        } else if (done == TOGETHER) {
            four_columns(row, right, right_step, depth, minus_row, sums);
        } else if (done >= 2) {
            done = 2;
            two_columns(row, right, right_step, next, depth, minus_row, sums);
        } else {
            sums[0] = dot(row, step, right, right_step, depth, minus_row);
        }
        right += done * next;
        sums += done;
        count -= done;
    }
}

/* Multiplies two matrices; returns the end of the output. `last`: the end of the right operand's tensor. */
static int8_t *multiply(const edgetool_batch_matmul_s8_op *op, const int8_t *left, const int8_t *right,
                        const int8_t *last, void *scratch, int8_t *out)
{
    const uint32_t depth = op->depth, columns = op->columns;
    const int32_t minus_row = -op->left_zero_point, zero_point = op->right_zero_point;
    int words = 0, pairs = 0;
    (void)pairs;
    (void)last;
#if defined(EDGETOOL_DSP)
    const uint32_t minus_right = edgetool_pack_low((uint32_t)-zero_point, (uint32_t)-zero_point);
    words = op->right_depth_step == 1 && ((depth | op->left_row_step) & 3U) == 0 && edgetool_is_aligned(right) &&
            (op->left_depth_step == 1 ? edgetool_is_aligned(left) : op->has_scratch != 0);
    words = words && (zero_point == 0 || columns < 3);
    pairs = op->has_scratch != 0 && op->right_depth_step == 1 && columns >= (words ? FEW : 2) && depth >= DEEP;
#endif
    for (uint32_t row = 0; row < op->rows; row++) {
        const int8_t *codes = left, *from = right;
        size_t step = op->left_depth_step;
        int32_t excess = 0, sums[MANY];
#if defined(EDGETOOL_DSP)
        uint32_t start = 0;
#endif
#if defined(EDGETOOL_DSP)
        if (pairs) {
            start = step == 1 ? (uint32_t)((uintptr_t)codes & 3U) : 0;
            expand(codes, step, start, depth, minus_row, (uint32_t *)scratch);
        } else
#endif
        {
            if (step != 1 && op->has_scratch != 0) {
                int8_t *to = (int8_t *)scratch;
                for (uint32_t i = 0; i < depth; i++) {
                    to[i] = *codes;
                    codes += step;
                }
                codes = to;
                step = 1;
            }
            /* What the zero point of the right operand takes from each sum. */
            excess = zero_point == 0 || words ? 0 : total(codes, step, depth, minus_row) * zero_point;
        }
        for (uint32_t column = 0; column < columns; column += MANY) {
            const uint32_t rest = columns - column, count = rest < MANY ? rest : MANY;
#if defined(EDGETOOL_DSP)
            if (pairs) {
                columns_of_pairs((const uint32_t *)scratch + 3 + start, from, count, depth, minus_right, last, sums);
            } else
#endif
            {
                multiply_columns(op, codes, step, from, count, words, sums);
            }
            finish(op, sums, column, count, excess, out);
            from += count * op->right_column_step;
            out += count;
        }
        left += op->left_row_step;
    }
    return out;
}

void edgetool_batch_matmul_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_batch_matmul_s8_op *op = (const edgetool_batch_matmul_s8_op *)descriptor;
    const int8_t *left = (const int8_t *)band->rows[0];
    const int8_t *right = (const int8_t *)band->rows[1];
    int8_t *out = (int8_t *)band->out;
    /* The end of the right operand is that of its last batch. */
    size_t size = (size_t)op->columns * op->depth;
    for (uint32_t i = 0; i < 3; i++) {
        size += (size_t)(op->batches[i] - 1) * op->right_steps[i];
    }
    const int8_t *last = right + size;
    for (uint32_t i = 0; i < op->batches[0]; i++) {
        for (uint32_t j = 0; j < op->batches[1]; j++) {
            for (uint32_t k = 0; k < op->batches[2]; k++) {
                const size_t from_left = (size_t)i * op->left_steps[0] + j * op->left_steps[1] + k * op->left_steps[2];
                const size_t from_right =
                    (size_t)i * op->right_steps[0] + j * op->right_steps[1] + k * op->right_steps[2];
                out = multiply(op, left + from_left, right + from_right, last, band->scratch, out);
            }
        }
    }
}
