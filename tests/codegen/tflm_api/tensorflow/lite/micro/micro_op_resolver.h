#ifndef TFLM_API_OP_RESOLVER_H
#define TFLM_API_OP_RESOLVER_H

#include "tensorflow/lite/c/common.h"

namespace tflite {

class MicroOpResolver {
  public:
    virtual const TFLMRegistration *FindOp(const char *op) const = 0;
    virtual ~MicroOpResolver() {}
};

}  // namespace tflite

#endif
