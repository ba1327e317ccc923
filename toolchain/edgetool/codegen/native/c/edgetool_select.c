/* SPDX-License-Identifier: 0BSD */
#include "edgetool_select.h"

#include "edgetool_broadcast.h"
#include "edgetool_element.h"

void edgetool_select(const void *descriptor, const edgetool_band *band)
{
    const edgetool_select_op *op = (const edgetool_select_op *)descriptor;
    const uint32_t *steps = op->loops + 2;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *const *rows = band->rows + 3 * row;
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            for (uint32_t i = 0; i < op->loops[1]; i++) {
                const uint32_t k = ((const uint8_t *)rows[0])[walk.at[0] + i * steps[0]] != 0 ? 1 : 2;
                edgetool_store(out, i, op->bytes, edgetool_load(rows[k], walk.at[k] + i * steps[k], op->bytes));
            }
            out += (size_t)op->loops[1] * op->bytes;
        } while (edgetool_next_run(&walk, op->loops, 3));
    }
}
