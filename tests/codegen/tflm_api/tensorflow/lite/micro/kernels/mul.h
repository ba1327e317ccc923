#ifndef TFLM_API_MUL_H
#define TFLM_API_MUL_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_MUL_INT8)

#endif
