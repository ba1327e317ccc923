"""One-operator models, generated from seeds: a module per operator family, a generator per operator and type.

A generator draws sizes and options that reach both sides of the branches of its kernels: batches above 1, groups,
dilations, absent biases, sizes of 1, every rank. It may draw what a kernel's Prepare rejects; such models count as
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from random import Random

from edgetool.model.types import Model

Generator = Callable[[Random], Model]
# Generators by operator and type; the type is that of the activations, with that of the weights after a hyphen if it
# is not the usual one ("int8-int4").
Generators = Mapping[tuple[str, str], Generator]


@dataclass(frozen=True, slots=True)
class Case:
    """One generated model: its operator, its type, and the number from which it is drawn."""

    operator: str
    type: str
    number: int

    @property
    def seed(self) -> str:
        """The seed of the model and of its inputs."""
        return f"{self.operator}/{self.type}/{self.number}"

    def model(self) -> Model:
        """Return the model, which is the same on every machine."""
        return generators()[self.operator, self.type](Random(self.seed))


@cache
def generators() -> dict[tuple[str, str], Generator]:
    """Return the generators of all families, sorted by operator and type."""
    found: dict[tuple[str, str], Generator] = {}
    for module in iter_modules(__path__):
        found.update(getattr(import_module(f"{__name__}.{module.name}"), "GENERATORS", {}))
    return dict(sorted(found.items()))
