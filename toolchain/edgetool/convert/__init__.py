"""Keras and SavedModel to .tflite, always in a child process."""
