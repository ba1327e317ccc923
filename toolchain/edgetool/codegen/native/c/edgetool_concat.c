/* SPDX-License-Identifier: 0BSD */
#include "edgetool_concat.h"

void edgetool_concat(const void *descriptor, const edgetool_band *band)
{
    const edgetool_concat_op *op = (const edgetool_concat_op *)descriptor;
    const void *const *rows = band->rows;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t i = 0; i < band->count; i++) {
        for (uint32_t block = 0; block < op->blocks; block++) {
            for (uint32_t k = 0; k < op->inputs; k++) {
                const uint32_t bytes = op->bytes[k];
                if (rows[k] != NULL) {
                    memcpy(out, (const uint8_t *)rows[k] + (size_t)block * bytes, bytes);
                    out += bytes;
                }
            }
        }
        rows += op->inputs;
    }
}
