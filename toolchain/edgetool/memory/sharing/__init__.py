"""Whole buffers shared by tensors, for runtimes without an arena of offsets."""
