#ifndef TFLM_API_SOFTMAX_H
#define TFLM_API_SOFTMAX_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_SOFTMAX_INT8)
TFLM_API_REGISTRATION(Register_SOFTMAX_INT8_INT16)
TFLM_API_REGISTRATION(Register_SOFTMAX_INT16)

#endif
