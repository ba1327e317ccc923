/* SPDX-License-Identifier: 0BSD */
#include "edgetool_gather.h"

static uint32_t place_of(const edgetool_gather_op *op, const int32_t *indices)
{
    int64_t place = 0;
    for (uint32_t k = 0; k < op->depth; k++) {
        place += (int64_t)indices[k] * op->step[k];
    }
    return place < 0 ? 0 : (place > op->limit ? op->limit : (uint32_t)place);
}

void edgetool_gather(const void *descriptor, const edgetool_band *band)
{
    const edgetool_gather_op *op = (const edgetool_gather_op *)descriptor;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t i = 0; i < band->count; i++) {
        const uint8_t *table = (const uint8_t *)band->rows[2 * i];
        const int32_t *indices = (const int32_t *)band->rows[2 * i + 1];
        for (uint32_t outer = 0; outer < op->outer; outer++) {
            for (uint32_t position = 0; position < op->positions; position++) {
                memcpy(out, table + place_of(op, indices + (size_t)position * op->depth), op->run);
                out += op->run;
            }
            table += op->part;
        }
    }
}
