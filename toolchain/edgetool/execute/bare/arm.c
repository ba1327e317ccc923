/* SPDX-License-Identifier: 0BSD */
/* The start of a program on a Cortex-M: vectors, the FPU, and faults of the accesses that the compiler avoids. */
#include "bare.h"

#define CCR (*(volatile uint32_t *)0xE000ED14U)
#define CCR_UNALIGN_TRP (1U << 3)
#define CPACR (*(volatile uint32_t *)0xE000ED88U)
#define CPACR_FPU (0xFU << 20)

extern uint32_t bare_stack_top[];
void bare_reset(void);
void bare_fault(void);

typedef union {
    const void *address;
    void (*handler)(void);
} vector;

__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    {bare_stack_top},        {.handler = bare_reset}, {.handler = bare_fault}, {.handler = bare_fault},
    {.handler = bare_fault}, {.handler = bare_fault}, {.handler = bare_fault}, {.handler = bare_fault},
    {.handler = bare_fault}, {.handler = bare_fault}, {.handler = bare_fault}, {.handler = bare_fault},
    {.handler = bare_fault}, {.handler = bare_fault}, {.handler = bare_fault}, {.handler = bare_fault},
};

void bare_reset(void)
{
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= CPACR_FPU;
    __asm volatile("dsb\n isb" ::: "memory");
#endif
#ifndef __ARM_FEATURE_UNALIGNED
    CCR |= CCR_UNALIGN_TRP;
    __asm volatile("dsb\n isb" ::: "memory");
#endif
    bare_start();
}

void bare_fault(void)
{
    uint32_t number;
    __asm volatile("mrs %0, ipsr" : "=r"(number));
    bare_exit(BARE_FAULT + (int)number);
}

uintptr_t bare_semihost(uintptr_t request, void *arguments)
{
    register uintptr_t r0 __asm("r0") = request;
    register void *r1 __asm("r1") = arguments;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
