"""Executed instructions of TFLM's kernels: what was counted, and the tables that follow from it."""
