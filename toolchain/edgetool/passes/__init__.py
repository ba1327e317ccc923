"""Rewrites of a .tflite graph into operators that the runtime has."""
