"""Measurements of native code: bits, stack, flash, coverage, emulated cores."""
