/* SPDX-License-Identifier: 0BSD */
#include "my_model.h"

#if MY_ROWWISE
#include "edgetool_rows.h"
#else
#include "edgetool_native.h"
#endif
#include "my_model_weights.h"
#if MY_KERNELS
#include "my_kernel.h"
#endif

#if MY_TRANSFERS
#include "edgetool_transfer.h"

#if MY_CACHED
#ifndef MY_MODEL_INVALIDATE
#ifndef EDGETOOL_INVALIDATE
#error "define MY_MODEL_INVALIDATE(address, bytes), which drops whole lines of RAM from the data cache"
#endif
#define MY_MODEL_INVALIDATE(address, bytes) EDGETOOL_INVALIDATE(address, bytes, MY_MODEL_CACHE_LINE_BYTES)
#endif

#endif
/* The kernels of the steps that begin a copy and that wait for it. */
static void my_model_begin(const void *descriptor, const edgetool_band *band)
{
    const edgetool_transfer_op *op = (const edgetool_transfer_op *)descriptor;
#if MY_CACHED
    /* What the cache still has to write back would overwrite what DMA writes. */
    MY_MODEL_INVALIDATE(band->out, op->bytes);
#endif
    my_model_copy_begin(band->out, band->rows[0], op->bytes);
}

static void my_model_wait(const void *descriptor, const edgetool_band *band)
{
    my_model_copy_wait();
#if MY_CACHED
    /* The core may have fetched lines before DMA wrote them. */
    MY_MODEL_INVALIDATE(band->out, ((const edgetool_transfer_op *)descriptor)->bytes);
#else
    (void)descriptor;
    (void)band;
#endif
}

#endif
// MY_TABLES

#if MY_PLACED
#if MY_CACHED
#ifndef MY_MODEL_LINES
#ifndef __ELF__
#error "define MY_MODEL_LINES as this compiler's attribute for an alignment of MY_MODEL_CACHE_LINE_BYTES"
#endif
#define MY_MODEL_LINES __attribute__((aligned(MY_MODEL_CACHE_LINE_BYTES)))
#endif
#endif
#if MY_MEMORIES
#ifndef MY_MODEL_IN_MY_WORD_SECTION
#ifndef __ELF__
#error "define MY_MODEL_IN_MY_WORD_SECTION as this compiler's attribute for a section"
#endif
#define MY_MODEL_IN_MY_WORD_SECTION __attribute__((section("my_section")))
#endif
#if MY_CACHED
MY_MODEL_LINES MY_MODEL_IN_MY_WORD_SECTION my_model_in_my_word_array my_model_in_my_word;
#else
MY_MODEL_IN_MY_WORD_SECTION my_model_in_my_word_array my_model_in_my_word;
#endif
#endif

static uint8_t *const my_model_arenas[] = {
#if MY_MEMORIES
    my_model_in_my_word.bytes,
#endif
};

#endif
const char *my_model_result_text(my_model_result result)
{
    switch (result) {
    case my_model_ok:
        return "ok";
    case my_model_error_null:
        return "MY_NULLTEXT is a null pointer";
#if MY_PLACED
#else
    case my_model_error_alignment:
        return "the memory is not aligned";
    case my_model_error_memory:
        return "the memory is too small";
#endif
    case my_model_error_order:
        return "MY_ORDERTEXT";
    }
    return "unknown result";
}

#if MY_PLACED
my_model_result my_model_init(my_model_context *context)
{
    if (context == NULL) {
        return my_model_error_null;
    }
    context->arena = my_model_arenas;
#else
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
#endif
#if MY_ROWWISE
    context->at = MY_FIRINGS;
#endif
#if MY_INCREMENTAL
    return my_model_reset(context);
#else
#if MY_STATE
    return my_model_reset(context);
#else
    return my_model_ok;
#endif
#endif
}

#if MY_INCREMENTAL
my_model_result my_model_reset(my_model_context *context)
{
    if (context == NULL) {
        return my_model_error_null;
    }
    if (context->arena == NULL) {
        return my_model_error_order;
    }
#if MY_RINGS
    memset(my_base + MY_RINGOFFSET, 0, MY_KEPTBYTES + MY_HOPBYTES);
#endif
    context->at = MY_FIRINGS;
    context->missing = MY_MODEL_WINDOW_HOPS;
    return my_model_ok;
}

uint32_t my_model_hops_missing(const my_model_context *context)
{
    return context == NULL || context->arena == NULL ? MY_MODEL_WINDOW_HOPS : context->missing;
}

/* Moves bytes of a ring by a hop to its beginning. */
static void my_model_move(uint8_t *ring, size_t bytes, size_t hop)
{
    while (bytes > 0) {
        const size_t count = bytes < hop ? bytes : hop;
        memcpy(ring, ring + hop, count);
        ring += count;
        bytes -= count;
    }
}

#else
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
    memcpy(my_base + MY_STATEOFFSET, my_initial, MY_STATEBYTES);
#else
    memset(my_base + MY_STATEOFFSET, MY_STATEVALUE, MY_STATEBYTES);
#endif
#endif
    return my_model_ok;
}

#endif
#endif
#if MY_ROWWISE
#if MY_STEPS
/* Runs the schedule until a row must be handed over, or to its end. */
static void my_model_run(my_model_context *context)
{
    const void *rows[MY_ROWS];
#if MY_HANDED
    while (context->at < MY_FIRINGS && edgetool_turn(&my_model_tables, context->at) >= MY_HANDEDCOUNT) {
        const uint32_t number = edgetool_turn(&my_model_tables, context->at++);
        my_fire(&my_model_tables, number - MY_HANDEDCOUNT, &context->done[number], context->arena, rows);
    }
#else
    while (context->at < MY_FIRINGS) {
        const uint32_t number = edgetool_turn(&my_model_tables, context->at++);
        my_fire(&my_model_tables, number, &context->done[number], context->arena, rows);
    }
#endif
}

#endif
my_model_result my_model_MY_START(my_model_context *context)
{
    if (context == NULL) {
        return my_model_error_null;
    }
    if (context->arena == NULL) {
        return my_model_error_order;
    }
#if MY_INCREMENTAL
    if (context->at < MY_FIRINGS) {
        return my_model_error_order;
    }
#if MY_RINGS
    my_model_move(my_base + MY_RINGOFFSET, MY_KEPTBYTES, MY_HOPBYTES);
#endif
#endif
    context->at = 0;
    memset(context->done, 0, sizeof context->done);
#if MY_STEPS
    my_model_run(context);
#endif
    return my_model_ok;
}
#if MY_HANDED

/* The number of the input or output whose row must be handed over; MY_HANDEDCOUNT if there is none. */
static uint32_t my_model_turn(const my_model_context *context)
{
    const int waits = context != NULL && context->arena != NULL && context->at < MY_FIRINGS;
    return waits ? edgetool_turn(&my_model_tables, context->at) : MY_HANDEDCOUNT;
}
#if MY_ROWINPUT

uint32_t my_model_next_input(const my_model_context *context)
{
    static const uint32_t positions[] = {MY_FEDPOSITIONS};
    const uint32_t number = my_model_turn(context);
    return number < MY_FEDCOUNT ? positions[number] : MY_MODEL_INPUT_COUNT;
}
#endif
#if MY_ROWOUTPUT

uint32_t my_model_next_output(const my_model_context *context)
{
    static const uint32_t positions[] = {MY_TAKENPOSITIONS};
    const uint32_t number = my_model_turn(context) - MY_FEDCOUNT;
    return number < MY_TAKENCOUNT ? positions[number] : MY_MODEL_OUTPUT_COUNT;
}
#endif
#if MY_FEDS

uint32_t my_model_rows_left_my_position(const my_model_context *context)
{
    const int waits = context != NULL && context->arena != NULL && context->at < MY_FIRINGS;
    return waits ? MY_MODEL_INPUT_my_position_ROWS - (uint32_t)context->done[MY_FEEDNUMBER] : 0U;
}

my_model_result my_model_feed_row_my_position(my_model_context *context, const my_type *row)
{
    if (context == NULL || row == NULL) {
        return my_model_error_null;
    }
    if (my_model_next_input(context) != my_position) {
        return my_model_error_order;
    }
#if MY_FIRST
    memcpy(my_cell(&my_model_tables, context->arena, MY_TENSOR, MY_FIRST + context->done[MY_FEEDNUMBER]), row, MY_ROWBYTES);
#else
    memcpy(my_cell(&my_model_tables, context->arena, MY_TENSOR, context->done[MY_FEEDNUMBER]), row, MY_ROWBYTES);
#endif
    context->done[MY_FEEDNUMBER]++;
    context->at++;
#if MY_STEPS
    my_model_run(context);
#endif
#if MY_INCREMENTAL
    if (context->at == MY_FIRINGS && context->missing > 0) {
        context->missing--;
    }
#endif
    return my_model_ok;
}
#endif
#if MY_TAKES

uint32_t my_model_rows_to_take_my_position(const my_model_context *context)
{
    const int waits = context != NULL && context->arena != NULL && context->at < MY_FIRINGS;
    return waits ? MY_MODEL_OUTPUT_my_position_ROWS - (uint32_t)context->done[MY_TAKENUMBER] : 0U;
}

my_model_result my_model_take_row_my_position(my_model_context *context, my_type *row)
{
    if (context == NULL || row == NULL) {
        return my_model_error_null;
    }
    if (my_model_next_output(context) != my_position) {
        return my_model_error_order;
    }
    memcpy(row, my_cell(&my_model_tables, context->arena, MY_TENSOR, context->done[MY_TAKENUMBER]), MY_ROWBYTES);
    context->done[MY_TAKENUMBER]++;
    context->at++;
#if MY_STEPS
    my_model_run(context);
#endif
    return my_model_ok;
}
#endif

my_model_result my_model_invoke_rows(
    my_model_context *context,
#if MY_ROWINPUT
    my_model_fetch fetch,
#endif
#if MY_ROWOUTPUT
    my_model_take take,
#endif
    void *user)
{
#if MY_ROWINPUT
    if (fetch == NULL) {
        return my_model_error_null;
    }
#endif
#if MY_ROWOUTPUT
    if (take == NULL) {
        return my_model_error_null;
    }
#endif
    my_model_result result = my_model_begin(context);
    while (result == my_model_ok && context->at < MY_FIRINGS) {
        switch (edgetool_turn(&my_model_tables, context->at)) {
#if MY_FEDS
        case MY_FEEDNUMBER:
            result = my_model_feed_row_my_position(
                context, (const my_type *)fetch(user, my_position, context->done[MY_FEEDNUMBER]));
            break;
#endif
#if MY_TAKES
        case MY_TAKENUMBER:
            take(user, my_position, context->done[MY_TAKENUMBER],
                 my_cell(&my_model_tables, context->arena, MY_TENSOR, context->done[MY_TAKENUMBER]));
            context->done[MY_TAKENUMBER]++;
            context->at++;
#if MY_STEPS
            my_model_run(context);
#endif
            break;
#endif
        default:
            result = my_model_error_order;
            break;
        }
    }
    return result;
}
#endif
#else
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
#if MY_PLACED
    edgetool_run_several(&my_model_tables, context->arena, rows);
#else
    edgetool_run(&my_model_tables, context->arena, rows);
#endif
#endif
    return my_model_ok;
}
#endif
#if MY_INPUTS

my_type *my_model_input_my_position(const my_model_context *context)
{
    return context == NULL || context->arena == NULL ? NULL : (my_type *)(void *)(my_base + MY_OFFSET);
}
#endif
#if MY_OUTPUTS

const my_type *my_model_output_my_position(const my_model_context *context)
{
#if MY_CONSTANT
    (void)context;
    return my_array;
#else
    return context == NULL || context->arena == NULL ? NULL : (const my_type *)(const void *)(my_base + MY_OFFSET);
#endif
}
#endif
