"""The problem of planning rows, and a plan, as values.

Every tensor is a number of rows, and every operator a number of firings, each of which is one call of its kernel. A
plan is a schedule, which states which operator fires at each step, and an offset for each row. An operator fires in the
order of its firings, so that the schedule is a sequence of operators.

Rows have numbers of their own across all tensors: row i of tensor t is `problem.first_row(t) + i`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from edgetool.memory.problem import ArenaPart, LowestLayout, Memory, SeveralLayout

NO_SCRATCH = -1


@dataclass(frozen=True, slots=True)
class RowTensor:
    """A tensor as rows of the same size.

    Attributes:
        name: For messages and pictures.
        rows: The number of rows.
        row_bytes: The size of each.
        group: How many rows must lie behind each other: rows 0 to group - 1, and so on. `rows` for a tensor that is
            read or written as a whole.
        alignment: What offsets of groups are multiples of.
        given: Whether its rows exist before the first step: an input that the application writes as a whole, or state.
        kept: Whether its rows must exist after the last step: an output, or state.
        tensor: The index in the model's main graph, -1 for one that only the plan has.
        computed: How many of the last rows of a given tensor do not exist before the first step, but are computed: the
            first ones are what a stream keeps from the step before.
    """

    name: str
    rows: int
    row_bytes: int
    group: int = 1
    alignment: int = 1
    given: bool = False
    kept: bool = False
    tensor: int = -1
    computed: int = 0


@dataclass(frozen=True, slots=True)
class Firing:
    """One call of a kernel: the rows that it reads and writes, by number.

    overlaps: for rows that it reads, how the rows that it writes may share bytes with them if nothing needs them later:
    offset(row read) - offset(first row written) must be at least the distance. A later row that is written counts as if
    the first one were in front of it, as rows of a group are. Others must be disjoint.

    scratch_bytes: memory that it needs for itself, aligned to 4.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    overlaps: tuple[tuple[int, int], ...] = ()
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RowOperator:
    """An operator as firings.

    accumulates: every firing updates the same rows, which are complete after the last one; the first one does not read
    them. weight_bytes: the constants that each firing may read.
    """

    name: str
    firings: tuple[Firing, ...]
    accumulates: bool = False
    weight_bytes: int = 0

    @property
    def scratch_bytes(self) -> int:
        """The largest scratch of a firing."""
        return max([firing.scratch_bytes for firing in self.firings], default=0)


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Tensors and operators, in an order in which operators can run one after the other.

    sequential: operators must run in this order, each as a whole, because state connects them.
    """

    tensors: tuple[RowTensor, ...]
    operators: tuple[RowOperator, ...]
    sequential: bool = False
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(accumulate((item.rows for item in self.tensors), initial=0)))

    def __hash__(self) -> int:
        """Return a hash of the tensors: one of all firings would take longer than plans that are known save."""
        return hash((self.tensors, len(self.operators)))

    @property
    def row_count(self) -> int:
        """The number of rows of all tensors."""
        return self._starts[-1]

    def first_row(self, tensor: int) -> int:
        """Return the number of a tensor's first row."""
        return self._starts[tensor]

    def rows_of(self, tensor: int) -> range:
        """Return the numbers of a tensor's rows."""
        return range(self._starts[tensor], self._starts[tensor + 1])

    def given_rows(self) -> Iterator[int]:
        """Yield the numbers of the rows that exist before the first step."""
        for index, tensor in enumerate(self.tensors):
            if tensor.given:
                yield from self.rows_of(index)[: tensor.rows - tensor.computed]

    def tensor_of_rows(self) -> list[int]:
        """Return the tensor of each row."""
        return [index for index, tensor in enumerate(self.tensors) for _ in range(tensor.rows)]

    def row_sizes(self) -> list[int]:
        """Return the bytes of each row."""
        return [tensor.row_bytes for tensor in self.tensors for _ in range(tensor.rows)]


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A schedule with an offset for each row, and for the scratch of each firing.

    Attributes:
        schedule: The operator that fires at each step.
        offsets: The offset of each row.
        scratch: For each operator, the offset of the scratch of each firing, NO_SCRATCH for those without; empty if no
            firing has any.
        memory_bytes: The size of the memory.
        lower_bound: No schedule of the same firings takes fewer bytes.
        parts: Those of an arena in several memories, one behind the other. All rows of a tensor are in one of them, and
            so is the scratch of an operator. Nothing if the arena is one array.
    """

    schedule: tuple[int, ...]
    offsets: tuple[int, ...]
    scratch: tuple[tuple[int, ...], ...]
    memory_bytes: int
    lower_bound: int = 0
    parts: tuple[ArenaPart, ...] = ()

    @property
    def gap(self) -> float:
        """How much more the plan takes than the bound, as a share of the bound."""
        return self.memory_bytes / self.lower_bound - 1 if self.lower_bound else 0.0


@dataclass(frozen=True, slots=True)
class SeveralRows:
    """A plan of rows in one memory, the memories that its items may be in instead, and what they cost there.

    costs: of each tensor in each memory, then those of the scratch of each operator; None where it cannot be.
    """

    problem: RowProblem
    plan: RowPlan
    memories: tuple[Memory, ...]
    costs: tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """A plan whose memory has parts, and the choice behind it.

    choice: the memory of each item, the lowest offset of an item there, and the height of each memory. An item that is
    never live has no bytes. lowest: the same, if the bytes in one memory were minimized.
    """

    plan: RowPlan
    choice: SeveralLayout
    lowest: LowestLayout | None = None


def steps_of(problem: RowProblem, schedule: tuple[int, ...]) -> Iterator[tuple[int, Firing]]:
    """Return the operator and the firing of each step."""
    fired = [0] * len(problem.operators)
    for operator in schedule:
        yield operator, problem.operators[operator].firings[fired[operator]]
        fired[operator] += 1
