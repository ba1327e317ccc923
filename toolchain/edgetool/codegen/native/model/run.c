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
