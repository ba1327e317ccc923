"""An instance: the layout problem that a text states, and enough of the text to tell of it and to answer it."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.errors import InvalidModelError
from edgetool.memory.problem import LayoutProblem

# What one row may state, and all rows together: sums of sizes stay below 2**63, as CP-SAT and C programs have them.
MAX_NUMBER = 2**62
MAX_ALIGNMENT = 2**32
MAX_TOTAL_BYTES = 2**63 - 1
MAX_ROWS = 1_000_000
MAX_NAME_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a CSV as text, their columns, and the row of the file in which each stands (the header is row 1)."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor of a graph. offsets: its pin; of a constant one for each use, or one for all."""

    name: str
    size: int
    alignment: int
    offsets: tuple[int, ...] = ()
    constant: bool = False
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """An operator and the tensors that it reads and writes, by index; told is its place in the list, and its name."""

    name: str
    told: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Tensors, and operators in the order in which they run. document is the JSON value that states them.

    inputs are written before the first operator; outputs are wanted after the last.
    """

    tensors: tuple[GraphTensor, ...]
    operators: tuple[GraphOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    document: dict[str, object]


@dataclass(frozen=True, slots=True)
class Instance:
    """A layout problem and the text that states it; the buffers of a graph name their tensor by index."""

    problem: LayoutProblem
    source: Table | Graph

    def told(self, index: int) -> str:
        """A buffer as a person finds it in the file: its row or tensor, and its name."""
        buffer = self.problem.buffers[index]
        name = f"{buffer.name[:MAX_NAME_SHOWN]!a}"
        if isinstance(self.source, Table):
            return f"row {self.source.rows[index]} ({name})"
        return f"tensor {buffer.tensor} ({name})"

    def moment(self, position: int) -> str:
        """A time of the CSV, or an operator of the graph."""
        if isinstance(self.source, Table):
            return f"at time {position}"
        if position < 0:
            return "before the first operator"
        if position >= len(self.source.operators):
            return "after the last operator"
        return f"at {self.source.operators[position].told}"


def invalid(what: str, fix: str | None = None, details: tuple[str, ...] = ()) -> InvalidModelError:
    """The error of an instance that is not valid, to be raised."""
    return InvalidModelError(what, fix=fix, details=details)
