/* SPDX-License-Identifier: 0BSD */
#include "edgetool_native.h"

/* One arena. edgetool_run_several.c, which includes this file, has several. */
#ifndef EDGETOOL_RUN
#define EDGETOOL_RUN edgetool_run
#define EDGETOOL_ARENA uint8_t *arena
#define EDGETOOL_BASE(offset) arena
#define EDGETOOL_OFFSET(offset) (offset)
#endif

/* Writes the pointers to the rows of an input that output row `y` needs; returns the end of the table. */
static const void **input_rows(const edgetool_pattern *pattern, const edgetool_shape *shape, const uint8_t *first,
                               uint32_t y, const void **rows)
{
    const uint32_t divisor = pattern->divisor, dilation = pattern->dilation, row_bytes = shape->row_bytes;
    const uint32_t end = shape->rows * divisor, pad = (uint32_t)(int32_t)pattern->pad;
    /* What is before the first row becomes a large number. */
    uint32_t place = y * pattern->stride - pad;
    for (uint32_t tap = pattern->taps; tap != 0; tap--) {
        *rows++ = place < end ? first + (size_t)(place / divisor) * row_bytes : NULL;
        place += dilation;
    }
    return rows;
}

void EDGETOOL_RUN(const edgetool_program *program, EDGETOOL_ARENA, const void **rows)
{
    const edgetool_step *step = program->steps;
    for (uint32_t left = program->count; left != 0; left--) {
        const edgetool_input *const inputs = program->inputs + step->inputs;
        const edgetool_input *const states = inputs + step->inputs_count;
        const edgetool_shape *const shape = &program->shapes[step->shape];
        edgetool_band band;
        band.rows = rows;
        band.out = EDGETOOL_BASE(step->offset) + EDGETOOL_OFFSET(step->offset);
        band.scratch = EDGETOOL_BASE(step->scratch) + EDGETOOL_OFFSET(step->scratch);
        for (uint32_t i = 0; i < step->states_count; i++) {
            band.states[i] = EDGETOOL_BASE(states[i].offset) + EDGETOOL_OFFSET(states[i].offset);
        }
        for (uint32_t batch = 0; batch < step->batches; batch++) {
            for (band.first = 0; band.first < shape->rows; band.first += band.count) {
                const uint32_t rest = shape->rows - band.first;
                const void **next = rows;
                band.count = rest < step->band ? rest : step->band;
                for (uint32_t i = 0; i < band.count; i++) {
                    for (const edgetool_input *input = inputs; input != states; input++) {
                        const edgetool_pattern *pattern = &program->patterns[input->pattern];
                        const edgetool_shape *source = &program->shapes[input->shape];
                        const uint8_t *first =
                            pattern->data != NULL ? (const uint8_t *)pattern->data : EDGETOOL_BASE(input->offset);
                        first += EDGETOOL_OFFSET(input->offset) + (size_t)batch * source->rows * source->row_bytes;
                        next = input_rows(pattern, source, first, band.first + i, next);
                    }
                }
                program->kernels[step->kernel](step->op, &band);
                band.out = (uint8_t *)band.out + (size_t)band.count * shape->row_bytes;
            }
        }
        step++;
    }
}
