/* SPDX-License-Identifier: 0BSD */
#include "bare.h"

#include <stdlib.h>
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

/* Byte by byte: those of the C library may access words at any address, which is to be trapped. */
void *memcpy(void *target, const void *source, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)target)[i] = ((const uint8_t *)source)[i];
    }
    return target;
}

void *memset(void *target, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)target)[i] = (uint8_t)value;
    }
    return target;
}

size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    return length;
}

/* Blocks follow each other; the memory is empty again when all of them have been freed. */
#define HEAP_BYTES (768 * 1024)
static uint64_t heap[HEAP_BYTES / 8];
static size_t heap_bytes;
static size_t heap_blocks;

void *malloc(size_t bytes)
{
    const size_t start = heap_bytes;
    if (bytes > HEAP_BYTES - start) {
        return NULL;
    }
    heap_bytes = (start + bytes + 7) / 8 * 8;
    heap_blocks++;
    return (uint8_t *)heap + start;
}

void free(void *block)
{
    if (block != NULL && --heap_blocks == 0) {
        heap_bytes = 0;
    }
}

void abort(void)
{
    bare_exit(BARE_MEMORY);
    for (;;) {
    }
}
