"""All models of the zoo, by name. Needs no TensorFlow until one is built."""

from __future__ import annotations

from benchmarks.zoo import (
    activations,
    applications,
    applied,
    classics,
    convolutions,
    formats,
    layers,
    operations,
    preprocessing,
    recurrent,
)
from benchmarks.zoo.entry import CI, Entry

ENTRIES: tuple[Entry, ...] = (
    *activations.ENTRIES,
    *convolutions.ENTRIES,
    *layers.ENTRIES,
    *preprocessing.ENTRIES,
    *recurrent.ENTRIES,
    *classics.ENTRIES,
    *applied.ENTRIES,
    *operations.ENTRIES,
    *formats.ENTRIES,
    *applications.ENTRIES,
)
BY_NAME = {entry.name: entry for entry in ENTRIES}


def cheap() -> tuple[Entry, ...]:
    """Those that a test has time for."""
    return tuple(entry for entry in ENTRIES if entry.runs == CI)
