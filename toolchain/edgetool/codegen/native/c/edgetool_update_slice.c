/* SPDX-License-Identifier: 0BSD */
#include "edgetool_update_slice.h"

void edgetool_update_slice(const void *descriptor, const edgetool_band *band)
{
    const edgetool_update_slice_op *op = (const edgetool_update_slice_op *)descriptor;
    const uint8_t *update = (const uint8_t *)band->rows[1];
    const int32_t *starts = (const int32_t *)band->rows[2];
    uint8_t *out = (uint8_t *)band->out;
    memcpy(out, band->rows[0], op->bytes);
    for (uint32_t k = 0; k < op->axes; k++) {
        const uint32_t axis = 6 - op->axes + k;
        out += (uint32_t)edgetool_clamp(starts[k], 0, op->limit[axis]) * op->step[axis];
    }
    for (uint32_t a = 0; a < op->count[0]; a++) {
        for (uint32_t b = 0; b < op->count[1]; b++) {
            for (uint32_t c = 0; c < op->count[2]; c++) {
                for (uint32_t d = 0; d < op->count[3]; d++) {
                    for (uint32_t e = 0; e < op->count[4]; e++) {
                        const uint32_t to = a * op->step[0] + b * op->step[1] + c * op->step[2] + d * op->step[3];
                        memcpy(out + to + e * op->step[4], update, op->run);
                        update += op->run;
                    }
                }
            }
        }
    }
}
