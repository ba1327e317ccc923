/*
 * Runs a model on all samples and compares its outputs with the expected ones. Exit status: 0 if all are equal, 1 if one
 * differs, 2 if TFLM reports an error.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "net_runner.h"

#define INCLUDE_BYTES(name, file) \
    extern "C" const uint8_t name[]; \
    __asm__(".section .rodata." #name ",\"a\"\n.balign 16\n" #name ":\n.incbin \"" file "\"\n.previous\n")

INCLUDE_BYTES(sample_inputs, "inputs.bin");
INCLUDE_BYTES(sample_outputs, "outputs.bin");

int main()
{
    if (net_runner::init() != net_ok) {
        return 2;
    }
    for (size_t i = 0; i < SAMPLES; ++i) {
        memcpy(net_runner::input_0(), sample_inputs + i * NET_INPUT_0_BYTES, NET_INPUT_0_BYTES);
        if (net_runner::invoke() != net_ok) {
            return 2;
        }
        if (memcmp(net_runner::output_0(), sample_outputs + i * NET_OUTPUT_0_BYTES, NET_OUTPUT_0_BYTES) != 0) {
            return 1;
        }
    }
    return 0;
}
