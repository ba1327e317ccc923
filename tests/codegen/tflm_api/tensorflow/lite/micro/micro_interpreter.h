#ifndef TFLM_API_INTERPRETER_H
#define TFLM_API_INTERPRETER_H

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"
#include "tensorflow/lite/micro/micro_profiler_interface.h"
#include "tensorflow/lite/schema/schema_generated.h"

#define TFLITE_SCHEMA_VERSION (3)

namespace tflite {

class MicroResourceVariables;

class MicroInterpreter {
  public:
    MicroInterpreter(const Model *model, const MicroOpResolver &op_resolver, MicroAllocator *allocator,
                     MicroResourceVariables *resource_variables = nullptr, MicroProfilerInterface *profiler = nullptr);
    ~MicroInterpreter();
    TfLiteStatus AllocateTensors();
    TfLiteStatus Invoke();
    TfLiteStatus Reset();
    TfLiteTensor *input(size_t index);
    TfLiteTensor *output(size_t index);
    size_t inputs_size() const;
    size_t outputs_size() const;
    size_t arena_used_bytes() const;

  private:
    MicroResourceVariables *variables_;
    MicroProfilerInterface *profiler_;
};

}  // namespace tflite

#endif
