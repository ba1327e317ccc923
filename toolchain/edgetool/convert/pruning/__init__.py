"""Structured pruning of Keras models: channels are removed, not set to zero. In the child process only."""

from edgetool.convert.pruning.prune import LeftAlone, Pruned, prune

__all__ = ["LeftAlone", "Pruned", "prune"]
