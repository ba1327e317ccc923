/* SPDX-License-Identifier: 0BSD */
// MY_BANNER

#ifndef EDGETOOL_HEADER_MY_MODEL
#define EDGETOOL_HEADER_MY_MODEL

#include <stddef.h>
#include <stdint.h>

#define MY_MODEL_EDGETOOL_VERSION "my_version"
#define MY_MODEL_MODEL_SHA256 "my_sha256"
#define MY_MODEL_UNCALIBRATED MY_UNCALIBRATED

// MY_LIMITMACROS

// MY_MEMORY

// MY_ARENA

// MY_LIMITS

#define MY_MODEL_INPUT_COUNT MY_INPUTCOUNT
#define MY_MODEL_OUTPUT_COUNT MY_OUTPUTCOUNT

#if MY_SECTIONS
// MY_SECTION

#endif
#ifdef __cplusplus
extern "C" {
#endif

/* The address of the arena, and nothing else: it may be copied, and be anywhere. */
typedef struct {
    uint8_t *arena;
} my_model_context;

/* The memory of one context, for those who have no other place for it: static my_model_memory memory; */
typedef union {
    MY_UNIT alignment;
    uint8_t bytes[MY_MODEL_ARENA_BYTES + (MY_MODEL_ARENA_BYTES == 0)];
} my_model_memory;

/* The result of a call; my_model_result_text returns it as text. */
typedef enum {
    my_model_ok = 0,
    my_model_error_null, /* the context or the memory is a null pointer */
    my_model_error_alignment, /* the memory is not aligned to MY_MODEL_ARENA_ALIGNMENT bytes */
    my_model_error_memory, /* the memory is smaller than MY_MODEL_ARENA_BYTES */
    my_model_error_order /* init must be called first, and must have succeeded */
} my_model_result;

const char *my_model_result_text(my_model_result result);

#if MY_STATE
/* Uses `memory` as the arena until the next init, and clears the state in it. */
#else
/* Uses `memory` as the arena until the next init. Nothing is read or written before the first invoke. */
#endif
my_model_result my_model_init(my_model_context *context, void *memory, size_t bytes);

/* Runs the model on the inputs and writes the outputs. The inputs are undefined afterwards: fill them each time. */
my_model_result my_model_invoke(my_model_context *context);

#if MY_STATE
/* Clears the state that the model keeps between invocations. */
my_model_result my_model_reset(my_model_context *context);

#endif
#if MY_INPUTS
/* Input my_position, my_name: my_kind. Fill all of it before each invoke, after reading the outputs. Null before init. */
my_type *my_model_input_my_position(const my_model_context *context);
#if MY_REAL

/* Element `index` (less than MY_MODEL_INPUT_my_position_ELEMENTS) as a real value. Call init first. */
static inline void my_model_set_input_my_position(const my_model_context *context, size_t index, float value)
{
    my_model_input_my_position(context)[index] = my_model_input_my_position_quantize(value);
}
#endif

#endif
#if MY_OUTPUTS
/* Output my_position, my_name: my_kind. Valid from an invoke until an input is written. Null before init. */
const my_type *my_model_output_my_position(const my_model_context *context);
#if MY_REAL

/* Element `index` (less than MY_MODEL_OUTPUT_my_position_ELEMENTS) as a real value. Call invoke first. */
static inline float my_model_get_output_my_position(const my_model_context *context, size_t index)
{
    return my_model_output_my_position_dequantize(my_model_output_my_position(context)[index]);
}
#endif

#endif
#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_HEADER_MY_MODEL */
