"""What edgetool reports about the kernels of a model, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.memory.account import prepare
from edgetool.model.types import Model
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.legality import kernel_faults, unsupported_operators
from edgetool.operators.registry import loop_counts_of
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

# The targets of the emulated cores, by the name of the core in the measurements.
TARGETS = {"m3": "cortex-m3", "m7": "cortex-m7", "m55": "cortex-m55"}


def predictions(model: Model, target: Target) -> tuple[str, ...]:
    """Return the rules of the findings that the operators of a model cause, and the names of kernel faults.

    A fault is only looked for if the runtime accepts the model.
    """
    found = list(_rejections(model, target))
    return tuple(dict.fromkeys(found or _faults(model, target)))


def _rejections(model: Model, target: Target) -> Iterator[str]:
    for item in unsupported_operators(model, target.runtime, None, kernels=target.kernels):
        yield f"operator-{item.kind}"
    yield from (
        "kernel-refuses" for item in prepare(model, platform_of(target)).unaccounted if item.refusal is not None
    )


def _faults(model: Model, target: Target) -> Iterator[str]:
    platform = platform_of(target)
    yield from (fault.name for _, _, fault in kernel_faults(model, platform))
    for graph in model.subgraphs:
        for operator in graph.operators:
            try:
                counts = loop_counts_of(Call(model, graph, operator, platform, {}))
            except KernelRefusal:
                continue
            if counts is not None and counts.gives_up:
                yield "kernel-gives-up"


def target_of(core: str) -> Target:
    """Return the target of an emulated core, with its usual kernels."""
    return load_target(TARGETS[core])
