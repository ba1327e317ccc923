#ifndef TFLM_API_SYSTEM_SETUP_H
#define TFLM_API_SYSTEM_SETUP_H

namespace tflite {

void InitializeTarget();

}  // namespace tflite

#endif
