"""Every variant that a sweep's lists make together."""

from __future__ import annotations

from itertools import product

from edgetool.sweep.spec import SweepSpec
from edgetool.sweep.variant import Variant


def grid(spec: SweepSpec) -> tuple[Variant, ...]:
    """All combinations: the builder's parameters first, in the order of the file, then level, precision and target,
    of which the last changes fastest."""
    parameters = spec.builder.parameters if spec.builder is not None else ()
    names = [name for name, _ in parameters]
    return tuple(
        Variant(tuple(zip(names, values, strict=True)), level, precision, target.label)
        for values in product(*(choices for _, choices in parameters))
        for level, precision, target in product(spec.pruning.levels, spec.precisions, spec.targets)
    )
