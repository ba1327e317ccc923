"""Runs models on LiteRT and on TensorFlow Lite Micro, in a child process."""
