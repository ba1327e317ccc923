#include "tensorflow/lite/micro/micro_time.h"

namespace {

const char *const time_source = "tflm";
uint32_t overflows = 0;

/* The time reported by TFLM's port to this platform (micro_time.h). */
void start_ticks()
{
}

uint32_t read_ticks()
{
    return tflite::GetCurrentTimeTicks();
}

void stop_ticks()
{
}

}  // namespace
