"""What a model is: the .tflite reader and writer, and the types they share."""
