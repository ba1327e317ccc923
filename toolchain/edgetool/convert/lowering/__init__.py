"""Lowering: before the converter traces a Keras model, layers that TFLM could not run get a call that it can."""
