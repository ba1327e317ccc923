#ifndef TFLM_API_TIME_H
#define TFLM_API_TIME_H

#include <stdint.h>

namespace tflite {

uint32_t ticks_per_second();
uint32_t GetCurrentTimeTicks();

}  // namespace tflite

#endif
