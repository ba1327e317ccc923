/* SPDX-License-Identifier: 0BSD */
#include "bare.h"

#include <string.h>

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_RB = 1, MODE_WB = 5 };
enum { APPLICATION_EXIT = 0x20026 };

static uintptr_t samples_file;
static uintptr_t results_file;

static uintptr_t open_file(const char *name, uintptr_t mode)
{
    uintptr_t arguments[3];
    arguments[0] = (uintptr_t)name;
    arguments[1] = mode;
    arguments[2] = strlen(name);
    const uintptr_t file = bare_semihost(SYS_OPEN, arguments);
    if (file == UINTPTR_MAX) {
        bare_exit(BARE_FILES);
    }
    return file;
}

static void transfer(uintptr_t request, uintptr_t file, uintptr_t data, size_t bytes)
{
    uintptr_t arguments[3];
    arguments[0] = file;
    arguments[1] = data;
    arguments[2] = bytes;
    if (bytes != 0 && bare_semihost(request, arguments) != 0) {
        bare_exit(BARE_FILES);
    }
}

void bare_open(void)
{
    samples_file = open_file("samples", MODE_RB);
    results_file = open_file("results", MODE_WB);
}

void bare_read(void *data, size_t bytes)
{
    transfer(SYS_READ, samples_file, (uintptr_t)data, bytes);
}

void bare_write(const void *data, size_t bytes)
{
    transfer(SYS_WRITE, results_file, (uintptr_t)data, bytes);
}

void bare_exit(int code)
{
    uintptr_t arguments[2];
    arguments[0] = APPLICATION_EXIT;
    arguments[1] = (uintptr_t)code;
    for (;;) {
        bare_semihost(SYS_EXIT_EXTENDED, arguments);
    }
}

/* The variables between these addresses are cleared: see the linker script. */
extern uint32_t bare_bss_start[];
extern uint32_t bare_bss_end[];

void bare_start(void)
{
    for (uint32_t *word = bare_bss_start; word < bare_bss_end; word++) {
        *word = 0;
    }
    bare_exit(bare_main());
}

#if defined(__thumb2__) && !defined(__ARM_FEATURE_UNALIGNED)
/* That of the C library accesses words at any address, which would be faults. */
void *memcpy(void *target, const void *source, size_t bytes)
{
    /* volatile: this loop is not to be compiled as a call of memcpy. */
    volatile uint8_t *to = (uint8_t *)target;
    const uint8_t *from = (const uint8_t *)source;
    for (size_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
    return target;
}
#endif
