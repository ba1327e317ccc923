"""Passes: rewrites of a .tflite graph into operators that the runtime supports, without a change of its results."""
