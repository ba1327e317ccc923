"""Where things are in the sound file, and the numbers that are put there."""

from __future__ import annotations

from tests.model.attacks import Path

GRAPH: Path = ("subgraphs", 0)
INPUT: Path = (*GRAPH, "tensors", 0)
WEIGHTS: Path = (*GRAPH, "tensors", 1)
OPERATOR: Path = (*GRAPH, "operators", 0)
ROOT: Path = ()
MOST = 2**31 - 1
LEAST = -(2**31)
MAX_UNSIGNED = 2**32 - 1
