"""Differences between the kernels of TFLM: generated one-operator models on emulated cores."""
