"""A graph as JSON: tensors with sizes, and the operators that read and write them.

    {"tensors": [{"name": "x", "size": 784}, {"name": "w", "size": 288, "constant": true}, ...],
     "operators": [{"name": "conv", "inputs": ["x", "w"], "outputs": ["y"]}, ...],
     "inputs": ["x"], "outputs": ["y"], "order": ["conv", ...], "alignment": 4}

Tensors may also be an object of name: size or name: entry. An entry may have alignment, offset (a pin), constant and
alias. Tensors and operators are named, or counted from 0. Nothing else is taken, so that a slip is told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgetool.memory.instances.order import check_use, run_order
from edgetool.memory.instances.types import (
    MAX_ALIGNMENT,
    MAX_NAME_SHOWN,
    MAX_NUMBER,
    MAX_ROWS,
    Graph,
    GraphOperator,
    GraphTensor,
    invalid,
)

TOP = ("tensors", "operators", "inputs", "outputs", "order", "alignment")
TENSOR = ("name", "size", "alignment", "offset", "constant", "alias")
OPERATOR = ("name", "inputs", "outputs")
# Python's objects take twenty times the room of an empty list's two characters.
MAX_VALUES = 16 * MAX_ROWS
EXAMPLE = 'start with {"tensors": [{"name": "x", "size": 784}], "operators": [{"inputs": ["x"], "outputs": []}]}'


def read_graph(text: str) -> Graph:
    """The graph that a JSON text states, its operators in the order in which they run.

    That is "order" where it is given; else the order of the list, in which an operator that stands before the writer
    of what it reads waits for it. Without "inputs", inputs are what nothing writes; without "outputs", outputs are what
    is written and not read. Raises InvalidModelError naming the tensor or operator.
    """
    document = _object(_json(text), "the graph", TOP)
    if "tensors" not in document or "operators" not in document:
        raise invalid("the graph has no tensors or no operators", EXAMPLE)
    default = _whole(document.get("alignment", 1), "alignment", 1, MAX_ALIGNMENT)
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
    check_use(tensors, operators, inputs, outputs)
    places = _indices([operator.name for operator in operators], "operator")
    given = None
    if "order" in document:
        given = _references(document["order"], "order", "operator", places)
    order = run_order(tensors, operators, inputs, given)
    return Graph(tensors, tuple(operators[i] for i in order), inputs, outputs, document)


def _json(text: str) -> Any:
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise invalid(f"has more than {MAX_VALUES:,} values", "split it and lay out the parts separately")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise invalid(f"line {error.lineno} is not valid JSON: {error.msg} at column {error.colno}", EXAMPLE) from None
    except RecursionError:
        raise invalid("is nested too deeply", EXAMPLE) from None
    except ValueError:  # int() takes so many digits and no more
        raise invalid("contains a number with thousands of digits", "specify sizes in bytes") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise invalid(f"has the key {_shown(key)} twice in one object", "remove one")
        found[key] = value
    return found


def _no_number(name: str) -> Any:
    raise invalid(f"contains {name}, which is not a valid JSON number", "use integers")


def _tensors(value: Any, default: int) -> tuple[GraphTensor, ...]:
    if isinstance(value, dict):
        entries = []
        for name, entry in value.items():
            stated = entry if isinstance(entry, dict) else {"size": entry}
            if "name" in stated:
                raise invalid(f"tensor {_shown(name)} has two names", 'remove its key "name"')
            entries.append({"name": name, **stated})
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
        size=_whole(entry["size"], f"{where}: size", 0, MAX_NUMBER),
        alignment=_whole(entry.get("alignment", default), f"{where}: alignment", 1, MAX_ALIGNMENT),
        offsets=tuple(_whole(item, f"{where}: offset", 0, MAX_NUMBER) for item in offsets),
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
    """Tensors or operators by name or index, each once unless repeated."""
    found: dict[int, None] = {}
    for item in _list(value, where):
        index = names.get(item, -1) if isinstance(item, str) else item
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(names):
            raise invalid(f"{where}: there is no {kind} {_shown(item)}", f"name one of the {len(names):,} {kind}s")
        if index in found and not repeated:
            raise invalid(f"{where}: {kind} {_shown(item)} is listed twice", "remove one")
        found[index] = None
    return tuple(found)


def _indices(names: Sequence[str], kind: str) -> dict[str, int]:
    indices: dict[str, int] = {}
    for i, name in enumerate(names):
        if indices.setdefault(name, i) != i:
            raise invalid(f"{kind}s {indices[name]} and {i} are both called {_shown(name)}", "use unique names")
    return indices


def _object(value: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"{where} is {_shown(value)}, not an object", EXAMPLE)
    for key in value:
        if key not in known:
            raise invalid(f"{where} has an unknown key {_shown(key)}", f"the keys are {', '.join(known)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise invalid(f"{where}: {_shown(value)} is not a list", "use a list")
    if len(value) > MAX_ROWS:
        raise invalid(f"{where}: more than {MAX_ROWS:,} entries", "split it and lay out the parts separately")
    return value


def _whole(value: Any, where: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        power = f"2**{most.bit_length() - 1}"
        raise invalid(f"{where} is {_shown(value)}, not an integer from {least} to {power}")
    return value


def _shown(value: Any) -> str:
    """A value of the file in a message, short and in ASCII."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and abs(value) > MAX_NUMBER * 4:
        return f"a {value.bit_length()}-bit number"
    text = ascii(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MAX_NAME_SHOWN else f"{text[: MAX_NAME_SHOWN - 3]}..."
