/* SPDX-License-Identifier: 0BSD */
#include "edgetool_rows.h"

#define EDGETOOL_FIRE edgetool_fire_several
#define EDGETOOL_CELL edgetool_cell_several
#define EDGETOOL_ARENA uint8_t *const *
#define EDGETOOL_BASE(cell_bytes) arena[(cell_bytes) >> EDGETOOL_ARENA_SHIFT]
#define EDGETOOL_SIZE(cell_bytes) ((cell_bytes) & ((UINT32_C(1) << EDGETOOL_ARENA_SHIFT) - 1U))
#include "edgetool_rows.c"
