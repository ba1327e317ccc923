#ifndef TFLM_API_SVDF_H
#define TFLM_API_SVDF_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_SVDF_INT8)

#endif
