"""A graph as JSON: tensors with sizes, and the operators that read and write them.

{"tensors": [{"name": "x", "size": 784}, {"name": "w", "size": 288, "constant": true}, ...],
     "operators": [{"name": "conv", "inputs": ["x", "w"], "outputs": ["y"]}, ...],
     "inputs": ["x"], "outputs": ["y"], "order": ["conv", ...], "alignment": 4}

Tensors may also be an object of name: size or name: entry. An entry may have alignment, offset (a pin), constant and
alias. Tensors and operators are referred to by name, or by index from 0. Any other key is an error, so that misspelled
keys are detected.

The lifetimes follow from the execution order: that of "order", or else of the list, sorted topologically.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Annotated

from msgspec import Meta

from edgetool.errors import MAX_PROBLEMS
from edgetool.memory.instances.types import (
    MAX_ALIGNMENT,
    MAX_NAME_SHOWN,
    MAX_NUMBER,
    MAX_ROWS,
    GraphOperator,
    GraphTensor,
    InstanceFile,
    TensorGraph,
    invalid,
)
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime
from edgetool.structure import Object, StructureError, shown, strict_json, structured

MAX_CYCLE_SHOWN = 20


def graph_instance(graph: TensorGraph, *, constants_in_ram: bool = False) -> InstanceFile:
    """Return the graph's tensors as buffers, in their order, with the lifetimes that follow from the execution order.

    Inputs are live from before the first operator to their last reader, outputs to the end. A tensor that no operator
    uses needs no memory. Constants do not either, unless constants_in_ram is set: then each use is a separate buffer,
    live only at its operator. Raises InvalidModelError for a wrong number of offsets of a constant.
    """
    readers: list[list[int]] = [[] for _ in graph.tensors]
    writer: dict[int, int] = dict.fromkeys(graph.inputs, -1)
    for position, operator in enumerate(graph.operators):
        for i in operator.reads:
            readers[i].append(position)
        for i in operator.writes:
            writer[i] = position
    outputs = set(graph.outputs)
    end = len(graph.operators) - 1
    buffers: list[Buffer] = []
    for i, tensor in enumerate(graph.tensors):
        if tensor.constant:
            if constants_in_ram:
                buffers += _constant_uses(graph, i, readers[i])
        elif i in writer:
            last = max([writer[i], *readers[i][-1:], *([end] if i in outputs else [])])
            pin = tensor.offsets[0] if tensor.offsets else None
            buffers.append(_buffer(tensor, i, tensor.name, Lifetime(writer[i], last), pin))
    return InstanceFile(LayoutProblem(tuple(buffers)), graph)


def _constant_uses(graph: TensorGraph, index: int, readers: list[int]) -> list[Buffer]:
    tensor = graph.tensors[index]
    pins = tensor.offsets * len(readers) if len(tensor.offsets) == 1 else tensor.offsets
    if pins and len(pins) != len(readers):
        raise invalid(
            f"tensor {index} ({_quoted_name(tensor)}) has {len(pins)} offsets for {len(readers)} uses",
            "specify one offset for each operator that reads it, in execution order",
        )
    uses = []
    for use, position in enumerate(readers):
        name = tensor.name if len(readers) == 1 else f"{tensor.name} at {graph.operators[position].name}"
        pin = pins[use] if pins else None
        uses.append(_buffer(tensor, index, name, Lifetime(position, position), pin, operator=position))
    return uses


def _buffer(
    tensor: GraphTensor, index: int, name: str, lifetime: Lifetime, pin: int | None, operator: int = -1
) -> Buffer:
    return Buffer(0, index, name, tensor.size, lifetime, operator, tensor.alignment, 1, pin, tensor.alias)


def check_dataflow(
    tensors: Sequence[GraphTensor], operators: Sequence[GraphOperator], inputs: Sequence[int], outputs: Sequence[int]
) -> None:
    """Check that every tensor is written at most once, as an input or by one operator, and never if it is constant.

    Tensors that are read, and outputs, must be written. Raises InvalidModelError naming tensor and operators.
    """
    writer: dict[int, str] = {}
    for i in inputs:
        if tensors[i].constant:
            raise invalid(
                f"tensor {i} ({_quoted_name(tensors[i])}) is both constant and an input", "remove one of the two"
            )
        writer[i] = "as an input of the graph"
    for operator in operators:
        for i in operator.writes:
            if tensors[i].constant:
                raise invalid(
                    f"tensor {i} ({_quoted_name(tensors[i])}) is constant, but {operator.label} writes it",
                    "remove the tensor from the operator's outputs",
                )
            if i in writer:
                raise invalid(
                    f"tensor {i} ({_quoted_name(tensors[i])}) is written twice: {writer[i]} and by {operator.label}",
                    "make one of the two write to a different tensor",
                )
            writer[i] = f"by {operator.label}"
    for operator in operators:
        for i in operator.reads:
            if i not in writer and not tensors[i].constant:
                raise invalid(
                    f"tensor {i} ({_quoted_name(tensors[i])}) is read by {operator.label}, but never written",
                    "add it to the inputs, or make it constant",
                )
    for i in outputs:
        if i not in writer and not tensors[i].constant:
            raise invalid(
                f"tensor {i} ({_quoted_name(tensors[i])}) is an output, but never written",
                "add it to the outputs of an operator",
            )


def execution_order(
    tensors: Sequence[GraphTensor],
    operators: Sequence[GraphOperator],
    inputs: Sequence[int],
    given: Sequence[int] | None,
) -> tuple[int, ...]:
    """Return the given order, checked, or else the topological order that always runs the first operator that can run.

    Raises InvalidModelError for a given order that is incomplete or reads a tensor before it is written, and for a
    cycle.
    """
    writer = {i: index for index, operator in enumerate(operators) for i in operator.writes}
    needs = [{writer[i] for i in operator.reads if i in writer} for operator in operators]
    if given is not None:
        _check_order(tensors, operators, given, writer)
        return tuple(given)
    waiting = [len(need) for need in needs]
    then: list[list[int]] = [[] for _ in operators]
    for index, need in enumerate(needs):
        for other in need:
            then[other].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for follower in then[index]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heappush(ready, follower)
    if len(order) < len(operators):
        cycle = _cycle(needs, set(range(len(operators))) - set(order))
        shown = " -> ".join(operators[i].label for i in cycle[:MAX_CYCLE_SHOWN])
        more = (
            f" -> ... ({len(cycle):,} in all)" if len(cycle) > MAX_CYCLE_SHOWN else f" -> {operators[cycle[0]].label}"
        )
        raise invalid(
            f"the operators form a cycle: {shown}{more}", "break the cycle: none of its operators can run first"
        )
    return tuple(order)


def _check_order(
    tensors: Sequence[GraphTensor], operators: Sequence[GraphOperator], given: Sequence[int], writer: dict[int, int]
) -> None:
    missing = sorted(set(range(len(operators))) - set(given))
    if missing:
        raise invalid(
            f"the order does not include {operators[missing[0]].label}", f"list all {len(operators):,} operators"
        )
    place = {index: position for position, index in enumerate(given)}
    for index in given:
        for i in operators[index].reads:
            if i in writer and place[writer[i]] >= place[index]:
                raise invalid(
                    f"in the order, {operators[index].label} reads tensor {i} ({_quoted_name(tensors[i])}) before "
                    f"{operators[writer[i]].label} writes it",
                    "change the order, or remove it",
                )


def _cycle(needs: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """Return one cycle among operators that wait for each other, writers before readers."""
    seen: dict[int, int] = {}
    path: list[int] = []
    at = min(stuck)
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = min(need for need in needs[at] if need in stuck)
    cycle = path[seen[at] :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def _quoted_name(tensor: GraphTensor) -> str:
    return f"{tensor.name[:MAX_NAME_SHOWN]!a}"


MAX_VALUES = 16 * MAX_ROWS
EXAMPLE = 'start with {"tensors": [{"name": "x", "size": 784}], "operators": [{"inputs": ["x"], "outputs": []}]}'

Size = Annotated[int, Meta(ge=0, le=MAX_NUMBER, description="an integer from 0 to 2**62")]
Alignment = Annotated[int, Meta(ge=1, le=MAX_ALIGNMENT, description="an integer from 1 to 2**32")]
Name = Annotated[str, Meta(min_length=1, description="a string that is not empty")]
References = Annotated[tuple[int | str, ...], Meta(max_length=MAX_ROWS)]


class TensorObject(Object):
    """A tensor of the document."""

    size: Size
    name: Name | None = None
    alignment: Alignment | None = None
    offset: Size | tuple[Size, ...] | None = None
    constant: bool = False
    alias: Name | None = None


class OperatorObject(Object):
    """An operator of the document."""

    name: Name | None = None
    inputs: References = ()
    outputs: References = ()


class GraphObject(Object):
    """The document."""

    tensors: Annotated[tuple[TensorObject, ...], Meta(max_length=MAX_ROWS)] | dict[str, Size | TensorObject]
    operators: Annotated[tuple[OperatorObject, ...], Meta(max_length=MAX_ROWS)]
    inputs: References | None = None
    outputs: References | None = None
    order: References | None = None
    alignment: Alignment = 1


def read_graph(text: str) -> TensorGraph:
    """Return the graph of a JSON text, with its operators in execution order.

    This is "order" if the document has it, else the order of the list, in which an operator listed before the writer of
    one of its inputs runs later. Without "inputs", inputs are the tensors that no operator writes; without "outputs",
    outputs are those that are written but not read. Raises InvalidModelError naming the tensor or operator.
    """
    try:
        document = strict_json(text, max_values=MAX_VALUES)
        stated = structured(document, GraphObject)
    except StructureError as error:
        first, *others = error.problems
        raise invalid(
            str(first),
            first.fix or EXAMPLE,
            tuple(f"{item}; {item.fix}" if item.fix else str(item) for item in others[:MAX_PROBLEMS]),
        ) from None
    tensors = _tensors(stated)
    names = _indices([tensor.name for tensor in tensors], "tensor")
    operators = _operators(stated, names)
    constants = {i for i, tensor in enumerate(tensors) if tensor.constant}
    written = {i for operator in operators for i in operator.writes}
    read = {i for operator in operators for i in operator.reads}
    inputs = tuple(sorted(read - written - constants))
    if stated.inputs is not None:
        inputs = _references(stated.inputs, "inputs", "tensor", names)
    outputs = tuple(sorted(written - read))
    if stated.outputs is not None:
        outputs = _references(stated.outputs, "outputs", "tensor", names)
    check_dataflow(tensors, operators, inputs, outputs)
    places = _indices([operator.name for operator in operators], "operator")
    given = None
    if stated.order is not None:
        given = _references(stated.order, "order", "operator", places)
    order = execution_order(tensors, operators, inputs, given)
    return TensorGraph(tensors, tuple(operators[i] for i in order), inputs, outputs, document)


def _tensors(graph: GraphObject) -> tuple[GraphTensor, ...]:
    if isinstance(graph.tensors, tuple):
        return tuple(_tensor(item, item.name, i, graph.alignment) for i, item in enumerate(graph.tensors))
    tensors = []
    for i, (name, stated) in enumerate(graph.tensors.items()):
        item = TensorObject(stated) if isinstance(stated, int) else stated
        if item.name is not None:
            raise invalid(f"tensor {_short(name)} has two names", 'remove its key "name"')
        tensors.append(_tensor(item, name, i, graph.alignment))
    return tuple(tensors)


def _tensor(tensor: TensorObject, name: str | None, index: int, alignment: int) -> GraphTensor:
    if not name:
        raise invalid(f"tensor {index} has no name", "use a string that no other tensor has")
    if isinstance(tensor.offset, tuple) and not tensor.constant:
        raise invalid(f"tensor {index} ({_short(name)}): offset is a list", "use one offset: it is not constant")
    offsets = (tensor.offset,) if isinstance(tensor.offset, int) else tensor.offset or ()
    return GraphTensor(name, tensor.size, tensor.alignment or alignment, offsets, tensor.constant, tensor.alias)


def _operators(graph: GraphObject, names: dict[str, int]) -> tuple[GraphOperator, ...]:
    operators = []
    for i, item in enumerate(graph.operators):
        name = item.name or f"operator {i}"
        where = f"operator {i} ({_short(name)})" if item.name else name
        reads = _references(item.inputs, f"{where}: inputs", "tensor", names, repeated=True)
        writes = _references(item.outputs, f"{where}: outputs", "tensor", names)
        operators.append(GraphOperator(name, where, reads, writes))
    return tuple(operators)


def _references(
    items: Sequence[int | str], where: str, kind: str, names: dict[str, int], *, repeated: bool = False
) -> tuple[int, ...]:
    """Return tensors or operators given by name or index; duplicates are an error unless repeated is set."""
    indices: dict[int, None] = {}
    for item in items:
        index = names.get(item, -1) if isinstance(item, str) else item
        if not 0 <= index < len(names):
            raise invalid(f"{where}: there is no {kind} {_short(item)}", f"name one of the {len(names):,} {kind}s")
        if index in indices and not repeated:
            raise invalid(f"{where}: {kind} {_short(item)} is listed twice", "remove one")
        indices[index] = None
    return tuple(indices)


def _indices(names: Sequence[str], kind: str) -> dict[str, int]:
    indices: dict[str, int] = {}
    for i, name in enumerate(names):
        if indices.setdefault(name, i) != i:
            raise invalid(f"{kind}s {indices[name]} and {i} are both called {_short(name)}", "use unique names")
    return indices


def _short(reference: int | str) -> str:
    """A name in quotes, or an index."""
    return f"{reference[:MAX_NAME_SHOWN]!a}" if isinstance(reference, str) else shown(reference)
