/* SPDX-License-Identifier: 0BSD */
/*
 * Operators that run row by row: tables that state where each row of each tensor is, and one call of a kernel.
 *
 * Tensors consist of cells of the same size. A row of an operator is one cell, or several that follow each other.
 * Places are offsets in the arena, in units of 2^shift bytes.
 */
#ifndef EDGETOOL_ROWS_H
#define EDGETOOL_ROWS_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where `index` of a tensor does not start in the table of bytes, but: */
#define EDGETOOL_TOGETHER 0xFFFFU /* cells follow each other from the only place */
#define EDGETOOL_EACH 0xFFFEU     /* each cell has a place of its own */
#define EDGETOOL_CONSTANT 0xFFFDU /* cells follow each other in the constant with the number `places` */

/* The place of what does not exist. */
#define EDGETOOL_NONE 0xFFFFU

/*
 * A tensor. `places` is where its places start in their table, and `index` where, in the table of bytes, the place of
 * each of its cells starts: places[index[cell]]. `cell_bytes` is the size of cells that follow each other.
 */
typedef struct {
    uint32_t cell_bytes;
    uint16_t places;
    uint16_t index;
} edgetool_cells;

/*
 * How an operator goes through the rows of a tensor, of which a batch has `rows`, each of `cells` cells: 0 if all are
 * the same. Output row y needs the rows floor((y * stride - pad + tap * dilation) / divisor) of an input for
 * tap = 0 .. taps - 1, of which those outside 0 .. rows - 1 do not exist.
 */
typedef struct {
    uint16_t rows;
    uint16_t cells;
    uint16_t taps;
    uint16_t stride;
    uint16_t dilation;
    int16_t pad;
    uint16_t divisor;
} edgetool_walk;

/* What an operator reads or writes: a tensor, the first cell, and the number of a walk. */
typedef struct {
    uint16_t tensor;
    uint16_t first;
    uint16_t walk;
} edgetool_access;

/*
 * An operator. Its output is the access with the number `accesses`; its inputs and its variable tensors follow. `band`
 * is the number of output rows per call, which follow each other. `scratch` is the place of the scratch of all calls; if
 * it is `moving`, a tensor with a cell for each output row: that of its first row is the scratch of a call.
 */
typedef struct {
    const void *op;
    uint16_t accesses;
    uint16_t scratch;
    uint16_t batches;
    uint16_t band;
    uint8_t kernel;
    uint8_t inputs;
    uint8_t states;
    uint8_t moving;
} edgetool_row_step;

/* How many turns follow each other in the schedule from the start of a block. */
#define EDGETOOL_BLOCK 16U

/*
 * The tables of a model. The schedule consists of blocks of turns: `blocks` is where each of them starts in `turns`, in
 * numbers of `turn_bytes` bytes, the lower one first. Blocks share what is equal.
 */
typedef struct {
    const edgetool_kernel *kernels;
    const edgetool_row_step *steps;
    const edgetool_access *accesses;
    const edgetool_walk *walks;
    const edgetool_cells *tensors;
    const uint16_t *places;
    const uint8_t *index;
    const void *const *constants;
    const uint16_t *blocks;
    const uint8_t *turns;
    uint16_t turn_bytes;
    uint16_t shift;
} edgetool_row_tables;

/* The number of what fires at a place of the schedule. */
uint32_t edgetool_turn(const edgetool_row_tables *tables, uint32_t at);

/* The address of a cell, NULL if it does not exist. Those of constants must not be written. */
uint8_t *edgetool_cell(const edgetool_row_tables *tables, uint8_t *arena, uint32_t tensor, uint32_t cell);

/*
 * Computes the next band of output rows of a step. `*done` is the number of rows that it has computed, of all batches;
 * `rows` has room for the pointers of the largest band.
 */
void edgetool_fire(const edgetool_row_tables *tables, uint32_t step, uint16_t *done, uint8_t *arena, const void **rows);

/*
 * The same on rows in several memories, each of which has an arena: the upper bits of the `cell_bytes` of a tensor, from
 * EDGETOOL_ARENA_SHIFT on, are the number of its arena. Scratch that is not `moving` is in the first one.
 */
uint8_t *edgetool_cell_several(const edgetool_row_tables *tables, uint8_t *const *arenas, uint32_t tensor, uint32_t cell);

void edgetool_fire_several(const edgetool_row_tables *tables, uint32_t step, uint16_t *done, uint8_t *const *arenas,
                           const void **rows);

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_ROWS_H */
