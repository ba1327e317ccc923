/* SPDX-License-Identifier: 0BSD */
#include "edgetool_maximum.h"

#include "edgetool_broadcast.h"
#include "edgetool_element.h"

void edgetool_maximum(const void *descriptor, const edgetool_band *band)
{
    const edgetool_maximum_op *op = (const edgetool_maximum_op *)descriptor;
    const uint32_t run = op->loops[1], step_a = op->loops[2], step_b = op->loops[3];
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *const *rows = band->rows + 2 * row;
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            for (uint32_t i = 0; i < run; i++) {
                const int32_t a = edgetool_load(rows[0], walk.at[0] + i * step_a, op->bytes);
                const int32_t b = edgetool_load(rows[1], walk.at[1] + i * step_b, op->bytes);
                edgetool_store(out, i, op->bytes, (a > b) != op->minimum ? a : b);
            }
            out += (size_t)run * op->bytes;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
