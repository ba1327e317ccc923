/* SPDX-License-Identifier: 0BSD */
/*
 * The operands of element-wise kernels, whose shapes may differ: runs of output elements, in each of which an operand
 * either has one element per output element or the same element for all.
 *
 * `loops` in a descriptor describes one row: the number of loops, the elements of a run, the step of each operand
 * within a run (1 or 0), and for each loop, the innermost first, its count and how far each operand advances at the end
 * of a turn. The latter contains the way back to the first turn of the loop inside. Elements and advances are modulo
 * 2^32.
 */
#ifndef EDGETOOL_BROADCAST_H
#define EDGETOOL_BROADCAST_H

#include "edgetool_native.h"

#define EDGETOOL_MAX_LOOPS 7
#define EDGETOOL_MAX_OPERANDS 3

/* A run: the turns of all loops before it, and where each operand has its first element. It starts as zeros. */
typedef struct {
    uint32_t turns[EDGETOOL_MAX_LOOPS];
    uint32_t at[EDGETOOL_MAX_OPERANDS];
} edgetool_walk;

/* Advances to the next run of a row; returns 0 if there is none. */
static inline int edgetool_next_run(edgetool_walk *walk, const uint32_t *loops, uint32_t operands)
{
    const uint32_t *loop = loops + 2 + operands;
    for (uint32_t i = 0; i < loops[0]; i++) {
        for (uint32_t k = 0; k < operands; k++) {
            walk->at[k] += loop[1 + k];
        }
        if (++walk->turns[i] < loop[0]) {
            return 1;
        }
        walk->turns[i] = 0;
        loop += 1 + operands;
    }
    return 0;
}

#endif /* EDGETOOL_BROADCAST_H */
