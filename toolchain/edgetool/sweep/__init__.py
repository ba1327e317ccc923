"""Sweeps: convert many variants of a model, and compare their quality and their cost on each target."""
