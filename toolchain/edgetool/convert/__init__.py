"""Conversion of Keras models and SavedModels to .tflite, always in a child process."""
