/* SPDX-License-Identifier: 0BSD */
/*
 * edgetool_run for tests: any split into bands, from rows at unrelated addresses.
 *
 * Each step runs in bands of pseudo-random heights. Every row that a band needs is copied into a block of exactly its
 * size, at any address if its elements are bytes and else at a multiple of 4. The kernel's output and scratch are
 * blocks of exactly their sizes, too.
 */
#include <stdlib.h>

#include "edgetool_native.h"

/* shared with the generated program */
/* Besides an input: the size of a row, also of those that are the same for all batches, and its alignment. */
typedef struct {
    uint32_t row_bytes;
    uint32_t alignment;
} bands_input;

/*
 * Besides a step: the alignment of its output, its scratch, whether it must be one band, and the size of the one row that
 * all bands update, 0 if each writes its own.
 */
typedef struct {
    uint32_t alignment;
    uint32_t scratch;
    uint32_t whole;
    uint32_t updated;
    const bands_input *inputs;
} bands_step;

extern const bands_step *bands;
extern uint32_t bands_seed;
/* end of shared */

const bands_step *bands;
uint32_t bands_seed = 1;

/* A block of exactly `bytes` bytes; its address is any if `alignment` is 1. `start` is for free. */
typedef struct {
    uint8_t *start;
    uint8_t *data;
} block;

static uint32_t draw(uint32_t limit)
{
    bands_seed = bands_seed * 1664525U + 1013904223U;
    return (bands_seed >> 8) % limit;
}

static block new_block(size_t bytes, uint32_t alignment)
{
    block made;
    const uint32_t shift = alignment == 1 ? draw(4) : 0;
    made.start = (uint8_t *)malloc(bytes + shift + (bytes + shift == 0));
    if (made.start == NULL) {
        abort();
    }
    made.data = made.start + shift;
    return made;
}

static void run_band(const edgetool_program *program, const edgetool_step *step, const bands_step *extra, uint8_t *arena,
                     uint32_t batch, uint32_t first, uint32_t count, uint8_t *target)
{
    const edgetool_input *inputs = program->inputs + step->inputs;
    const size_t out_bytes =
        extra->updated != 0 ? extra->updated : (size_t)count * program->shapes[step->shape].row_bytes;
    size_t taps = 0;
    size_t entries = 0;
    edgetool_band band;
    for (uint32_t i = 0; i < step->inputs_count; i++) {
        taps += program->patterns[inputs[i].pattern].taps;
    }
    const void **rows = (const void **)malloc((taps * count + 1) * sizeof *rows);
    block *blocks = (block *)malloc((taps * count + 1) * sizeof *blocks);
    if (rows == NULL || blocks == NULL) {
        abort();
    }
    for (uint32_t y = first; y < first + count; y++) {
        for (uint32_t i = 0; i < step->inputs_count; i++) {
            const edgetool_shape *shape = &program->shapes[inputs[i].shape];
            const edgetool_pattern *pattern = &program->patterns[inputs[i].pattern];
            const uint8_t *source = pattern->data != NULL ? (const uint8_t *)pattern->data : arena;
            source += inputs[i].offset + (size_t)batch * shape->rows * shape->row_bytes;
            for (int64_t tap = 0; tap < pattern->taps; tap++) {
                const int64_t place = (int64_t)y * pattern->stride - pattern->pad + tap * pattern->dilation;
                blocks[entries].start = NULL;
                rows[entries] = NULL;
                if (place >= 0 && place / pattern->divisor < shape->rows) {
                    const bands_input *row = &extra->inputs[i];
                    blocks[entries] = new_block(row->row_bytes, row->alignment);
                    memcpy(blocks[entries].data, source + (size_t)(place / pattern->divisor) * shape->row_bytes,
                           row->row_bytes);
                    rows[entries] = blocks[entries].data;
                }
                entries++;
            }
        }
    }
    const block out = new_block(out_bytes, extra->alignment);
    const block scratch = new_block(extra->scratch, 4);
    memset(out.data, 0x5A, out_bytes);
    if (extra->updated != 0 && first != 0) {
        memcpy(out.data, target, out_bytes);
    }
    memset(scratch.data, 0x5A, extra->scratch);
    band.rows = rows;
    band.out = out.data;
    band.scratch = scratch.data;
    for (uint32_t i = 0; i < step->states_count; i++) {
        band.states[i] = arena + inputs[step->inputs_count + i].offset;
    }
    band.first = first;
    band.count = count;
    program->kernels[step->kernel](step->op, &band);
    memcpy(target, out.data, out_bytes);
    free(out.start);
    free(scratch.start);
    for (size_t i = 0; i < entries; i++) {
        free(blocks[i].start);
    }
    free(blocks);
    free(rows);
}

void edgetool_run(const edgetool_program *program, uint8_t *arena, const void **unused)
{
    (void)unused;
    for (uint32_t number = 0; number < program->count; number++) {
        const edgetool_step *step = &program->steps[number];
        const edgetool_shape *shape = &program->shapes[step->shape];
        const bands_step *extra = &bands[number];
        uint8_t *out = arena + step->offset;
        for (uint32_t batch = 0; batch < step->batches; batch++) {
            for (uint32_t y = 0; y < shape->rows;) {
                const uint32_t left = shape->rows - y;
                const uint32_t height = extra->whole ? left : 1 + draw(left);
                run_band(program, step, extra, arena, batch, y, height, out);
                y += height;
                out += (size_t)height * shape->row_bytes;
            }
        }
    }
}
