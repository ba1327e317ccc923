/* SPDX-License-Identifier: 0BSD */
#include "edgetool_copy_table.h"

/* The innermost loop, from byte `from` of the source on; returns the end of what it wrote. */
static uint8_t *copy_runs(const edgetool_copy_table_op *op, const uint32_t *offsets, const uint8_t *source,
                          uint8_t *out)
{
    for (uint32_t i = 0; i < op->count[4]; i++) {
        if (op->run == 1) {
            *out = source[offsets[i]];
        } else {
            memcpy(out, source + offsets[i], op->run);
        }
        out += op->run;
    }
    return out;
}

void edgetool_copy_table(const void *descriptor, const edgetool_band *band)
{
    const edgetool_copy_table_op *op = (const edgetool_copy_table_op *)descriptor;
    const uint32_t *first = op->offsets, *second = first + op->count[0], *third = second + op->count[1];
    const uint32_t *fourth = third + op->count[2], *last = fourth + op->count[3];
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t i = 0; i < band->count; i++) {
        const uint8_t *source = (const uint8_t *)band->rows[i];
        for (uint32_t a = 0; a < op->count[0]; a++) {
            for (uint32_t b = 0; b < op->count[1]; b++) {
                for (uint32_t c = 0; c < op->count[2]; c++) {
                    for (uint32_t d = 0; d < op->count[3]; d++) {
                        out = copy_runs(op, last, source + first[a] + second[b] + third[c] + fourth[d], out);
                    }
                }
            }
        }
    }
}
