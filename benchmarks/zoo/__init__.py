"""A zoo of Keras models: what people train, built here with random weights, to be converted and run on real TFLM."""
