"""Generated C: a model as tables and kernels, without an interpreter."""
