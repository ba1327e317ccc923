/* How kernels for only some types are registered: TFLM's headers define such a function whether it is an alias or not. */
#ifndef TFLM_API_REGISTRATION_H
#define TFLM_API_REGISTRATION_H

#include "tensorflow/lite/c/common.h"

#define TFLM_API_REGISTRATION(function) \
    namespace tflite { \
    inline TFLMRegistration function() \
    { \
        TFLMRegistration registration = {#function}; \
        return registration; \
    } \
    }

#endif
