/* SPDX-License-Identifier: 0BSD */
/*
 * A copy of constants to RAM that the firmware makes while kernels run. NAME.c has a step that begins it and one that
 * waits for it. Both have this descriptor, the destination as `out`, and the constants as their only row.
 */
#ifndef EDGETOOL_TRANSFER_H
#define EDGETOOL_TRANSFER_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t bytes;
} edgetool_transfer_op;

#if defined(__GNUC__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
/*
 * Drops the lines of the data cache that contain these bytes, without writing them back: DCIMVAC, the register for one
 * line by its address (Armv7-M and Armv8-M Architecture Reference Manuals, "Cache maintenance operations"). Only
 * privileged code can access it.
 */
#define EDGETOOL_INVALIDATE edgetool_invalidate

static inline void edgetool_invalidate(const void *address, uint32_t bytes, uint32_t line_bytes)
{
    volatile uint32_t *const dcimvac = (volatile uint32_t *)(uintptr_t)0xE000EF5CU;
    const uint32_t first = (uint32_t)(uintptr_t)address & ~(line_bytes - 1U);
    const uint32_t end = (uint32_t)(uintptr_t)address + bytes;
    __asm__ volatile("dsb" ::: "memory");
    for (uint32_t line = first; line < end; line += line_bytes) {
        *dcimvac = line;
    }
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_TRANSFER_H */
