#ifndef TFLM_API_CONV_H
#define TFLM_API_CONV_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_CONV_2D_INT4)
TFLM_API_REGISTRATION(Register_CONV_2D_INT8)
TFLM_API_REGISTRATION(Register_CONV_2D_INT16)

#endif
