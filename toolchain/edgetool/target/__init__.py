"""Devices: cores, boards, runtimes, and the strict loading of their profiles."""
