"""What a model remembers from one invocation to the next."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.model.types import Graph, Model
from edgetool.operators.kernel import arena_bytes
from edgetool.operators.prepare.control import resource_variables


@dataclass(frozen=True, slots=True)
class CarriedState:
    """What lives from one invocation to the next; false when nothing does.

    tensors: (name, bytes) of the variable tensors whose old contents an invocation reads. resources: how many resource
    variables there are, of which any may be read before it is written.
    """

    tensors: tuple[tuple[str, int], ...]
    resources: int = 0

    def __bool__(self) -> bool:
        return bool(self.tensors or self.resources)

    @property
    def tensor_bytes(self) -> int:
        """The bytes of the variable tensors."""
        return sum(size for _, size in self.tensors)


def carried_state(model: Model) -> CarriedState:
    """The state that a model carries; a variable that the model itself sets before it reads it is none."""
    found = tuple(
        (graph.tensors[index].name, arena_bytes(graph.tensors[index]))
        for graph in model.subgraphs
        for index in _read_first(graph)
    )
    return CarriedState(found, len(resource_variables(model)))


def _read_first(graph: Graph) -> list[int]:
    """The variable tensors that an operator takes before any has written them, in the order of their first reading."""
    known: dict[int, bool] = {}
    for operator in graph.operators:
        for index in operator.inputs:
            if index >= 0 and graph.tensors[index].is_variable:
                known.setdefault(index, True)
        for index in operator.outputs:
            if graph.tensors[index].is_variable:
                known.setdefault(index, False)
    return [index for index, read in known.items() if read]
