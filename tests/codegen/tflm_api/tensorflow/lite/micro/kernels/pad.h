#ifndef TFLM_API_PAD_H
#define TFLM_API_PAD_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_PAD_INT8)

#endif
