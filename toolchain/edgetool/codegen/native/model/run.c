/* SPDX-License-Identifier: 0BSD */
// A program that runs the model on samples from a file and writes the outputs to another one: for tests.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "my_model.h"

static union {
    uint64_t alignment;
    uint8_t bytes[MY_MODEL_ARENA_BYTES + 8];
} arena;

int main(int count, char **arguments)
{
    my_model_context context;
    FILE *samples = count == 4 ? fopen(arguments[1], "rb") : NULL;
    FILE *results = count == 4 ? fopen(arguments[2], "wb") : NULL;
    if (samples == NULL || results == NULL) {
        return 2;
    }
    memset(arena.bytes, atoi(arguments[3]), sizeof arena.bytes);
    if (my_model_init(&context, arena.bytes, MY_MODEL_ARENA_BYTES) != my_model_ok) {
        return 3;
    }
    for (;;) {
        int more = fgetc(samples);
        if (more == EOF) {
            break;
        }
#if MY_INPUTS
        if (fread(my_model_input_my_position(&context), 1, MY_BYTES, samples) != MY_BYTES) {
            return 4;
        }
#endif
        if (my_model_invoke(&context) != my_model_ok) {
            return 5;
        }
#if MY_OUTPUTS
        if (fwrite(my_model_output_my_position(&context), 1, MY_BYTES, results) != MY_BYTES) {
            return 6;
        }
#endif
    }
    return fclose(results) == 0 ? 0 : 7;
}
