/* SPDX-License-Identifier: 0BSD */
#include "edgetool_copy.h"

/* The innermost loop, from byte `from` of the source on; returns the end of what it wrote. */
static uint8_t *copy_runs(const edgetool_copy_op *op, const uint8_t *source, uint32_t from, uint8_t *out)
{
    const uint32_t run = op->run;
    for (uint32_t i = 0; i < op->count[4]; i++) {
        if (run == 1) {
            *out = source[from];
        } else {
            memcpy(out, source + from, run);
        }
        out += run;
        from += op->step[4];
    }
    return out;
}

void edgetool_copy(const void *descriptor, const edgetool_band *band)
{
    const edgetool_copy_op *op = (const edgetool_copy_op *)descriptor;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t i = 0; i < band->count; i++) {
        const uint8_t *source = (const uint8_t *)band->rows[i];
        const uint32_t start = op->start + (band->first + i) % op->phases * op->phase_step;
        for (uint32_t a = 0; a < op->count[0]; a++) {
            for (uint32_t b = 0; b < op->count[1]; b++) {
                for (uint32_t c = 0; c < op->count[2]; c++) {
                    for (uint32_t d = 0; d < op->count[3]; d++) {
                        const uint32_t from = start + a * op->step[0] + b * op->step[1] + c * op->step[2];
                        out = copy_runs(op, source, from + d * op->step[3], out);
                    }
                }
            }
        }
    }
}
