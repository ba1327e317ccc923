/* SPDX-License-Identifier: 0BSD */
#include "edgetool_native.h"

#define EDGETOOL_RUN edgetool_run_several
#define EDGETOOL_ARENA uint8_t *const *arenas
#define EDGETOOL_BASE(offset) arenas[(offset) >> EDGETOOL_ARENA_SHIFT]
#define EDGETOOL_OFFSET(offset) ((offset) & ((UINT32_C(1) << EDGETOOL_ARENA_SHIFT) - 1U))
#include "edgetool_run.c"
