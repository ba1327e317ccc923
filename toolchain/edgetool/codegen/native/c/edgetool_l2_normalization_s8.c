/* SPDX-License-Identifier: 0BSD */
#include "edgetool_l2_normalization_s8.h"

#include "edgetool_fractions.h"

/*
 * 1 / sqrt(sum) as multiplier * 2^(-31 - *right): five steps of Newton-Raphson (GetInvSqrtQuantizedMultiplierExp,
 * common.h). A sum of 0 counts as 1.
 */
static int32_t inverse_root(uint32_t sum, int32_t *right)
{
    *right = 0;
    if (sum <= 1) {
        return INT32_MAX;
    }
    int32_t shift = 11;
    for (; sum >= 1U << 29; sum /= 4) {
        shift++;
    }
    for (; sum < 1U << 27; sum *= 4) {
        shift--;
    }
    /* Q3, with sum / 2^29 between 1 / 4 and 1. */
    const int32_t half = edgetool_divide_pot((int32_t)(sum >> 1), 1), three_halves = (1 << 28) + (1 << 27);
    int32_t root = 1 << 28;
    for (uint32_t i = 0; i < 5; i++) {
        const int32_t cube = edgetool_high_mul(edgetool_high_mul(root, root), root);
        const int32_t term = edgetool_high_mul(half, edgetool_saturated_left(cube, 6));
        root = edgetool_saturated_left(edgetool_high_mul(three_halves, root) - term, 3);
    }
    root = edgetool_high_mul(root, 1518500250); /* sqrt(1 / 2) */
    if (shift < 0) {
        return edgetool_shift_left(root, (uint32_t)-shift);
    }
    *right = shift;
    return root;
}

void edgetool_l2_normalization_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_l2_normalization_s8_op *op = (const edgetool_l2_normalization_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t i = 0; i < band->count * op->vectors; i++) {
        const int8_t *codes = (const int8_t *)band->rows[i / op->vectors] + (size_t)(i % op->vectors) * op->depth;
        uint32_t sum = 0;
        for (uint32_t c = 0; c < op->depth; c++) {
            const int32_t value = codes[c] - op->input_zero_point;
            sum += (uint32_t)(value * value);
        }
        int32_t right;
        const int32_t multiplier = inverse_root(sum, &right);
        /* The output's scale is 2^-7. */
        const uint32_t down = right > 7 ? (uint32_t)(right - 7) : 0, up = right < 7 ? (uint32_t)(7 - right) : 0;
        for (uint32_t c = 0; c < op->depth; c++) {
            const int32_t value = edgetool_multiply(codes[c] - op->input_zero_point, multiplier, up, down);
            *out++ = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
        }
    }
}
