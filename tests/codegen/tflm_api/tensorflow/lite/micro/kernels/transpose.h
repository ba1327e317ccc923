#ifndef TFLM_API_TRANSPOSE_H
#define TFLM_API_TRANSPOSE_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_TRANSPOSE_INT8)

#endif
