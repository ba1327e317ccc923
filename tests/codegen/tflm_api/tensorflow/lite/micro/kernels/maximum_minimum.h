#ifndef TFLM_API_MAXIMUM_MINIMUM_H
#define TFLM_API_MAXIMUM_MINIMUM_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_MAXIMUM_INT8)
TFLM_API_REGISTRATION(Register_MINIMUM_INT8)

#endif
