#ifndef TFLM_API_BATCH_MATMUL_H
#define TFLM_API_BATCH_MATMUL_H

#include "tensorflow/lite/micro/kernels/registration.h"

TFLM_API_REGISTRATION(Register_BATCH_MATMUL_INT8)
TFLM_API_REGISTRATION(Register_BATCH_MATMUL_INT16)

#endif
