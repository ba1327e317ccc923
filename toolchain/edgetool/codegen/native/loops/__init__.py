"""Loop counts of the kernels of native code, from which their executed instructions are estimated."""
