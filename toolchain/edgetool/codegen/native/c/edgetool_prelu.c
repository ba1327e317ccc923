/* SPDX-License-Identifier: 0BSD */
#include "edgetool_prelu.h"

#include "edgetool_broadcast.h"
#include "edgetool_element.h"

static int32_t result(const edgetool_prelu_op *op, int32_t code, int32_t slope)
{
    const int32_t value = code - op->zero_points[0];
    const uint32_t k = value < 0;
    const int32_t product = k ? value * (slope - op->zero_points[1]) : value;
    const int32_t high = op->bytes == 1 ? INT8_MAX : INT16_MAX;
    const int32_t scaled = edgetool_multiply(product, op->multiplier[k], op->left[k], op->right[k]);
    return edgetool_clamp(edgetool_wrapping_add(scaled, op->zero_points[2]), -high - 1, high);
}

void edgetool_prelu(const void *descriptor, const edgetool_band *band)
{
    const edgetool_prelu_op *op = (const edgetool_prelu_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *const *rows = band->rows + 2 * row;
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            for (uint32_t i = 0; i < run; i++) {
                const int32_t a = edgetool_load(rows[0], walk.at[0] + i * step_a, op->bytes);
                const int32_t b = edgetool_load(rows[1], walk.at[1] + i * step_b, 1);
                edgetool_store(out, i, op->bytes, result(op, a, b));
            }
            out += (size_t)run * op->bytes;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
