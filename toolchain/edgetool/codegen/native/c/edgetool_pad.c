/* SPDX-License-Identifier: 0BSD */
#include "edgetool_pad.h"

/* Writes `bytes` bytes of padding, but not beyond the end of the row; returns the end of what it wrote. */
static uint8_t *fill(const edgetool_pad_op *op, uint8_t *out, const uint8_t *end, uint32_t bytes)
{
    const uint32_t left = (uint32_t)(end - out);
    const uint32_t count = bytes < left ? bytes : left;
    if (op->uniform != 0) {
        memset(out, op->value[0], count);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            out[i] = op->value[i % 4];
        }
    }
    return out + count;
}

static void pad_row(const edgetool_pad_op *op, const uint8_t *source, uint8_t *out)
{
    const uint8_t *end = out + op->row_bytes;
    out = fill(op, out, end, op->lead);
    for (uint32_t a = 0; a < op->count[0]; a++) {
        for (uint32_t b = 0; b < op->count[1]; b++) {
            for (uint32_t c = 0; c < op->count[2]; c++) {
                for (uint32_t d = 0; d < op->count[3]; d++) {
                    memcpy(out, source, op->run);
                    source += op->run;
                    out = fill(op, out + op->run, end, op->gap[3]);
                }
                out = fill(op, out, end, op->gap[2]);
            }
            out = fill(op, out, end, op->gap[1]);
        }
        out = fill(op, out, end, op->gap[0]);
    }
    fill(op, out, end, op->row_bytes);
}

void edgetool_pad(const void *descriptor, const edgetool_band *band)
{
    const edgetool_pad_op *op = (const edgetool_pad_op *)descriptor;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t i = 0; i < band->count; i++) {
        const uint8_t *source = (const uint8_t *)band->rows[i];
        if (source != NULL) {
            pad_row(op, source, out);
        } else {
            fill(op, out, out + op->row_bytes, op->row_bytes);
        }
        out += op->row_bytes;
    }
}
