#ifndef TFLM_API_PROFILER_H
#define TFLM_API_PROFILER_H

#include <stdint.h>

namespace tflite {

class MicroProfilerInterface {
  public:
    virtual ~MicroProfilerInterface() {}
    virtual uint32_t BeginEvent(const char *tag) = 0;
    virtual void EndEvent(uint32_t event_handle) = 0;
};

}  // namespace tflite

#endif
