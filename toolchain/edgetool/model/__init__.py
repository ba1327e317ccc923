"""Models: the .tflite reader and writer, and the types that they share."""
