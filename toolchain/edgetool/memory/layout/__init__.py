"""The search for the lowest layout of buffers."""
