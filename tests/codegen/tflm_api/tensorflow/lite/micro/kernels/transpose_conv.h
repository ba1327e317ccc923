#ifndef TFLM_API_TRANSPOSE_CONV_H
#define TFLM_API_TRANSPOSE_CONV_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_TRANSPOSE_CONV_INT8)

#endif
