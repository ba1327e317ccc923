"""Lifetimes, layout, lower bound, the checker and the offline plan."""
