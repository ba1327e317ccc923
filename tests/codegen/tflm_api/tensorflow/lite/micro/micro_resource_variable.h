#ifndef TFLM_API_RESOURCE_VARIABLE_H
#define TFLM_API_RESOURCE_VARIABLE_H

#include "tensorflow/lite/micro/micro_allocator.h"

namespace tflite {

class MicroResourceVariables {
  public:
    static MicroResourceVariables *Create(MicroAllocator *allocator, int num_variables);
};

}  // namespace tflite

#endif
