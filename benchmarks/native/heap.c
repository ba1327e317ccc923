/* SPDX-License-Identifier: 0BSD */
/* The functions of the C library for which it would need a system: the driver of bands calls them. */
#include "bare.h"

#include <stdlib.h>

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
