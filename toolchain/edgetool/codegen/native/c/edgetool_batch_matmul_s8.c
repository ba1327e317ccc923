/* SPDX-License-Identifier: 0BSD */
#include "edgetool_batch_matmul_s8.h"

#include "edgetool_dsp.h"

#define TOGETHER 4U /* columns whose sums are computed at once */

/* Writes the outputs of some columns. */
static EDGETOOL_NOINLINE void finish(const edgetool_batch_matmul_s8_op *op, const int32_t *sums, uint32_t column,
                                     uint32_t count, int8_t *out)
{
    const edgetool_scale *scale = op->scale;
    const int32_t low = op->low, high = op->high;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t sum = op->bias != NULL ? edgetool_plus(sums[i], op->bias[column + i]) : sums[i];
        if (op->shift < EDGETOOL_SIGN) {
            const int64_t line = (int64_t)sum * scale->multiplier + edgetool_line_offset(scale);
            out[i] = (int8_t)edgetool_clamp((int32_t)(line >> 32) >> op->shift, low, high);
        } else {
            out[i] = (int8_t)edgetool_clamp(edgetool_rescale(sum, scale, op->shift, op->zero_point), low, high);
        }
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

/* The same with two columns, of which the second one is `next` elements behind the first, which can be 0. */
static EDGETOOL_NOINLINE void two_words(const int8_t *row, const int8_t *column, uint32_t next, uint32_t depth,
                                        uint32_t minus_row, int32_t *sums)
{
    int32_t sum0 = 0, sum1 = 0;
    for (const int8_t *end = row + depth; row != end; row += 4) {
        const uint32_t words = edgetool_load_word(row);
        const uint32_t even = edgetool_sxtab16(minus_row, words), odd = edgetool_sxtab16_odd(minus_row, words);
        ONE_WORD(column, sum0);
        if (next == 0) {
            column += 4;
            continue;
        }
        ONE_WORD(column + next, sum1);
        column += 4;
    }
    sums[0] = sum0;
    if (next != 0) {
        sums[1] = sum1;
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

/* Multiplies a row, whose elements are `step` apart, with the right operand. */
static void multiply_row(const edgetool_batch_matmul_s8_op *op, const int8_t *row, size_t step, const int8_t *right,
                         int8_t *out)
{
    const uint32_t depth = op->depth, columns = op->columns;
    const size_t right_step = op->right_depth_step, next = op->right_column_step;
    const int32_t minus_row = -op->left_zero_point;
    int words = 0;
    (void)words;
#if defined(EDGETOOL_DSP)
    const uint32_t rows2 = edgetool_pack_low((uint32_t)minus_row, (uint32_t)minus_row);
    words = step == 1 && right_step == 1 && (depth & 3U) == 0 && edgetool_is_aligned(row) && edgetool_is_aligned(right);
#endif
    /* What the zero point of the right operand takes from each sum. */
    const int32_t zero_point = op->right_zero_point;
    const int32_t excess = zero_point == 0 ? 0 : total(row, step, depth, minus_row) * zero_point;
    for (uint32_t column = 0; column < columns;) {
        const uint32_t left = columns - column;
        uint32_t count = step != 1 ? 1 : (left < TOGETHER ? left : TOGETHER);
        int32_t sums[TOGETHER];
#if defined(EDGETOOL_DSP)
        if (words) {
            if (count == TOGETHER) {
                four_words(row, right, depth, rows2, sums);
            } else {
                count = count == 1 ? 1 : 2;
                two_words(row, right, count == 1 ? 0 : depth, depth, rows2, sums);
            }
        } else
#endif
        if (right_step == 1 && count >= 3) {
            four_rows(row, right, count, depth, minus_row, sums);
        } else if (count == TOGETHER) {
            four_columns(row, right, right_step, depth, minus_row, sums);
        } else {
            sums[0] = dot(row, step, right, right_step, depth, minus_row);
            count = 1;
        }
        for (uint32_t i = 0; excess != 0 && i < count; i++) {
            sums[i] -= excess;
        }
        finish(op, sums, column, count, out + column);
        right += count * next;
        column += count;
    }
}

/* Multiplies two matrices; returns the end of the output. */
static int8_t *multiply(const edgetool_batch_matmul_s8_op *op, const int8_t *left, const int8_t *right, int8_t *scratch,
                        int8_t *out)
{
    for (uint32_t row = 0; row < op->rows; row++) {
        const int8_t *codes = left;
        size_t step = op->left_depth_step;
        if (op->has_scratch != 0) {
            for (uint32_t i = 0; i < op->depth; i++) {
                scratch[i] = *codes;
                codes += step;
            }
            codes = scratch;
            step = 1;
        }
        multiply_row(op, codes, step, right, out);
        out += op->columns;
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
    for (uint32_t i = 0; i < op->batches[0]; i++) {
        for (uint32_t j = 0; j < op->batches[1]; j++) {
            for (uint32_t k = 0; k < op->batches[2]; k++) {
                const size_t from_left = (size_t)i * op->left_steps[0] + j * op->left_steps[1] + k * op->left_steps[2];
                const size_t from_right =
                    (size_t)i * op->right_steps[0] + j * op->right_steps[1] + k * op->right_steps[2];
                out = multiply(op, left + from_left, right + from_right, (int8_t *)band->scratch, out);
            }
        }
    }
}
