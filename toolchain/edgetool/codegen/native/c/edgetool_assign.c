/* SPDX-License-Identifier: 0BSD */
#include "edgetool_assign.h"

void edgetool_assign(const void *descriptor, const edgetool_band *band)
{
    const edgetool_assign_op *op = (const edgetool_assign_op *)descriptor;
    for (uint32_t i = 0; i < band->count; i++) {
        memcpy((uint8_t *)band->out + (size_t)i * op->bytes, band->rows[i], op->bytes);
    }
}
