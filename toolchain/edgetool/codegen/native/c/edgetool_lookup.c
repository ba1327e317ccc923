/* SPDX-License-Identifier: 0BSD */
#include "edgetool_lookup.h"

void edgetool_lookup(const void *descriptor, const edgetool_band *band)
{
    const edgetool_lookup_op *op = (const edgetool_lookup_op *)descriptor;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const uint8_t *source = (const uint8_t *)band->rows[row];
        for (uint32_t i = 0; i < op->count; i++) {
            *out++ = op->table[source[i]];
        }
    }
}
