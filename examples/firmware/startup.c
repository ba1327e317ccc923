/*
 * Startup code from reset to main for any Cortex-M that uses sections.ld, and semihosting for console output and the exit
 * code. A fault ends the program with status 99.
 */
#include <stddef.h>
#include <stdint.h>

#include "board.h"

/* Operations of Arm's semihosting (https://github.com/ARM-software/abi-aa, semihosting.rst). */
#define SYS_WRITE0 0x04u
#define SYS_EXIT_EXTENDED 0x20u
#define APPLICATION_EXIT 0x20026u

#define FAULT_STATUS 99
#define COPROCESSOR_ACCESS ((volatile uint32_t *)0xE000ED88u)
#define FULL_ACCESS_TO_FPU (0xFu << 20)

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];
extern void (*const constructors_start[])(void);
extern void (*const constructors_end[])(void);

int main(void);
__attribute__((noreturn)) void reset(void);

static void semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void board_write(const char *text)
{
    semihosting(SYS_WRITE0, text);
}

void board_write_number(uint32_t number)
{
    char digits[11];
    char *start = &digits[10];
    *start = '\0';
    do {
        *--start = (char)('0' + number % 10u);
        number /= 10u;
    } while (number != 0u);
    board_write(start);
}

void board_exit(int status)
{
    const uint32_t block[2] = {APPLICATION_EXIT, (uint32_t)status};
    for (;;) {
        semihosting(SYS_EXIT_EXTENDED, block);
    }
}

static void fault(void)
{
    board_write("fault\n");
    board_exit(FAULT_STATUS);
}

void reset(void)
{
    const uint32_t *from = data_load;
    uint32_t *to;
    void (*const *constructor)(void);
#ifdef __ARM_FP
    *COPROCESSOR_ACCESS |= FULL_ACCESS_TO_FPU;
    __asm__ volatile("dsb\n\tisb");
#endif
    for (to = data_start; to < data_end; ++to) {
        *to = *from++;
    }
    for (to = bss_start; to < bss_end; ++to) {
        *to = 0u;
    }
    for (constructor = constructors_start; constructor < constructors_end; ++constructor) {
        (*constructor)();
    }
    board_exit(main());
}

/* The initial stack pointer, the reset handler and the handlers of the 14 exceptions that follow. */
typedef struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vector_table;

extern const vector_table vectors;
__attribute__((section(".vectors"), used)) const vector_table vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault},
};
