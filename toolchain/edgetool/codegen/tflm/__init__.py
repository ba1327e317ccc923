"""C++ files that run models on TensorFlow Lite Micro."""
