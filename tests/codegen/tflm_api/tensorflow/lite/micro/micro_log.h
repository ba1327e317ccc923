#ifndef TFLM_API_LOG_H
#define TFLM_API_LOG_H

void MicroPrintf(const char *format, ...);

#endif
