/* TFLM's types, as far as the emitted C++ uses them. */
#ifndef TFLM_API_COMMON_H
#define TFLM_API_COMMON_H

#include <stddef.h>
#include <stdint.h>

typedef enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 } TfLiteStatus;

typedef enum {
    kTfLiteNoType = 0,
    kTfLiteFloat32 = 1,
    kTfLiteInt32 = 2,
    kTfLiteUInt8 = 3,
    kTfLiteInt64 = 4,
    kTfLiteString = 5,
    kTfLiteBool = 6,
    kTfLiteInt16 = 7,
    kTfLiteComplex64 = 8,
    kTfLiteInt8 = 9,
    kTfLiteFloat16 = 10,
    kTfLiteFloat64 = 11,
    kTfLiteComplex128 = 12,
    kTfLiteUInt64 = 13,
    kTfLiteResource = 14,
    kTfLiteVariant = 15,
    kTfLiteUInt32 = 16,
    kTfLiteUInt16 = 17,
    kTfLiteInt4 = 18,
    kTfLiteBFloat16 = 19,
    kTfLiteInt2 = 20,
    kTfLiteUInt4 = 21,
    kTfLiteFloat8E4M3FN = 22,
    kTfLiteFloat8E5M2 = 23
} TfLiteType;

typedef union TfLitePtrUnion {
    int8_t *int8;
    char *raw;
    void *data;
} TfLitePtrUnion;

typedef struct TfLiteTensor {
    TfLitePtrUnion data;
    size_t bytes;
    TfLiteType type;
} TfLiteTensor;

typedef struct TFLMRegistration {
    const char *custom_name;
} TFLMRegistration;

#endif
