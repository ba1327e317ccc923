"""When each tensor is alive in the arena, as TFLM's AllocationInfoBuilder marks it.

Source: tensorflow/lite/micro/micro_allocation_info.cc. TFLM numbers allocation scopes: 0 before the
first operator, one more for each operator and for each subgraph that a control-flow operator enters, in
depth-first order. A position here is that number less one, so that without control flow it is the
operator's index, and -1 the time before the first operator. An input that no operator reads lives at -1
alone: TFLM lets the first operator write over it.

What a model remembers from one invocation to the next.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from edgetool.errors import UnsupportedModelError
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime
from edgetool.model.types import Graph, Model, Operator, Tensor
from edgetool.operators.call import arena_bytes
from edgetool.operators.control import resource_variables

# Tensors that no operator and no graph interface mentions: TFLM plans them all the same.
DEAD = Lifetime(-2, -2)

# The subgraphs that a control-flow operator runs, as fields of its option table, in TFLM's order.
CALLED_SUBGRAPHS: dict[str, tuple[str, ...]] = {
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
    "CALL_ONCE": ("init_subgraph_index",),
}

# Subgraphs may be entered many times; beyond this no device would finish, and a hostile file never ends.
MAX_MARKS = 1_000_000
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lifetimes by (subgraph, tensor), and the positions at which each (subgraph, operator) runs.

    A control-flow operator runs as long as the subgraphs that it enters; one that is entered several times runs
    from its first to its last time.
    """

    lifetimes: dict[tuple[int, int], Lifetime]
    operators: dict[tuple[int, int], Lifetime]


def needs_planning(tensor: Tensor) -> bool:
    """Whether the tensor lies in the head: no constant, no variable (those are persistent), not empty."""
    return tensor.data is None and not tensor.is_variable and arena_bytes(tensor) > 0


def called_subgraphs(operator: Operator) -> tuple[int, ...]:
    """The subgraphs that the operator runs, in TFLM's order; empty for all but control flow."""
    options = operator.options
    if options is None:
        return ()
    return tuple(options.integer(name) for name in CALLED_SUBGRAPHS.get(operator.code, ()))


def timeline(model: Model) -> Timeline:
    """The lifetimes of every tensor that an operator or a graph interface mentions.

    Raises UnsupportedModelError when subgraphs call each other in a circle or too often, and for an operator whose
    sizes are known only when the model runs and do not go together as the file has them: TFLM calculates none.
    """
    marks = _Marks()
    _mark_subgraph(model, 0, marks, ())
    return Timeline(
        {
            # What an operator reads and nothing creates is alive before everything else.
            key: Lifetime(_position(marks.first[key]) if key in marks.first else DEAD.first, _position(last))
            for key, last in marks.last.items()
        },
        {key: Lifetime(_position(start), _position(end)) for key, (start, end) in marks.spans.items()},
    )


def layout_problem(
    model: Model, times: Timeline, *, scratch: tuple[Buffer, ...] = (), fixed: Collection[tuple[int, int]] = ()
) -> LayoutProblem:
    """The buffers of the head in TFLM's creation order: tensors, then scratch.

    fixed: (subgraph, tensor) that an offline plan gives an offset; variables among them move to the head, too.
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
    """Tensors that VAR_HANDLE makes: its Prepare points them at memory of its own (var_handle.cc)."""
    return frozenset(op.outputs[0] for op in graph.operators if op.code == "VAR_HANDLE" and op.outputs)


@dataclass(slots=True)
class _Marks:
    scope: int = 0
    count: int = 0
    first: dict[tuple[int, int], int] = field(default_factory=dict)
    last: dict[tuple[int, int], int] = field(default_factory=dict)
    spans: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def create(self, key: tuple[int, int]) -> None:
        self.pay()
        self.first.setdefault(key, self.scope)

    def use(self, key: tuple[int, int]) -> None:
        self.pay()
        self.last[key] = self.scope

    def run(self, key: tuple[int, int], start: int) -> None:
        first, _ = self.spans.get(key, (start, start))
        self.spans[key] = (first, self.scope)

    def enter_scope(self) -> None:
        self.scope += 1
        self.pay()

    def pay(self) -> None:
        self.count += 1
        if self.count > MAX_MARKS:
            raise UnsupportedModelError(
                f"its subgraphs access more than {MAX_MARKS:,} operators and tensors, counting every call",
                fix="flatten the control flow of the model",
            )


def _position(scope: int) -> int:
    return scope - 1


def _mark_subgraph(model: Model, index: int, marks: _Marks, callers: tuple[int, ...]) -> None:
    """Mark one entry of a subgraph."""
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
        if operator.unsettled:
            raise UnsupportedModelError(
                f"{operator.unsettled}: sizes are known only when the model runs, and TFLM does not compute them",
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
