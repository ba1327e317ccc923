/* SPDX-License-Identifier: 0BSD */
/* The stack that a call takes: the words below the caller's are painted before it. */
#ifndef PAINT_H
#define PAINT_H

#include <stdint.h>

/* The words below the stack of the caller that are painted: a function moves its stack pointer only when it starts. */
#define PAINT 0xC5C5C5C5U
#define PAINTED_WORDS 1024

static inline __attribute__((always_inline)) volatile uint32_t *stack_pointer(void)
{
    uint32_t *address;
#ifdef __riscv
    __asm volatile("mv %0, sp" : "=r"(address));
#else
    __asm volatile("mov %0, sp" : "=r"(address));
#endif
    return address;
}

static inline __attribute__((always_inline)) void paint(void)
{
    volatile uint32_t *const top = stack_pointer();
    for (volatile uint32_t *word = top - PAINTED_WORDS; word != top; word++) {
        *word = PAINT;
    }
}

/* The bytes from the stack of the caller down to the lowest word that has changed since paint. */
static inline __attribute__((always_inline)) uint32_t painted_bytes(void)
{
    volatile uint32_t *const top = stack_pointer();
    volatile uint32_t *word = top - PAINTED_WORDS;
    while (word != top && *word == PAINT) {
        word++;
    }
    return (uint32_t)(top - word) * 4U;
}

#endif /* PAINT_H */
