"""The time, memory traffic and energy of an inference."""
