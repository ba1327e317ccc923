"""The lifetime of each tensor in the arena, as TFLM's AllocationInfoBuilder marks it, and the state between inferences.

Source: tensorflow/lite/micro/micro_allocation_info.cc. TFLM numbers allocation scopes: 0 before the first operator, and
one more for each operator and for each subgraph that a control-flow operator enters, in depth-first order. A position
here is that number minus one, so that without control flow it is the operator's index, and -1 is the time before the
first operator. An input that no operator reads is live at -1 only: TFLM lets the first operator overwrite it.

Recurrent state is the contents of variable tensors and resource variables that an inference reads before it writes
them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from edgetool.errors import UnsupportedModelError
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime
from edgetool.model.types import Graph, Model, Operator, Tensor
from edgetool.operators.call import arena_bytes
from edgetool.operators.control import resource_variables

# Tensors that no operator and no graph interface uses: TFLM plans them nevertheless.
DEAD = Lifetime(-2, -2)

# The subgraphs that a control-flow operator runs, as fields of its option table, in TFLM's order.
CALLED_SUBGRAPHS: dict[str, tuple[str, ...]] = {
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
    "CALL_ONCE": ("init_subgraph_index",),
}

# Subgraphs may be called many times; beyond this, no device would finish, and a hostile file might never end.
MAX_MARKS = 1_000_000
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lifetimes by (subgraph, tensor), and the positions at which each (subgraph, operator) runs.

    A control-flow operator runs as long as the subgraphs that it enters; an operator that runs several times counts
    from its first to its last run.
    """

    lifetimes: dict[tuple[int, int], Lifetime]
    operators: dict[tuple[int, int], Lifetime]


def needs_planning(tensor: Tensor) -> bool:
    """Return whether the tensor is in the head: it is no constant, no (persistent) variable, and not empty."""
    return tensor.data is None and not tensor.is_variable and arena_bytes(tensor) > 0


def called_subgraphs(operator: Operator) -> tuple[int, ...]:
    """Return the subgraphs that the operator runs, in TFLM's order; empty for all but control flow."""
    options = operator.options
    if options is None:
        return ()
    return tuple(options.integer(name) for name in CALLED_SUBGRAPHS.get(operator.code, ()))


def timeline(model: Model) -> Timeline:
    """Return the lifetime of every tensor that an operator or a graph interface uses.

    Raises UnsupportedModelError if subgraphs call each other in a cycle or too often, and for an operator whose sizes
    are known only when the model runs and contradict the file: TFLM does not compute them.
    """
    marks = _Marks()
    _mark_subgraph(model, 0, marks, ())
    return Timeline(
        {
            # A tensor that is read but never created is live before everything else.
            key: Lifetime(_position(marks.first[key]) if key in marks.first else DEAD.first, _position(last))
            for key, last in marks.last.items()
        },
        {key: Lifetime(_position(start), _position(end)) for key, (start, end) in marks.spans.items()},
    )


def layout_problem(
    model: Model, times: Timeline, *, scratch: tuple[Buffer, ...] = (), fixed: Collection[tuple[int, int]] = ()
) -> LayoutProblem:
    """Return the buffers of the head in TFLM's order of creation: tensors, then scratch buffers.

    fixed: (subgraph, tensor) to which an offline plan gives an offset; variables among them move to the head, too.
    """
    tensors = (
        Buffer(
            subgraph=graph.index,
            tensor=tensor.index,
            name=tensor.name,
            size_bytes=arena_bytes(tensor),
            lifetime=times.lifetimes.get((graph.index, tensor.index), DEAD),
        )
        for graph in model.subgraphs
        for handles in (_variable_handles(graph),)
        for tensor in graph.tensors
        if (needs_planning(tensor) and tensor.index not in handles)
        or (tensor.is_variable and (graph.index, tensor.index) in fixed)
    )
    return LayoutProblem((*tensors, *scratch))


def _variable_handles(graph: Graph) -> frozenset[int]:
    """Return the tensors that VAR_HANDLE writes: its Prepare gives them separate memory (var_handle.cc)."""
    return frozenset(op.outputs[0] for op in graph.operators if op.code == "VAR_HANDLE" and op.outputs)


@dataclass(slots=True)
class _Marks:
    scope: int = 0
    count: int = 0
    first: dict[tuple[int, int], int] = field(default_factory=dict)
    last: dict[tuple[int, int], int] = field(default_factory=dict)
    spans: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def create(self, key: tuple[int, int]) -> None:
        self.count_mark()
        self.first.setdefault(key, self.scope)

    def use(self, key: tuple[int, int]) -> None:
        self.count_mark()
        self.last[key] = self.scope

    def run(self, key: tuple[int, int], start: int) -> None:
        first, _ = self.spans.get(key, (start, start))
        self.spans[key] = (first, self.scope)

    def enter_scope(self) -> None:
        self.scope += 1
        self.count_mark()

    def count_mark(self) -> None:
        self.count += 1
        if self.count > MAX_MARKS:
            raise UnsupportedModelError(
                f"its subgraphs access more than {MAX_MARKS:,} operators and tensors, counting every call",
                fix="flatten the control flow of the model",
            )


def _position(scope: int) -> int:
    return scope - 1


def _mark_subgraph(model: Model, index: int, marks: _Marks, callers: tuple[int, ...]) -> None:
    """Mark one call of a subgraph."""
    if index in callers:
        raise UnsupportedModelError(
            "the subgraph calls itself, which TFLM cannot run",
            where=f"subgraph {index}",
            fix="unroll the recursion in the model",
        )
    if len(callers) >= MAX_DEPTH:
        raise UnsupportedModelError(
            f"subgraph calls are nested more than {MAX_DEPTH} levels deep",
            where=f"subgraph {index}",
            fix="flatten the control flow of the model",
        )
    graph: Graph = model.subgraphs[index]
    for tensor in graph.inputs:
        marks.create((index, tensor))
        marks.use((index, tensor))
    for operator in graph.operators:
        if operator.shape_conflict:
            raise UnsupportedModelError(
                f"{operator.shape_conflict}: sizes are known only when the model runs, and TFLM does not compute them",
                where=f"subgraph {index} operator {operator.index}",
                fix="convert the model again with fixed shapes",
            )
        marks.enter_scope()
        start = marks.scope
        for tensor in operator.outputs:
            marks.create((index, tensor))
        for called in called_subgraphs(operator):
            marks.enter_scope()
            _mark_subgraph(model, called, marks, (*callers, index))
        for tensor in (*operator.inputs, *operator.outputs):
            if tensor >= 0:
                marks.use((index, tensor))
        marks.run((index, operator.index), start)
    for tensor in graph.outputs:
        marks.create((index, tensor))
        marks.use((index, tensor))


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """The state that persists from one inference to the next; false if there is none.

    tensors: (name, bytes) of the variable tensors whose old contents an inference reads. resources: the number of
    resource variables, any of which may be read before it is written.
    """

    tensors: tuple[tuple[str, int], ...]
    resources: int = 0

    def __bool__(self) -> bool:
        return bool(self.tensors or self.resources)

    @property
    def tensor_bytes(self) -> int:
        """The bytes of the variable tensors."""
        return sum(size for _, size in self.tensors)


def recurrent_state(model: Model) -> RecurrentState:
    """Return the recurrent state of a model, without the variables that the model itself sets before it reads them."""
    tensors = tuple(
        (graph.tensors[index].name, arena_bytes(graph.tensors[index]))
        for graph in model.subgraphs
        for index in _read_first(graph)
    )
    return RecurrentState(tensors, len(resource_variables(model)))


def _read_first(graph: Graph) -> list[int]:
    """Return the variable tensors that are read before any operator writes them, in order of their first read."""
    read_first: dict[int, bool] = {}
    for operator in graph.operators:
        for index in operator.inputs:
            if index >= 0 and graph.tensors[index].is_variable:
                read_first.setdefault(index, True)
        for index in operator.outputs:
            if graph.tensors[index].is_variable:
                read_first.setdefault(index, False)
    return [index for index, read in read_first.items() if read]
