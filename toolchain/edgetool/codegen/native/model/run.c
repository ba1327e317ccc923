/* SPDX-License-Identifier: 0BSD */
// A program that runs the model on samples and writes the outputs, on this machine or on an emulated core: for tests.
#include <string.h>

#include "bare.h"
#include "my_model.h"

#if MY_PLACED
#else
#define MEMORY_BYTES (MY_MODEL_ARENA_BYTES > 0 ? MY_MODEL_ARENA_BYTES : 1)

// Sanitizers report each access behind the last byte.
__attribute__((aligned(16))) static uint8_t memory[MEMORY_BYTES];
#endif

#if MY_ROWINPUT
#if MY_FEDS
static uint8_t input_my_position[MY_BYTES];
#endif

static const void *fetch(void *user, uint32_t input, uint32_t row)
{
    (void)user;
    switch (input) {
#if MY_FEDS
    case my_position:
        return input_my_position + row * (MY_BYTES / MY_MODEL_INPUT_my_position_ROWS);
#endif
    default:
        return NULL;
    }
}

#endif
#if MY_ROWOUTPUT
#if MY_TAKES
static uint8_t output_my_position[MY_BYTES];
#endif

static void take(void *user, uint32_t output, uint32_t row, const void *elements)
{
    (void)user;
    switch (output) {
#if MY_TAKES
    case my_position:
        memcpy(output_my_position + row * (MY_BYTES / MY_MODEL_OUTPUT_my_position_ROWS), elements,
               MY_BYTES / MY_MODEL_OUTPUT_my_position_ROWS);
        break;
#endif
    default:
        break;
    }
}

#endif
#if MY_TRANSFERS
// A DMA controller that copies at once or not before it is waited for, in turn.
static struct {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
} job;
static uint32_t turn;
static int is_wrong;
#if MY_CACHED

// A cache that writes its lines back at the worst moment: what DMA writes is hidden until they are dropped, and what was
// in them is lost.
static uint8_t hidden[MY_MOSTBYTES];
static uint8_t *dropped;
static int is_complete;

void my_model_run_invalidate(void *address, size_t bytes)
{
    uint8_t *const lines = (uint8_t *)address - (uintptr_t)address % MY_MODEL_CACHE_LINE_BYTES;
    const size_t count = (size_t)((uint8_t *)address + bytes - lines);
    memset(lines, 0x5A, (count + MY_MODEL_CACHE_LINE_BYTES - 1) / MY_MODEL_CACHE_LINE_BYTES * MY_MODEL_CACHE_LINE_BYTES);
    if (is_complete) {
        memcpy(address, hidden, bytes);
    }
    is_complete = 0;
    dropped = (uint8_t *)address;
}
#endif

static void transfer(void)
{
#if MY_CACHED
    memcpy(hidden, job.from, job.bytes);
#else
    memcpy(job.to, job.from, job.bytes);
#endif
}

void my_model_copy_begin(void *to, const void *from, size_t bytes)
{
#if MY_CACHED
    is_wrong |= dropped != to;
#endif
    is_wrong |= job.to != NULL;
    job.to = (uint8_t *)to;
    job.from = (const uint8_t *)from;
    job.bytes = bytes;
    if (turn % 2 == 0) {
        transfer();
    }
}

void my_model_copy_wait(void)
{
    is_wrong |= job.to == NULL;
    if (turn++ % 2 == 1) {
        transfer();
    }
    job.to = NULL;
#if MY_CACHED
    is_complete = 1;
#endif
}

#endif
int bare_main(void)
{
    my_model_context context;
    // The number of samples, and what the memory contains before.
    uint32_t start[2];
    bare_open();
    bare_read(start, sizeof start);
#if MY_PLACED
#if MY_MEMORIES
    memset(&my_model_in_my_word, (int)start[1], sizeof my_model_in_my_word);
#endif
    if (my_model_init(&context) != my_model_ok) {
#else
    memset(memory, (int)start[1], sizeof memory);
    if (my_model_init(&context, memory, MY_MODEL_ARENA_BYTES) != my_model_ok) {
#endif
        return BARE_INIT;
    }
    for (uint32_t i = 0; i < start[0]; i++) {
#if MY_TRANSFERS
        turn = i;
#endif
#if MY_INPUTS
#if MY_FED
        bare_read(input_my_position, MY_BYTES);
#else
        bare_read(my_model_input_my_position(&context), MY_BYTES);
#endif
#endif
#if MY_HANDED
        const my_model_result result = my_model_invoke_rows(
            &context,
#if MY_ROWINPUT
            fetch,
#endif
#if MY_ROWOUTPUT
            take,
#endif
            NULL);
        if (result != my_model_ok) {
            return BARE_INVOKE;
        }
#else
        if (my_model_invoke(&context) != my_model_ok) {
            return BARE_INVOKE;
        }
#endif
#if MY_TRANSFERS
        if (is_wrong || job.to != NULL) {
            return BARE_INVOKE;
        }
#endif
#if MY_OUTPUTS
#if MY_TAKEN
        bare_write(output_my_position, MY_BYTES);
#else
        bare_write(my_model_output_my_position(&context), MY_BYTES);
#endif
#endif
    }
    return BARE_OK;
}
