/* SPDX-License-Identifier: 0BSD */
// A program that runs the model on samples and writes the outputs, on this machine or on an emulated core: for tests.
#include <string.h>

#include "bare.h"
#include "my_model.h"

#define MEMORY_BYTES (MY_MODEL_ARENA_BYTES > 0 ? MY_MODEL_ARENA_BYTES : 1)

// Sanitizers report each access behind the last byte.
__attribute__((aligned(16))) static uint8_t memory[MEMORY_BYTES];

int bare_main(void)
{
    my_model_context context;
    // The number of samples, and what the memory contains before.
    uint32_t start[2];
    bare_open();
    bare_read(start, sizeof start);
    memset(memory, (int)start[1], sizeof memory);
    if (my_model_init(&context, memory, MY_MODEL_ARENA_BYTES) != my_model_ok) {
        return BARE_INIT;
    }
    for (uint32_t i = 0; i < start[0]; i++) {
#if MY_INPUTS
        bare_read(my_model_input_my_position(&context), MY_BYTES);
#endif
        if (my_model_invoke(&context) != my_model_ok) {
            return BARE_INVOKE;
        }
#if MY_OUTPUTS
        bare_write(my_model_output_my_position(&context), MY_BYTES);
#endif
    }
    return BARE_OK;
}
