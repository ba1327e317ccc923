/* SPDX-License-Identifier: 0BSD */
#include "edgetool_rows.h"

/* One arena. edgetool_rows_several.c, which includes this file, has several. */
#ifndef EDGETOOL_FIRE
#define EDGETOOL_FIRE edgetool_fire
#define EDGETOOL_CELL edgetool_cell
#define EDGETOOL_ARENA uint8_t *
#define EDGETOOL_BASE(cell_bytes) arena
#define EDGETOOL_SIZE(cell_bytes) (cell_bytes)

uint32_t edgetool_turn(const edgetool_row_tables *tables, uint32_t at)
{
    const uint32_t number = tables->blocks[at / EDGETOOL_BLOCK] + at % EDGETOOL_BLOCK;
    const uint8_t *turn = tables->turns + (size_t)number * tables->turn_bytes;
    return tables->turn_bytes == 1 ? turn[0] : turn[0] | (uint32_t)turn[1] << 8;
}
#endif

uint8_t *EDGETOOL_CELL(const edgetool_row_tables *tables, EDGETOOL_ARENA arena, uint32_t tensor, uint32_t cell)
{
    const edgetool_cells *cells = &tables->tensors[tensor];
    const size_t before = (size_t)cell * EDGETOOL_SIZE(cells->cell_bytes);
    if (cells->index == EDGETOOL_CONSTANT) {
        /* Kernels only read their inputs. */
        return (uint8_t *)(uintptr_t)tables->constants[cells->places] + before;
    }
    const uint16_t *places = tables->places + cells->places;
    if (cells->index == EDGETOOL_TOGETHER) {
        return EDGETOOL_BASE(cells->cell_bytes) + ((size_t)*places << tables->shift) + before;
    }
    const uint32_t place = places[cells->index == EDGETOOL_EACH ? cell : tables->index[cells->index + cell]];
    return place == EDGETOOL_NONE ? NULL : EDGETOOL_BASE(cells->cell_bytes) + ((size_t)place << tables->shift);
}

/* The address of a row of an operator, counted through all batches. */
static uint8_t *row_of(const edgetool_row_tables *tables, EDGETOOL_ARENA arena, const edgetool_access *access, uint32_t row)
{
    return EDGETOOL_CELL(tables, arena, access->tensor, access->first + row * tables->walks[access->walk].cells);
}

/* Writes the pointers to the rows of an input that output row `y` of a batch needs; returns the end of the table. */
static const void **input_rows(const edgetool_row_tables *tables, EDGETOOL_ARENA arena, const edgetool_access *access,
                               uint32_t batch, uint32_t y, const void **rows)
{
    const edgetool_walk *const walk = &tables->walks[access->walk];
    const edgetool_cells *const cells = &tables->tensors[access->tensor];
    const uint32_t divisor = walk->divisor, dilation = walk->dilation, row_cells = walk->cells;
    const uint32_t end = walk->rows * divisor, first = access->first + batch * walk->rows * row_cells;
    const uint32_t pad = (uint32_t)(int32_t)walk->pad;
    const void **const last = rows + walk->taps;
    /* What is before the first row becomes a large number. */
    uint32_t place = y * walk->stride - pad;
    if (cells->index == EDGETOOL_TOGETHER || cells->index == EDGETOOL_CONSTANT) {
        const uint8_t *const start = EDGETOOL_CELL(tables, arena, access->tensor, first);
        const uint32_t row_bytes = row_cells * EDGETOOL_SIZE(cells->cell_bytes);
        for (; rows != last; place += dilation) {
            const uint32_t row = divisor == 1 ? place : place / divisor;
            *rows++ = place < end ? start + (size_t)row * row_bytes : NULL;
        }
    } else {
        const uint16_t *const places = tables->places + cells->places;
        const uint8_t *const index = cells->index == EDGETOOL_EACH ? NULL : tables->index + cells->index + first;
        const uint8_t *const base = EDGETOOL_BASE(cells->cell_bytes);
        const uint32_t shift = tables->shift;
        /* Only scratch has cells without a place. */
        for (; rows != last; place += dilation) {
            const uint8_t *row = NULL;
            if (place < end) {
                const uint32_t cell = (divisor == 1 ? place : place / divisor) * row_cells;
                row = base + ((size_t)places[index != NULL ? index[cell] : first + cell] << shift);
            }
            *rows++ = row;
        }
    }
    return rows;
}

void EDGETOOL_FIRE(const edgetool_row_tables *tables, uint32_t number, uint16_t *done, EDGETOOL_ARENA arena, const void **rows)
{
    const edgetool_row_step *step = &tables->steps[number];
    const edgetool_access *access = &tables->accesses[step->accesses];
    const uint32_t height = tables->walks[access->walk].rows;
    const uint32_t batch = step->batches == 1 ? 0 : *done / height;
    edgetool_band band;
    band.first = *done - batch * height;
    band.count = height - band.first < step->band ? height - band.first : step->band;
    band.rows = rows;
    band.out = row_of(tables, arena, access, *done);
    if (step->moving != 0) {
        band.scratch = EDGETOOL_CELL(tables, arena, step->scratch, *done);
    } else {
        band.scratch = step->scratch == EDGETOOL_NONE ? NULL : EDGETOOL_BASE(0U) + ((size_t)step->scratch << tables->shift);
    }
    *done = (uint16_t)(*done + band.count);
    access++;
    for (uint32_t i = 0; i < band.count; i++) {
        for (uint32_t k = 0; k < step->inputs; k++) {
            rows = input_rows(tables, arena, access + k, batch, band.first + i, rows);
        }
    }
    for (uint32_t i = 0; i < step->states; i++) {
        band.states[i] = row_of(tables, arena, access + step->inputs + i, 0);
    }
    tables->kernels[step->kernel](step->op, &band);
}
