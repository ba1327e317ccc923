/* SPDX-License-Identifier: 0BSD */
#include "edgetool_native.h"

/* Writes the pointers to the rows that output row `y` of batch `batch` needs; returns the end of the table. */
static const void **input_rows(const edgetool_step *step, const uint8_t *arena, uint32_t batch, uint32_t y,
                               const void **rows)
{
    for (uint32_t i = 0; i < step->inputs_count; i++) {
        const edgetool_input *input = &step->inputs[i];
        const uint8_t *first = input->data != NULL ? (const uint8_t *)input->data : arena + input->offset;
        first += (size_t)batch * input->rows * input->row_bytes;
        const uint32_t pad = (uint32_t)(int32_t)input->pad;
        for (uint32_t tap = 0; tap < input->taps; tap++) {
            /* What is before the first row becomes a large number. */
            const uint32_t place = y * input->stride + tap * input->dilation - pad;
            const int inside = place < input->rows * input->divisor;
            *rows++ = inside ? first + (size_t)(place / input->divisor) * input->row_bytes : NULL;
        }
    }
    return rows;
}

void edgetool_run(const edgetool_step *steps, uint32_t count, uint8_t *arena, const void **rows)
{
    for (const edgetool_step *step = steps; step != steps + count; step++) {
        uint8_t *out = arena + step->offset;
        for (uint32_t batch = 0; batch < step->batches; batch++) {
            for (uint32_t y = 0; y < step->rows; y += step->band) {
                const uint32_t left = step->rows - y;
                edgetool_band band;
                const void **end = rows;
                band.rows = rows;
                band.out = out;
                band.scratch = arena + step->scratch;
                for (uint32_t i = 0; i < EDGETOOL_STATES; i++) {
                    band.states[i] = arena + step->states[i];
                }
                band.first = y;
                band.count = left < step->band ? left : step->band;
                for (uint32_t i = 0; i < band.count; i++) {
                    end = input_rows(step, arena, batch, y + i, end);
                }
                step->kernel(step->op, &band);
                out += (size_t)band.count * step->row_bytes;
            }
        }
    }
}
