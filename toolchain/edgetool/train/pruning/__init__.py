"""Structured pruning of Keras models: channels are removed, not set to zero. In the child process only."""

from edgetool.train.pruning.prune import Pruned, UnprunedLayer, prune

__all__ = ["Pruned", "UnprunedLayer", "prune"]
