"""Cores, boards and runtimes as data."""
