/* What the fake of TFLM does next, and what it was asked to do. */
#ifndef TFLM_API_FAKE_H
#define TFLM_API_FAKE_H

#include "tensorflow/lite/micro/micro_interpreter.h"

struct Fake {
    /* What fails. */
    uint32_t version;
    size_t least_arena;
    bool allocate_fails, invoke_fails, reset_fails;
    /* The inputs and outputs of the model. */
    TfLiteTensor inputs[8], outputs[8];
    size_t input_count, output_count;
    /* What was asked. */
    const void *model, *arena, *tail;
    size_t arena_bytes, tail_bytes;
    const tflite::MicroProfilerInterface *profiler;
    int variables, interpreters, destroyed, invoked, reset, targets;
};

extern Fake fake;

#endif
