/*
 * The model in C. A context holds the address of the arena, and nothing else: contexts with an arena each are
 * independent, so that threads or tasks may run them at the same time. The functions are reentrant; an interrupt may
 * call them for a context that the interrupted code does not use.
 */
typedef struct {
    uint8_t *arena;
} my_model_context;

typedef enum {
    my_model_ok = 0,
    my_model_error_null, /* the context or the memory is a null pointer */
    my_model_error_alignment, /* the memory is not aligned to MY_MODEL_ARENA_ALIGNMENT */
    my_model_error_memory, /* the memory is smaller than MY_MODEL_ARENA_BYTES */
    my_model_error_order /* init must be called first */
} my_model_result;

/* Uses `memory` as the arena until the next init. It is not read before it is written. */
my_model_result my_model_init(my_model_context *context, void *memory, size_t bytes);

/* Runs the model on the inputs and writes the outputs. The contents of the inputs are undefined afterwards. */
my_model_result my_model_invoke(my_model_context *context);

#if MY_STATE
/* Clears the state that the model keeps between invocations; init does so too. */
my_model_result my_model_reset(my_model_context *context);

#endif
#if MY_INPUTS
/* Input my_position, my_name: fill all of it before each invoke. Null before init. */
my_type *my_model_input_my_position(const my_model_context *context);

#endif
#if MY_OUTPUTS
/* Output my_position, my_name: valid from one invoke until an input is written. Null before init. */
const my_type *my_model_output_my_position(const my_model_context *context);

#endif
