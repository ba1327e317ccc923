#ifndef TFLM_API_ADD_H
#define TFLM_API_ADD_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_ADD_INT8)
TFLM_API_REGISTRATION(Register_ADD_INT16)

#endif
