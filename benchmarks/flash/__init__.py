"""Measure the flash of the emitted C++ firmware, linked with TFLM and CMSIS-NN, and check its outputs."""
