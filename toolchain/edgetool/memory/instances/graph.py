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

import json
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

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


TOP = ("tensors", "operators", "inputs", "outputs", "order", "alignment")
TENSOR = ("name", "size", "alignment", "offset", "constant", "alias")
OPERATOR = ("name", "inputs", "outputs")
# A Python object needs twenty times the memory of the two characters of an empty list.
MAX_VALUES = 16 * MAX_ROWS
EXAMPLE = 'start with {"tensors": [{"name": "x", "size": 784}], "operators": [{"inputs": ["x"], "outputs": []}]}'


def read_graph(text: str) -> TensorGraph:
    """Return the graph of a JSON text, with its operators in execution order.

    This is "order" if the document has it, else the order of the list, in which an operator listed before the writer of
    one of its inputs runs later. Without "inputs", inputs are the tensors that no operator writes; without "outputs",
    outputs are those that are written but not read. Raises InvalidModelError naming the tensor or operator.
    """
    document = _object(_json(text), "the graph", TOP)
    if "tensors" not in document or "operators" not in document:
        raise invalid("the graph has no tensors or no operators", EXAMPLE)
    default = _integer(document.get("alignment", 1), "alignment", 1, MAX_ALIGNMENT)
    tensors = _tensors(document["tensors"], default)
    names = _indices([tensor.name for tensor in tensors], "tensor")
    operators = _operators(document["operators"], names)
    constants = {i for i, tensor in enumerate(tensors) if tensor.constant}
    written = {i for operator in operators for i in operator.writes}
    read = {i for operator in operators for i in operator.reads}
    inputs = tuple(sorted(read - written - constants))
    if "inputs" in document:
        inputs = _references(document["inputs"], "inputs", "tensor", names)
    outputs = tuple(sorted(written - read))
    if "outputs" in document:
        outputs = _references(document["outputs"], "outputs", "tensor", names)
    check_dataflow(tensors, operators, inputs, outputs)
    places = _indices([operator.name for operator in operators], "operator")
    given = None
    if "order" in document:
        given = _references(document["order"], "order", "operator", places)
    order = execution_order(tensors, operators, inputs, given)
    return TensorGraph(tensors, tuple(operators[i] for i in order), inputs, outputs, document)


def _json(text: str) -> Any:
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise invalid(f"has more than {MAX_VALUES:,} values", "split it and lay out the parts separately")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise invalid(f"line {error.lineno} is not valid JSON: {error.msg} at column {error.colno}", EXAMPLE) from None
    except RecursionError:
        raise invalid("is nested too deeply", EXAMPLE) from None
    except ValueError:  # int() limits the number of digits
        raise invalid("contains a number with thousands of digits", "specify sizes in bytes") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise invalid(f"has the key {_shown(key)} twice in one object", "remove one")
        values[key] = value
    return values


def _no_number(name: str) -> Any:
    raise invalid(f"contains {name}, which is not a valid JSON number", "use integers")


def _tensors(value: Any, default: int) -> tuple[GraphTensor, ...]:
    if isinstance(value, dict):
        entries = []
        for name, entry in value.items():
            entry_value = entry if isinstance(entry, dict) else {"size": entry}
            if "name" in entry_value:
                raise invalid(f"tensor {_shown(name)} has two names", 'remove its key "name"')
            entries.append({"name": name, **entry_value})
    else:
        entries = _list(value, "tensors")
    return tuple(_tensor(entry, i, default) for i, entry in enumerate(entries))


def _tensor(value: Any, index: int, default: int) -> GraphTensor:
    where = f"tensor {index}"
    entry = _object(value, where, TENSOR)
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(f"{where} has no name", "use a string that no other tensor has")
    where = f"tensor {index} ({_shown(name)})"
    if "size" not in entry:
        raise invalid(f"{where} has no size", "specify its size in bytes")
    constant = entry.get("constant", False)
    if not isinstance(constant, bool):
        raise invalid(f"{where}: constant is {_shown(constant)}", "use true or false")
    alias = entry.get("alias")
    if alias is not None and (not isinstance(alias, str) or not alias):
        raise invalid(f"{where}: alias is {_shown(alias)}", "use a string that the tensors in the same memory share")
    offset = entry.get("offset")
    offsets = [] if offset is None else [offset]
    if constant and isinstance(offset, list):
        offsets = offset
    return GraphTensor(
        name=name,
        size=_integer(entry["size"], f"{where}: size", 0, MAX_NUMBER),
        alignment=_integer(entry.get("alignment", default), f"{where}: alignment", 1, MAX_ALIGNMENT),
        offsets=tuple(_integer(item, f"{where}: offset", 0, MAX_NUMBER) for item in offsets),
        constant=constant,
        alias=alias,
    )


def _operators(value: Any, names: dict[str, int]) -> tuple[GraphOperator, ...]:
    operators = []
    for i, item in enumerate(_list(value, "operators")):
        entry = _object(item, f"operator {i}", OPERATOR)
        name = entry.get("name", f"operator {i}")
        if not isinstance(name, str) or not name:
            raise invalid(f"operator {i}: its name is {_shown(name)}", "use a string that no other operator has")
        where = f"operator {i} ({_shown(name)})" if "name" in entry else name
        reads = _references(entry.get("inputs", []), f"{where}: inputs", "tensor", names, repeated=True)
        writes = _references(entry.get("outputs", []), f"{where}: outputs", "tensor", names)
        operators.append(GraphOperator(name, where, reads, writes))
    return tuple(operators)


def _references(value: Any, where: str, kind: str, names: dict[str, int], *, repeated: bool = False) -> tuple[int, ...]:
    """Return tensors or operators given by name or index; duplicates are an error unless repeated is set."""
    indices: dict[int, None] = {}
    for item in _list(value, where):
        index = names.get(item, -1) if isinstance(item, str) else item
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(names):
            raise invalid(f"{where}: there is no {kind} {_shown(item)}", f"name one of the {len(names):,} {kind}s")
        if index in indices and not repeated:
            raise invalid(f"{where}: {kind} {_shown(item)} is listed twice", "remove one")
        indices[index] = None
    return tuple(indices)


def _indices(names: Sequence[str], kind: str) -> dict[str, int]:
    indices: dict[str, int] = {}
    for i, name in enumerate(names):
        if indices.setdefault(name, i) != i:
            raise invalid(f"{kind}s {indices[name]} and {i} are both called {_shown(name)}", "use unique names")
    return indices


def _object(value: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"{where} is {_shown(value)}, not an object", EXAMPLE)
    for key in value:
        if key not in keys:
            raise invalid(f"{where} has an unknown key {_shown(key)}", f"the keys are {', '.join(keys)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise invalid(f"{where}: {_shown(value)} is not a list", "use a list")
    if len(value) > MAX_ROWS:
        raise invalid(f"{where}: more than {MAX_ROWS:,} entries", "split it and lay out the parts separately")
    return value


def _integer(value: Any, where: str, minimum: int, maximum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        power = f"2**{maximum.bit_length() - 1}"
        raise invalid(f"{where} is {_shown(value)}, not an integer from {minimum} to {power}")
    return value


def _shown(value: Any) -> str:
    """Return a value of the file for a message, short and in ASCII."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and abs(value) > MAX_NUMBER * 4:
        return f"a {value.bit_length()}-bit number"
    text = ascii(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MAX_NAME_SHOWN else f"{text[: MAX_NAME_SHOWN - 3]}..."
