"""What is fed in: number N of a seed is always the same file, made from real and our own models."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from tests.model.builders import ALL, branches_model, chain_model
from tests.model.mutants import damaged, structure
from tests.model.structural_mutants import restructured

from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
MAX_SEED_BYTES = 400_000
DAMAGED_SHARE = 0.4  # of the inputs; the others are changed in their tables and written again
# One long model costs as much as a hundred short ones: drawn in turn with its operators and bytes, each costs the same.
BYTES_LIKE_AN_OPERATOR = 20_000


@dataclass(frozen=True)
class Seed:
    """A sound file, and what mutants of it are made from."""

    name: str
    blob: bytes

    @cached_property
    def places(self) -> list[int]:
        """The bytes that may be damaged: all but large constants."""
        return structure(self.blob)

    @cached_property
    def root(self) -> Record:
        """Its tables."""
        return read_root(self.blob, "Model", self.name)[0]

    @cached_property
    def weight(self) -> float:
        """How often it is taken."""
        operators = sum(len(graph.operators) for graph in read_model(self.blob).subgraphs)
        return 1 / (max(operators, 1) + len(self.blob) / BYTES_LIKE_AN_OPERATOR)

    def warm(self) -> None:
        """Work out what its mutants share."""
        _ = self.places, self.root


@dataclass(frozen=True)
class Inputs:
    """An endless list of files, the same for the same sound files and the same seed."""

    seeds: tuple[Seed, ...]
    seed: int = 1

    @cached_property
    def _sums(self) -> list[float]:
        return list(accumulate(item.weight for item in self.seeds))

    @cached_property
    def digest(self) -> str:
        """What the list is: runs are one run only where this agrees."""
        found = hashlib.sha256()
        for number in range(100):
            found.update(self[number])
        return found.hexdigest()[:16]

    def __getitem__(self, number: int) -> bytes:
        generator = random.Random(f"{self.seed} {number}")
        origin = generator.choices(self.seeds, cum_weights=self._sums)[0]
        if generator.random() < DAMAGED_SHARE:
            return damaged(origin.blob, origin.places, generator)
        return restructured(origin.root, generator)


def inputs(seed: int = 1, data: Path = DATA) -> Inputs:
    """Mutants of our own small models, of the examples', and of the real files where they are at hand."""
    return Inputs(tuple(_seeds(data)), seed)


def _seeds(data: Path) -> Iterator[Seed]:
    ours = {**ALL, "branches": branches_model, "chain": lambda: chain_model(12)}
    for name, make in ours.items():
        yield Seed(name, write_model(make()))
    real = [*ROOT.glob("examples/*/*.tflite"), *data.glob("models/*/*.tflite")]
    for path in sorted(real, key=lambda path: path.parts[-2:]):
        blob = path.read_bytes()
        if len(blob) <= MAX_SEED_BYTES:
            yield Seed("/".join(path.parts[-2:]), blob)
