"""edgetool: from a Keras model to TensorFlow Lite Micro firmware files."""

__version__ = "0.1.0"
