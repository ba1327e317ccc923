/* A TFLM that runs nothing: it does what `fake` says, and notes what it was asked. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>

#include "tensorflow/lite/micro/micro_log.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/micro/system_setup.h"

Fake fake = Fake();

namespace {

class FakeAllocator : public tflite::MicroAllocator {
  public:
    ~FakeAllocator() override {}
};

FakeAllocator allocator;
tflite::MicroResourceVariables resource_variables;
tflite::Model model;

}  // namespace

namespace tflite {

uint32_t Model::version() const { return fake.version; }

const Model *GetModel(const void *buf)
{
    fake.model = buf;
    return &model;
}

MicroAllocator::MicroAllocator() {}
MicroAllocator::~MicroAllocator() {}

MicroAllocator *MicroAllocator::Create(uint8_t *tensor_arena, size_t arena_size, MemoryPlannerType)
{
    fake.arena = tensor_arena;
    fake.arena_bytes = arena_size;
    return &allocator;
}

MicroAllocator *MicroAllocator::Create(uint8_t *persistent_tensor_arena, size_t persistent_arena_size,
                                       uint8_t *non_persistent_tensor_arena, size_t non_persistent_arena_size,
                                       MemoryPlannerType)
{
    fake.tail = persistent_tensor_arena;
    fake.tail_bytes = persistent_arena_size;
    return Create(non_persistent_tensor_arena, non_persistent_arena_size);
}

size_t MicroAllocator::GetDefaultTailUsage(bool) { return fake.least_arena; }

size_t MicroAllocator::used_bytes() const { return 1234; }

MicroResourceVariables *MicroResourceVariables::Create(MicroAllocator *, int num_variables)
{
    fake.variables = num_variables;
    return &resource_variables;
}

MicroInterpreter::MicroInterpreter(const Model *, const MicroOpResolver &, MicroAllocator *,
                                   MicroResourceVariables *variables, MicroProfilerInterface *profiler)
    : variables_(variables), profiler_(profiler)
{
    ++fake.interpreters;
    fake.profiler = profiler_;
    if (variables_ == nullptr) {
        fake.variables = 0;
    }
}

MicroInterpreter::~MicroInterpreter() { ++fake.destroyed; }

TfLiteStatus MicroInterpreter::AllocateTensors() { return fake.allocate_fails ? kTfLiteError : kTfLiteOk; }

TfLiteStatus MicroInterpreter::Invoke()
{
    ++fake.invoked;
    return fake.invoke_fails ? kTfLiteError : kTfLiteOk;
}

TfLiteStatus MicroInterpreter::Reset()
{
    ++fake.reset;
    return fake.reset_fails ? kTfLiteError : kTfLiteOk;
}

TfLiteTensor *MicroInterpreter::input(size_t index)
{
    return index < fake.input_count ? &fake.inputs[index] : nullptr;
}

TfLiteTensor *MicroInterpreter::output(size_t index)
{
    return index < fake.output_count ? &fake.outputs[index] : nullptr;
}

size_t MicroInterpreter::inputs_size() const { return fake.input_count; }
size_t MicroInterpreter::outputs_size() const { return fake.output_count; }
size_t MicroInterpreter::arena_used_bytes() const { return allocator.used_bytes(); }

void InitializeTarget() { ++fake.targets; }

}  // namespace tflite

void MicroPrintf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    puts("");
}
