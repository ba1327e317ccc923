"""The operators of TensorFlow Lite: one entry for each, with what its kernel requests and executes."""
