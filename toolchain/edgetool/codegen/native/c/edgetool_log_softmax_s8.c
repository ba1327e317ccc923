/* SPDX-License-Identifier: 0BSD */
#include "edgetool_log_softmax_s8.h"

#include "edgetool_fractions.h"

/* The natural logarithm in Q5 of a sum in Q12 that is at least 1 (log_x_for_x_greater_than_or_equal_to_1, common.h). */
static int32_t logarithm(int32_t sum)
{
    const int32_t sqrt_half = 1518500250, fourth_root_of_half = 1805811301;
    const int32_t quarter = 1 << 23; /* in Q6 */
    const int32_t zeros = (int32_t)edgetool_leading_zeros((uint32_t)sum);
    /* The sum as r * 2^power: r near 1 in Q0, power in Q6, the larger one of two ways. */
    const int32_t half_scaled = edgetool_high_mul(sum, sqrt_half);
    const int32_t headroom = (int32_t)edgetool_leading_zeros((uint32_t)half_scaled) - 1;
    const int32_t normal = edgetool_saturated_left(sum, (uint32_t)(zeros - 1));
    const int32_t first = edgetool_saturated_left(edgetool_high_mul(normal, sqrt_half), 1);
    const int32_t second = edgetool_saturated_left(sum, (uint32_t)headroom);
    const int32_t first_power = (EDGETOOL_SUM_BITS - zeros) * (1 << 25) + quarter;
    const int32_t second_power = (EDGETOOL_SUM_BITS - headroom) * (1 << 25) - quarter;
    const int32_t r = first < second ? first : second;
    const int32_t power = first_power > second_power ? first_power : second_power;
    /* log(r) as a quotient of polynomials in q = 2 * (r - 2^-1/4). */
    const int32_t p = (int32_t)(((uint32_t)r + (uint32_t)fourth_root_of_half + 1U) >> 1);
    const int32_t q = (r - fourth_root_of_half) * 2;
    const int32_t square = edgetool_high_mul(q, q);
    const int32_t numerator =
        edgetool_high_mul(q, r) + edgetool_high_mul(edgetool_high_mul(q, square), 117049297);
    const int32_t factor = 1057819769 + q + edgetool_high_mul(127690142, square);
    const int32_t denominator = edgetool_high_mul(p, factor) + edgetool_high_mul(638450708, q);
    const int32_t quotient =
        edgetool_high_mul(edgetool_divide_pot(numerator, 6), edgetool_inverse_plus_one(denominator));
    return edgetool_saturated_left(edgetool_high_mul(power, 1488522236) + quotient, 1);
}

void edgetool_log_softmax_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_log_softmax_s8_op *op = (const edgetool_log_softmax_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t i = 0; i < band->count * op->vectors; i++) {
        const int8_t *codes = (const int8_t *)band->rows[i / op->vectors] + (size_t)(i % op->vectors) * op->depth;
        const int32_t largest = edgetool_largest(codes, op->depth);
        const int32_t log_sum =
            logarithm(edgetool_sum_of_exponentials(codes, op->depth, largest, op->exponentials, op->count));
        /* The difference of which the logarithm is the lowest number of Q5. */
        const int32_t limit =
            edgetool_multiply(log_sum + INT32_MIN, op->inverse_multiplier, 0, op->inverse_right) + 1;
        const int32_t lowest = limit > op->lowest ? limit : op->lowest;
        for (uint32_t c = 0; c < op->depth; c++) {
            const int32_t difference = codes[c] - largest;
            int32_t value = INT8_MIN;
            if (difference >= lowest) {
                const int32_t scaled = edgetool_multiply(difference, op->multiplier, op->left, 0);
                const int32_t code = edgetool_divide_pot((int32_t)((uint32_t)scaled - (uint32_t)log_sum), 22);
                value = edgetool_clamp(code + INT8_MAX, INT8_MIN, INT8_MAX);
            }
            *out++ = (int8_t)value;
        }
    }
}
