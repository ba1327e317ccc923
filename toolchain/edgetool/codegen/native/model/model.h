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

#if MY_ROWWISE
#if MY_PLACED
/*
 * The addresses of the arrays below, and how many rows each operator has computed. All contexts share these arrays, and
 * so their rows and state.
 */
typedef struct {
    uint8_t *const *arena;
#else
/* The address of the arena, and how many rows each operator has computed: it may be copied, and be anywhere. */
typedef struct {
    uint8_t *arena;
#endif
    uint32_t at;
#if MY_INCREMENTAL
    uint32_t missing;
#endif
    uint16_t done[MY_OPERATORCOUNT];
} my_model_context;
#else
#if MY_PLACED
/* The addresses of the arrays below, and nothing else. All contexts share these arrays, and so their state. */
typedef struct {
    uint8_t *const *arena;
} my_model_context;
#else
/* The address of the arena, and nothing else: it may be copied, and be anywhere. */
typedef struct {
    uint8_t *arena;
} my_model_context;
#endif
#endif

#if MY_PLACED
/* The part of the arena in each memory, into which my_model_memories.ld puts its section. */
#if MY_MEMORIES
/* my_region: section my_section, unless MY_MODEL_IN_MY_WORD_SECTION is defined as another attribute. */
typedef union {
    MY_UNIT alignment;
    uint8_t bytes[MY_MODEL_IN_MY_WORD_BYTES];
} my_model_in_my_word_array;
extern my_model_in_my_word_array my_model_in_my_word;
#endif
#else
/* The memory of one context, for those who have no other place for it: static my_model_memory memory; */
typedef union {
    MY_UNIT alignment;
    uint8_t bytes[MY_MODEL_ARENA_BYTES + (MY_MODEL_ARENA_BYTES == 0)];
} my_model_memory;
#endif

#if MY_TRANSFERS
/*
 * Your firmware defines these two functions, with which invoke copies constants to RAM while it computes. copy_begin
 * starts a copy, such as with a DMA controller that reaches both memories, and can return before it is complete.
 * copy_wait returns when the copy is complete. At most one copy runs at a time, and none after invoke. Addresses and sizes
 * are multiples of 4. Meanwhile, nothing else reads or writes these bytes.
 */
void my_model_copy_begin(void *to, const void *from, size_t bytes);
void my_model_copy_wait(void);

#if MY_CACHED
/*
 * The data cache does not see what DMA writes. What is copied therefore has whole lines of the cache for itself, and
 * my_model.c drops these lines before copy_begin and after copy_wait: with the processor's registers, for which invoke must
 * run in privileged mode, or with MY_MODEL_INVALIDATE(address, bytes) if you define it for my_model.c. Constants in flash
 * are never written, and need no maintenance.
 */
#define MY_MODEL_CACHE_LINE_BYTES MY_LINEBYTES

#endif
#endif
/* The result of a call; my_model_result_text returns it as text. */
typedef enum {
    my_model_ok = 0,
    my_model_error_null, /* MY_NULLTEXT is a null pointer */
#if MY_PLACED
#else
    my_model_error_alignment, /* the memory is not aligned to MY_MODEL_ARENA_ALIGNMENT bytes */
    my_model_error_memory, /* the memory is smaller than MY_MODEL_ARENA_BYTES */
#endif
    my_model_error_order /* MY_ORDERCOMMENT */
} my_model_result;

const char *my_model_result_text(my_model_result result);

#if MY_PLACED
#if MY_CLEARS
/* Uses the arrays above, and clears MY_HISTORY in them. Their memories must work by then. */
#else
/* Uses the arrays above. Nothing is read or written before the first MY_START; their memories must work by then. */
#endif
my_model_result my_model_init(my_model_context *context);
#else
#if MY_CLEARS
/* Uses `memory` as the arena until the next init, and clears MY_HISTORY in it. */
#else
/* Uses `memory` as the arena until the next init. Nothing is read or written before the first MY_START. */
#endif
my_model_result my_model_init(my_model_context *context, void *memory, size_t bytes);
#endif

#if MY_INCREMENTAL
/*
 * A window of MY_MODEL_WINDOW_ROWS rows moves along a stream, by MY_MODEL_HOP_ROWS rows from one result to the next.
 * Rings in the arena keep what has not changed. MY_MODEL_WINDOW_HOPS hops fill a window.
 */
#define MY_MODEL_WINDOW_ROWS MY_WINDOWROWS
#define MY_MODEL_HOP_ROWS MY_HOPROWS
#define MY_MODEL_WINDOW_HOPS MY_WINDOWHOPS

/*
 * Forgets all rows, also those of a hop that has not been completed. Call it when rows of the stream were lost: results
 * are of a window without gaps. Returns my_model_error_order before init, which has the same effect.
 */
my_model_result my_model_reset(my_model_context *context);

/*
 * How many hops must still be completed until an output is the result of a whole window: 0 if it is. Earlier outputs are
 * undefined.
 */
uint32_t my_model_hops_missing(const my_model_context *context);

#endif
#if MY_HANDED
#if MY_ROWOUTPUT
#if MY_ROWINPUT
/*
 * Starts an inference, and ends the one before. Inputs that are not fed by rows must have been filled. Then feed a row of
 * the input that next_input returns, or take a row of the output that next_output returns, until there is neither.
 */
#else
/*
 * Starts an inference on the inputs, and ends the one before. Then take a row of the output that next_output returns,
 * until it returns MY_MODEL_OUTPUT_COUNT. The inputs are undefined afterwards: fill them each time.
 */
#endif
#else
#if MY_INCREMENTAL
/*
 * Moves the window on by a hop. Outputs are undefined from then on, until the MY_MODEL_HOP_ROWS new rows have been fed.
 * Returns my_model_error_order, and changes nothing, if the hop before has not been completed: feed its rows, or reset.
 */
#else
/*
 * Starts an inference, and ends the one before. Inputs that are not fed by rows must have been filled. Then feed a row of
 * the input that next_input returns, until it returns MY_MODEL_INPUT_COUNT: then the outputs are ready.
 */
#endif
#endif
my_model_result my_model_begin(my_model_context *context);

#if MY_ROWINPUT
/* The position of the input whose next row must be fed; MY_MODEL_INPUT_COUNT if there is none, or before begin. */
uint32_t my_model_next_input(const my_model_context *context);

#endif
#if MY_ROWOUTPUT
/* The position of the output whose next row must be taken; MY_MODEL_OUTPUT_COUNT if there is none, or before begin. */
uint32_t my_model_next_output(const my_model_context *context);

#endif
#if MY_FEDS
#define MY_MODEL_INPUT_my_position_ROWS MY_COUNT
#define MY_MODEL_INPUT_my_position_ROW_ELEMENTS MY_ELEMENTS

/*
 * Copies the next row of input my_position, my_name: my_kind. Then computes all that needs no further row.
 * Returns my_model_error_order if it is not the turn of this input: see next_input.
 */
my_model_result my_model_feed_row_my_position(my_model_context *context, const my_type *row);

/* The number of rows of input my_position that must still be fed: 0 if there are none, or before begin. */
uint32_t my_model_rows_left_my_position(const my_model_context *context);

#endif
#if MY_TAKES
#define MY_MODEL_OUTPUT_my_position_ROWS MY_COUNT
#define MY_MODEL_OUTPUT_my_position_ROW_ELEMENTS MY_ELEMENTS

/*
 * Copies the next row of output my_position, my_name: my_kind, to `row`. Then computes until a row must be handed over.
 * Returns my_model_error_order if it is not the turn of this output: see next_output.
 */
my_model_result my_model_take_row_my_position(my_model_context *context, my_type *row);

/* The number of rows of output my_position that must still be taken: 0 if there are none, or before begin. */
uint32_t my_model_rows_to_take_my_position(const my_model_context *context);

#endif
#if MY_ROWINPUT
/* Returns the elements of row `row` of the input at position `input`; a null pointer ends the inference. */
typedef const void *(*my_model_fetch)(void *user, uint32_t input, uint32_t row);

#endif
#if MY_ROWOUTPUT
/* Takes the elements of row `row` of the output at position `output`, which are valid until it returns. */
typedef void (*my_model_take)(void *user, uint32_t output, uint32_t row, const void *elements);

#endif
#if MY_INCREMENTAL
/* Completes a hop with rows that a function returns. It is called once for each row, when the row is needed. */
#else
/* Runs the model with functions that hand rows over. They are called once for each row, in the order of its turns. */
#endif
my_model_result my_model_invoke_rows(
    my_model_context *context,
#if MY_ROWINPUT
    my_model_fetch fetch,
#endif
#if MY_ROWOUTPUT
    my_model_take take,
#endif
    void *user);
#else
/* Runs the model on the inputs and writes the outputs. The inputs are undefined afterwards: fill them each time. */
my_model_result my_model_invoke(my_model_context *context);
#endif

#if MY_STATE
/* Clears the state that the model keeps between invocations. */
my_model_result my_model_reset(my_model_context *context);

#endif
#if MY_INPUTS
/* Input my_position, my_name: my_kind. Fill all of it before each MY_START, after reading the outputs. Null before init. */
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
/* Output my_position, my_name: my_kind. Valid from MY_END until an input is written. Null before init. */
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
