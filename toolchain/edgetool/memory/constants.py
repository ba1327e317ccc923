"""Constants as buffers, for firmware that loads them from slow memory when an operator needs them."""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.memory.lifetimes import Timeline
from edgetool.memory.types import Buffer
from edgetool.model.types import Model
from edgetool.operators.kernel import arena_bytes


def constant_buffers(model: Model, times: Timeline) -> Iterator[Buffer]:
    """One buffer for each use of a constant by an operator that runs, alive only there.

    A constant that two operators use is loaded twice. `operator` names the one for which it is loaded.
    """
    for graph in model.subgraphs:
        for operator in graph.operators:
            lifetime = times.operators.get((graph.index, operator.index))
            for index in dict.fromkeys(i for i in operator.inputs if i >= 0):
                tensor = graph.tensors[index]
                if lifetime is not None and tensor.is_constant and arena_bytes(tensor) > 0:
                    yield Buffer(graph.index, index, tensor.name, arena_bytes(tensor), lifetime, operator.index)
