"""How many times each subgraph runs in one inference: branches of IF, conditions and bodies of WHILE.

Only loops whose end the file determines are counted: a counter starts at a constant, is compared with constants, and
grows by a constant per iteration, as in the loops that Keras and TensorFlow generate for recurrent layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor

# Comparisons of a counter with a limit; the second name is the comparison with swapped sides.
SWAPPED = {"LESS": "GREATER", "LESS_EQUAL": "GREATER_EQUAL", "GREATER": "LESS", "GREATER_EQUAL": "LESS_EQUAL"}
INTEGERS = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)

Runs = int | None
MAX_RUNS = 10**15  # no device could finish more; the cap keeps products from growing without bound


def subgraph_runs(model: Model) -> tuple[Runs, ...]:
    """Return the runs of each subgraph in one inference: 1 for the main graph, None if the file does not determine it.

    Both branches of an IF are counted each time, which gives an upper bound. Subgraphs of CALL_ONCE are not counted,
    because they ran earlier. The count is 0 for a subgraph that nothing calls.
    """
    calls = [list(_calls(model, graph)) for graph in model.subgraphs]
    waiting = Counter(callee for called in calls for callee, _ in called)
    runs: list[Runs] = [1, *[0] * (len(calls) - 1)]
    settled = [index for index in range(len(calls)) if not waiting[index]]
    for index in settled:  # `settled` grows during iteration: a subgraph is appended when all its callers are known
        for callee, times in calls[index]:
            runs[callee] = _sum(runs[callee], _product(runs[index], times))
            waiting[callee] -= 1
            if not waiting[callee]:
                settled.append(callee)
    # The remaining subgraphs call themselves, directly or indirectly.
    return tuple(None if waiting[index] else count for index, count in enumerate(runs))


def iterations(model: Model, graph: Graph, loop: Operator) -> Runs:
    """Return how many times a WHILE runs its body each time it is reached; None if the file does not determine it."""
    condition, body = _callee(model, loop, "cond_subgraph_index"), _callee(model, loop, "body_subgraph_index")
    if condition is None or body is None or len(condition.outputs) != 1:
        return None
    limits = [
        _iterations_until(graph, loop, condition, body, comparison)
        for comparison in _conjunction(condition, condition.outputs[0])
    ]
    known_limits = [count for count in limits if count is not None]
    return min(known_limits) if known_limits and len(known_limits) == len(limits) else None


def _calls(model: Model, graph: Graph) -> Iterator[tuple[int, Runs]]:
    """Yield the subgraphs that the operators of a graph call, with the number of calls; skip missing ones."""
    for operator in graph.operators:
        callees: dict[int, Runs] = {}
        match operator.code:
            case "IF":  # a subgraph that is both branches runs once
                callees = {_index(operator, f"{branch}_subgraph_index"): 1 for branch in ("then", "else")}
            case "WHILE":
                count = iterations(model, graph, operator)
                condition, body = (_index(operator, f"{part}_subgraph_index") for part in ("cond", "body"))
                callees = {condition: _sum(count, 1)}
                callees[body] = _sum(count, callees.get(body, 0))
        yield from ((callee, times) for callee, times in callees.items() if 0 <= callee < len(model.subgraphs))


def _option(operator: Operator, name: str) -> OptionValue:
    return dict(operator.options.fields).get(name) if operator.options is not None else None


def _index(operator: Operator, name: str) -> int:
    index = _option(operator, name)
    return index if isinstance(index, int) else -1


def _callee(model: Model, operator: Operator, option: str) -> Graph | None:
    index = _index(operator, option)
    return model.subgraphs[index] if 0 <= index < len(model.subgraphs) else None


def _conjunction(graph: Graph, tensor: int) -> list[Operator | None]:
    """Return the comparisons that must all hold for a tensor to be true; None for each other operator."""
    producers = {output: operator for operator in graph.operators for output in operator.outputs}
    parts, comparisons = [tensor], list[Operator | None]()
    for part in parts:  # `parts` grows during iteration: the operands of each AND are appended
        producer = producers.get(part)
        if producer is not None and producer.code == "LOGICAL_AND":
            parts += [operand for operand in producer.inputs if operand not in parts]
        else:
            comparisons.append(producer if producer is not None and producer.code in SWAPPED else None)
    return comparisons


def _iterations_until(graph: Graph, loop: Operator, condition: Graph, body: Graph, comparison: Operator | None) -> Runs:
    """Return the iterations after which a comparison no longer holds."""
    if comparison is None:
        return None
    for code, (counter, limit) in (
        (comparison.code, comparison.inputs),
        (SWAPPED[comparison.code], comparison.inputs[::-1]),
    ):
        start, step = _variable(graph, loop, condition, body, counter)
        end, limit_step = _variable(graph, loop, condition, body, limit)
        if start is None or step is None or end is None or limit_step != 0:
            continue
        if code in ("GREATER", "GREATER_EQUAL"):  # negated, this is a loop that counts up
            start, step, end = -start, -step, -end
        last = end if code in ("LESS", "GREATER") else end + 1
        if start >= last:
            return 0
        return -(-(last - start) // step) if step > 0 else None
    return None


def _variable(graph: Graph, loop: Operator, condition: Graph, body: Graph, tensor: int) -> tuple[Runs, Runs]:
    """Return the initial value of a tensor in the condition and its growth per iteration, each None if unknown."""
    if tensor < 0 or tensor not in condition.inputs:
        return (_constant(condition, tensor), 0) if tensor >= 0 else (None, None)
    position = condition.inputs.index(tensor)
    if position >= min(len(loop.inputs), len(body.inputs), len(body.outputs)) or loop.inputs[position] < 0:
        return None, None
    return _constant(graph, loop.inputs[position]), _growth(body, body.inputs[position], body.outputs[position])


def _growth(body: Graph, before: int, after: int) -> int | None:
    """Return by how much an iteration increases a variable: 0 if it is passed on unchanged."""
    if before == after:
        return 0
    producer = _producer(body, after)
    if producer is None or producer.code != "ADD" or before not in producer.inputs:
        return None
    if _option(producer, "fused_activation_function") not in (None, "NONE"):
        return None
    step = producer.inputs[1 - producer.inputs.index(before)]
    return _constant(body, step) if step >= 0 else None


def _producer(graph: Graph, tensor: int) -> Operator | None:
    """Return the operator that writes a tensor; None for an input or a constant."""
    return next((operator for operator in graph.operators if tensor in operator.outputs), None)


def _constant(graph: Graph, index: int) -> int | None:
    """Return the value of a constant integer with one element; None for any other tensor."""
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
    return runs if runs <= MAX_RUNS else None
