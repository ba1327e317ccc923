"""How often each subgraph runs in one inference: the branches of IF, the conditions and bodies of WHILE.

Only loops are counted whose end the file tells: a counter starts at a constant, is compared with constants, and grows
by a constant each turn, as those are that Keras and TensorFlow make of recurrent layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor

# Comparisons of a counter with a limit; the second name is that with the sides swapped.
SWAPPED = {"LESS": "GREATER", "LESS_EQUAL": "GREATER_EQUAL", "GREATER": "LESS", "GREATER_EQUAL": "LESS_EQUAL"}
INTEGERS = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)

Runs = int | None
MOST_RUNS = 10**15  # in one inference: no device gets to the end of more, and products of them pass every number


def subgraph_runs(model: Model) -> tuple[Runs, ...]:
    """The runs of each subgraph in one inference: 1 of the main one, None where no end is told or near.

    Both branches of an IF count as run each time: an upper figure. What CALL_ONCE runs does not count: it has run
    before. 0 is a subgraph that nothing calls.
    """
    calls = [list(_calls(model, graph)) for graph in model.subgraphs]
    waiting = Counter(callee for called in calls for callee, _ in called)
    runs: list[Runs] = [1, *[0] * (len(calls) - 1)]
    known = [index for index in range(len(calls)) if not waiting[index]]
    for index in known:  # grows: a subgraph is known when all that call it are
        for callee, times in calls[index]:
            runs[callee] = _sum(runs[callee], _product(runs[index], times))
            waiting[callee] -= 1
            if not waiting[callee]:
                known.append(callee)
    # What is left calls itself in the end.
    return tuple(None if waiting[index] else count for index, count in enumerate(runs))


def turns(model: Model, graph: Graph, loop: Operator) -> Runs:
    """How often the body of a WHILE in this graph runs each time it is reached; None where the file does not tell."""
    condition, body = _callee(model, loop, "cond_subgraph_index"), _callee(model, loop, "body_subgraph_index")
    if condition is None or body is None or len(condition.outputs) != 1:
        return None
    found = [
        _turns_until(graph, loop, condition, body, comparison)
        for comparison in _joined(condition, condition.outputs[0])
    ]
    known = [count for count in found if count is not None]
    return min(known) if known and len(known) == len(found) else None


def _calls(model: Model, graph: Graph) -> Iterator[tuple[int, Runs]]:
    """The subgraphs that the operators of one run, and how often; those that are not in the file do not count."""
    for operator in graph.operators:
        found: dict[int, Runs] = {}
        match operator.code:
            case "IF":  # the same one in both branches runs once
                found = {_index(operator, f"{branch}_subgraph_index"): 1 for branch in ("then", "else")}
            case "WHILE":
                count = turns(model, graph, operator)
                condition, body = (_index(operator, f"{part}_subgraph_index") for part in ("cond", "body"))
                found = {condition: _sum(count, 1)}
                found[body] = _sum(count, found.get(body, 0))
        yield from ((callee, times) for callee, times in found.items() if 0 <= callee < len(model.subgraphs))


def _option(operator: Operator, name: str) -> OptionValue:
    return dict(operator.options.fields).get(name) if operator.options is not None else None


def _index(operator: Operator, name: str) -> int:
    index = _option(operator, name)
    return index if isinstance(index, int) else -1


def _callee(model: Model, operator: Operator, option: str) -> Graph | None:
    index = _index(operator, option)
    return model.subgraphs[index] if 0 <= index < len(model.subgraphs) else None


def _joined(graph: Graph, tensor: int) -> list[Operator | None]:
    """The comparisons that must all hold for a tensor to be true; None for one that is made otherwise."""
    makers = {made: operator for operator in graph.operators for made in operator.outputs}
    parts, found = [tensor], list[Operator | None]()
    for part in parts:  # grows by the parts of a part
        maker = makers.get(part)
        if maker is not None and maker.code == "LOGICAL_AND":
            parts += [one for one in maker.inputs if one not in parts]
        else:
            found.append(maker if maker is not None and maker.code in SWAPPED else None)
    return found


def _turns_until(graph: Graph, loop: Operator, condition: Graph, body: Graph, comparison: Operator | None) -> Runs:
    """The turns after which a comparison does not hold any more."""
    if comparison is None:
        return None
    for code, (counter, limit) in (
        (comparison.code, comparison.inputs),
        (SWAPPED[comparison.code], comparison.inputs[::-1]),
    ):
        start, step = _variable(graph, loop, condition, body, counter)
        end, still = _variable(graph, loop, condition, body, limit)
        if start is None or step is None or end is None or still != 0:
            continue
        if code in ("GREATER", "GREATER_EQUAL"):  # the same on the other side of 0
            start, step, end = -start, -step, -end
        last = end if code in ("LESS", "GREATER") else end + 1
        if start >= last:
            return 0
        return -(-(last - start) // step) if step > 0 else None
    return None


def _variable(graph: Graph, loop: Operator, condition: Graph, body: Graph, tensor: int) -> tuple[Runs, Runs]:
    """What a tensor of the condition is at first, and by what it grows each turn; None where that is not known."""
    if tensor < 0 or tensor not in condition.inputs:
        return (_constant(condition, tensor), 0) if tensor >= 0 else (None, None)
    position = condition.inputs.index(tensor)
    if position >= min(len(loop.inputs), len(body.inputs), len(body.outputs)) or loop.inputs[position] < 0:
        return None, None
    return _constant(graph, loop.inputs[position]), _growth(body, body.inputs[position], body.outputs[position])


def _growth(body: Graph, before: int, after: int) -> int | None:
    """By what a turn makes a variable grow: 0 for one that is handed on."""
    if before == after:
        return 0
    maker = _maker(body, after)
    if maker is None or maker.code != "ADD" or before not in maker.inputs:
        return None
    if _option(maker, "fused_activation_function") not in (None, "NONE"):
        return None
    step = maker.inputs[1 - maker.inputs.index(before)]
    return _constant(body, step) if step >= 0 else None


def _maker(graph: Graph, tensor: int) -> Operator | None:
    """The operator that makes a tensor; None for an input or a constant."""
    return next((operator for operator in graph.operators if tensor in operator.outputs), None)


def _constant(graph: Graph, index: int) -> int | None:
    """The integer that the file holds for a tensor of one element."""
    tensor: Tensor = graph.tensors[index]
    if tensor.data is None or tensor.dtype not in INTEGERS or tensor.element_count != 1 or tensor.is_variable:
        return None
    return int.from_bytes(tensor.data[: tensor.dtype.bits // 8], "little", signed=True)


def _product(left: Runs, right: Runs) -> Runs:
    if 0 in (left, right):
        return 0
    return None if left is None or right is None else _countable(left * right)


def _sum(left: Runs, right: Runs) -> Runs:
    return None if left is None or right is None else _countable(left + right)


def _countable(runs: int) -> Runs:
    return runs if runs <= MOST_RUNS else None
