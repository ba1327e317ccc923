"""Lowering: replace calls of Keras layers that TFLM could not run, before the converter traces the model."""
