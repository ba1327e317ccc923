"""Broken and odd model files by the million, through everything that follows a .tflite."""
