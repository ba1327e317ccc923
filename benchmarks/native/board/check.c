/* SPDX-License-Identifier: 0BSD */
#include "check.h"

#include "board.h"

#define PAINT 0xC5C5C5C5U
#define PAINTED_WORDS 1024
#define POOL_BYTES (768 * 1024)
#define HEADER_BYTES 8

/*
 * The C library's functions would read words at any address where the core allows it, which a trap would report. What
 * malloc returns is used again once everything has been freed, as the driver of bands does after each band.
 */
static union {
    uint64_t alignment;
    uint8_t bytes[POOL_BYTES];
} pool;
static size_t pool_used;
static size_t pool_blocks;

void *malloc(size_t bytes);
void free(void *block);
void abort(void);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

void abort(void)
{
    board_write("abort\n");
    board_exit(98);
}

void *malloc(size_t bytes)
{
    const size_t taken = (bytes + 7U) & ~(size_t)7U;
    if (taken > POOL_BYTES - pool_used) {
        return NULL;
    }
    pool_used += taken;
    pool_blocks++;
    return pool.bytes + pool_used - taken;
}

void free(void *block)
{
    if (block != NULL && --pool_blocks == 0) {
        pool_used = 0;
    }
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    uint8_t *target = (uint8_t *)to;
    const uint8_t *source = (const uint8_t *)from;
    while (bytes-- != 0) {
        *target++ = *source++;
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *target = (uint8_t *)to;
    while (bytes-- != 0) {
        *target++ = (uint8_t)value;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const uint8_t *first = (const uint8_t *)a;
    const uint8_t *second = (const uint8_t *)b;
    for (; bytes != 0; bytes--, first++, second++) {
        if (*first != *second) {
            return *first - *second;
        }
    }
    return 0;
}

/* Returns the bytes below this function's own stack that `call` changes; the words there are painted before. */
static __attribute__((noinline)) uint32_t stack_of(void (*call)(void))
{
    uint32_t *top;
#ifdef __riscv
    __asm__ volatile("mv %0, sp" : "=r"(top));
#else
    __asm__ volatile("mov %0, sp" : "=r"(top));
#endif
    for (volatile uint32_t *word = top - PAINTED_WORDS; word != top; word++) {
        *word = PAINT;
    }
    call();
    volatile const uint32_t *lowest = top - PAINTED_WORDS;
    while (lowest != top && *lowest == PAINT) {
        lowest++;
    }
    return (uint32_t)((uintptr_t)top - (uintptr_t)lowest);
}

static void trap_misaligned(void)
{
#ifndef __riscv
    volatile uint32_t *const configuration = (volatile uint32_t *)0xE000ED14U;
    *configuration |= 1U << 3;
    __asm__ volatile("dsb\n\tisb");
#endif
}

int check_models(const check_model *models, uint32_t count, int trap)
{
    if (trap) {
        trap_misaligned();
    }
    int wrong = 0;
    for (const check_model *model = models; model != models + count; model++) {
        int equal = model->init();
        uint32_t stack = 0;
        for (uint32_t i = 0; equal && i < model->samples; i++) {
            model->set_inputs(model->inputs + (size_t)i * model->input_bytes);
            const uint32_t used = stack_of(model->invoke);
            stack = used > stack ? used : stack;
            equal = model->equal_outputs(model->outputs + (size_t)i * model->output_bytes);
        }
        board_write(model->name);
        board_write(equal ? " equal " : " different ");
        board_write_number(stack);
        board_write("\n");
        wrong |= !equal;
    }
    return wrong;
}
