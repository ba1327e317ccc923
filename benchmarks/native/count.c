/* SPDX-License-Identifier: 0BSD */
/*
 * edgetool_run that adds the time of each step to counted_ticks, or edgetool_fire, if COUNTED_ROWS is defined and
 * edgetool_rows.h is included before. QEMU's clock advances by the same time with each instruction;
 * count_ticks_of_loop measures what one takes.
 */
#include "edgetool_native.h"

enum { COUNTED_STEPS = 512 };

uint32_t counted_ticks[COUNTED_STEPS];

uint32_t count_ticks_of_loop(uint32_t turns);

#if defined(__riscv)

static void start(void)
{
}

static uint32_t now(void)
{
    return *(volatile uint32_t *)0x200BFF8U;
}

#define TURN "1:\n\taddi %0, %0, -1\n\tbnez %0, 1b"

#else

#define SYST_CSR (*(volatile uint32_t *)0xE000E010U)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014U)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018U)

static void start(void)
{
    SYST_RVR = 0xFFFFFFU;
    SYST_CVR = 0;
    SYST_CSR = 5;
}

/* SysTick counts down, in 24 bits. */
static uint32_t now(void)
{
    return (0U - SYST_CVR) & 0xFFFFFFU;
}

#define TURN ".syntax unified\n1:\n\tsubs %0, #1\n\tbne 1b"

#endif

static uint32_t since(uint32_t before)
{
    const uint32_t ticks = now() - before;
#if defined(__riscv)
    return ticks;
#else
    return ticks & 0xFFFFFFU;
#endif
}

/* The ticks of a loop of two instructions. */
uint32_t count_ticks_of_loop(uint32_t turns)
{
    start();
    const uint32_t before = now();
    __asm__ volatile(TURN : "+r"(turns) : : "cc");
    return since(before);
}

#ifdef COUNTED_ROWS

/* edgetool_fire as it is. */
void counted_fire(const edgetool_row_tables *tables, uint32_t step, uint16_t *done, uint8_t *arena, const void **rows);

void edgetool_fire(const edgetool_row_tables *tables, uint32_t step, uint16_t *done, uint8_t *arena, const void **rows)
{
    uint32_t before = now();
    const uint32_t none = since(before);
    before = now();
    counted_fire(tables, step, done, arena, rows);
    counted_ticks[step] += since(before) - none;
}

#else

/* edgetool_run as it is. */
void counted_run(const edgetool_program *program, uint8_t *arena, const void **rows);

void edgetool_run(const edgetool_program *program, uint8_t *arena, const void **rows)
{
    edgetool_program part = *program;
    part.count = 0;
    uint32_t before = now();
    counted_run(&part, arena, rows);
    const uint32_t none = since(before);
    part.count = 1;
    for (uint32_t i = 0; i < program->count; i++) {
        part.steps = program->steps + i;
        before = now();
        counted_run(&part, arena, rows);
        counted_ticks[i] += since(before) - none;
    }
}

#endif
