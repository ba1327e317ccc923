"""The layout problem of a file, with the part of the file that messages and the answer need."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.errors import InvalidModelError
from edgetool.memory.problem import LayoutProblem

# The limits of one row, and of all rows together: sums of sizes are below 2**63, as in CP-SAT and in C.
MAX_NUMBER = 2**62
MAX_ALIGNMENT = 2**32
MAX_TOTAL_BYTES = 2**63 - 1
MAX_ROWS = 1_000_000
MAX_NAME_SHOWN = 60


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The cells of a CSV as text, its columns, and the row number of each in the file (the header is row 1)."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor of a graph. offsets: its pin; for a constant, one per use, or one for all uses."""

    name: str
    size: int
    alignment: int
    offsets: tuple[int, ...] = ()
    constant: bool = False
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """An operator, with the indices of the tensors that it reads and writes; label is its position in the list and its
    name.
    """

    name: str
    label: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorGraph:
    """Tensors, and operators in execution order. document is the JSON value that they were read from.

    inputs are written before the first operator; outputs are needed after the last one.
    """

    tensors: tuple[GraphTensor, ...]
    operators: tuple[GraphOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    document: dict[str, object]


@dataclass(frozen=True, slots=True)
class InstanceFile:
    """A layout problem and its source; the buffers of a graph contain the index of their tensor."""

    problem: LayoutProblem
    source: CsvTable | TensorGraph

    def describe(self, index: int) -> str:
        """Return the row or tensor of a buffer in the file, and its name."""
        buffer = self.problem.buffers[index]
        name = f"{buffer.name[:MAX_NAME_SHOWN]!a}"
        if isinstance(self.source, CsvTable):
            return f"row {self.source.rows[index]} ({name})"
        return f"tensor {buffer.tensor} ({name})"

    def moment(self, position: int) -> str:
        """Return the time in the CSV, or the operator of the graph."""
        if isinstance(self.source, CsvTable):
            return f"at time {position}"
        if position < 0:
            return "before the first operator"
        if position >= len(self.source.operators):
            return "after the last operator"
        return f"at {self.source.operators[position].label}"


def invalid(what: str, fix: str | None = None, details: tuple[str, ...] = ()) -> InvalidModelError:
    """Return the error for an invalid instance."""
    return InvalidModelError(what, fix=fix, details=details)
