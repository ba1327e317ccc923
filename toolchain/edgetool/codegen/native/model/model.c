/* SPDX-License-Identifier: 0BSD */
#include "my_model.h"

#include "edgetool_native.h"
#include "my_model_weights.h"
#if MY_KERNELS
#include "my_kernel.h"
#endif

// MY_TABLES

const char *my_model_result_text(my_model_result result)
{
    switch (result) {
    case my_model_ok:
        return "ok";
    case my_model_error_null:
        return "the context or the memory is a null pointer";
    case my_model_error_alignment:
        return "the memory is not aligned";
    case my_model_error_memory:
        return "the memory is too small";
    case my_model_error_order:
        return "init must be called first";
    }
    return "unknown result";
}

my_model_result my_model_init(my_model_context *context, void *memory, size_t bytes)
{
    if (context == NULL || memory == NULL) {
        return my_model_error_null;
    }
    context->arena = NULL;
    if ((uintptr_t)memory % MY_MODEL_ARENA_ALIGNMENT != 0) {
        return my_model_error_alignment;
    }
#if MY_ARENA
    if (bytes < MY_MODEL_ARENA_BYTES) {
        return my_model_error_memory;
    }
#else
    (void)bytes;
#endif
    context->arena = (uint8_t *)memory;
#if MY_STATE
    return my_model_reset(context);
#else
    return my_model_ok;
#endif
}

#if MY_STATE
my_model_result my_model_reset(my_model_context *context)
{
    if (context == NULL) {
        return my_model_error_null;
    }
    if (context->arena == NULL) {
        return my_model_error_order;
    }
#if MY_STATES
#if MY_INITIAL
    memcpy(context->arena + MY_STATEOFFSET, my_initial, MY_STATEBYTES);
#else
    memset(context->arena + MY_STATEOFFSET, MY_STATEVALUE, MY_STATEBYTES);
#endif
#endif
    return my_model_ok;
}

#endif
my_model_result my_model_invoke(my_model_context *context)
{
#if MY_STEPS
    const void *rows[MY_ROWS];
#endif
    if (context == NULL) {
        return my_model_error_null;
    }
    if (context->arena == NULL) {
        return my_model_error_order;
    }
#if MY_STEPS
    edgetool_run(&my_model_tables, context->arena, rows);
#endif
    return my_model_ok;
}
#if MY_INPUTS

my_type *my_model_input_my_position(const my_model_context *context)
{
    return context == NULL || context->arena == NULL ? NULL : (my_type *)(void *)(context->arena + MY_OFFSET);
}
#endif
#if MY_OUTPUTS

const my_type *my_model_output_my_position(const my_model_context *context)
{
#if MY_CONSTANT
    (void)context;
    return my_array;
#else
    return context == NULL || context->arena == NULL ? NULL : (const my_type *)(const void *)(context->arena + MY_OFFSET);
#endif
}
#endif
