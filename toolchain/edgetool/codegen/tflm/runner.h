// MY_BANNER

#ifndef EDGETOOL_RUNNER_MY_MODEL
#define EDGETOOL_RUNNER_MY_MODEL

#ifndef __cplusplus
#error "my_model_runner.h requires C++; use my_model.h in C"
#endif

#include <stddef.h>

#include "my_model.h"

namespace tflite {
class MicroProfilerInterface;
}

/*
 * The result of a call; my_model_status_text returns it as text.
 */
enum my_model_status {
    my_model_ok = 0,
    my_model_error_order, /* init must be called first, and only once */
    my_model_error_version, /* the model requires a different version of TFLM */
    my_model_error_operators, /* an operator could not be registered */
    my_model_error_arena, /* the arena is far too small */
    my_model_error_allocation, /* AllocateTensors failed: TFLM's log says why; usually the arena is too small */
    my_model_error_io, /* the inputs and outputs do not match my_model.h */
    my_model_error_invoke, /* an operator failed: TFLM's log says which one */
    my_model_error_reset /* the state could not be reset */
};

const char *my_model_status_text(my_model_status status);

class my_model_runner {
  public:
    /* Sets up the model in its arena. A profiler, if any, must outlive the runner. */
    static my_model_status init(tflite::MicroProfilerInterface *profiler = nullptr);

#if MY_INPUTS
    /*
     * Input my_position, my_name: my_kind. Null before init.
     * Fill all of it before each invoke: the model may reuse its memory.
     */
    static my_type *input_my_position();
#if MY_REAL
    /* Element `index` (less than MY_MODEL_INPUT_my_position_ELEMENTS) as a real value. Call init first. */
    static void set_input_my_position(size_t index, float value) { input_my_position()[index] = my_model_input_my_position_quantize(value); }
#endif

#endif
#if MY_OUTPUTS
    /*
     * Output my_position, my_name: my_kind. Null before init.
     * Valid from one invoke to the next.
     */
    static const my_type *output_my_position();
#if MY_REAL
    /* Element `index` (less than MY_MODEL_OUTPUT_my_position_ELEMENTS) as a real value. Call init first. */
    static float get_output_my_position(size_t index) { return my_model_output_my_position_dequantize(output_my_position()[index]); }
#endif

#endif
    /* Runs the model on the inputs and writes the outputs. */
    static my_model_status invoke();

#if MY_RESET
#if MY_REBUILD
    /* Clears the state that the model keeps between invocations, by setting up the model again. */
#else
    /* Clears the state that the model keeps between invocations. */
#endif
    static my_model_status reset();

#endif
#if MY_SHARED
    /* Bytes of the arena that TFLM uses for this model and all models before it; init may temporarily need more. 0 before init. */
#else
    /* Bytes of the arena that TFLM uses for this model; init may temporarily need more. 0 before init. */
#endif
    static size_t arena_used_bytes();
};

#endif /* EDGETOOL_RUNNER_MY_MODEL */
