/* SPDX-License-Identifier: 0BSD */
/* The start of a program on a 32-bit RISC-V: its stack and the handler of traps. */
#include "bare.h"

void bare_reset(void);
void bare_fault(void);

__attribute__((section(".vectors"), naked, used)) void bare_reset(void)
{
    __asm volatile(".option push\n"
                   ".option arch, +zicsr\n"
                   "la sp, bare_stack_top\n"
                   "la t0, bare_fault\n"
                   "csrw mtvec, t0\n"
                   "j bare_start\n"
                   ".option pop\n");
}

__attribute__((aligned(4))) void bare_fault(void)
{
    uint32_t cause;
    __asm volatile(".option push\n"
                   ".option arch, +zicsr\n"
                   "csrr %0, mcause\n"
                   ".option pop\n"
                   : "=r"(cause));
    bare_exit(BARE_FAULT + (int)(cause & 63U));
}

uintptr_t bare_semihost(uintptr_t request, void *arguments)
{
    register uintptr_t a0 __asm("a0") = request;
    register void *a1 __asm("a1") = arguments;
    /* This sequence of three uncompressed instructions in one page is the request. */
    __asm volatile(".balign 16\n"
                   ".option push\n"
                   ".option norvc\n"
                   "slli zero, zero, 0x1f\n"
                   "ebreak\n"
                   "srai zero, zero, 7\n"
                   ".option pop\n"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
    return a0;
}
