#ifndef TFLM_API_SCHEMA_H
#define TFLM_API_SCHEMA_H

#include <stdint.h>

namespace tflite {

struct Model {
    uint32_t version() const;
};

const Model *GetModel(const void *buf);

}  // namespace tflite

#endif
