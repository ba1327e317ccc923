"""The work of control flow and resource variables, without that of the operators in the subgraphs they run.

Sources: if.cc, while.cc, call_once.cc, var_handle.cc, read_variable.cc, assign_variable.cc, kernel_util.cc,
micro_interpreter_graph.cc. The rule of CALL_ONCE is that of every run but the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.model.loops import turns
from edgetool.model.types import Graph, Tensor
from edgetool.operators.kernel import Call, arena_bytes
from edgetool.operators.prepare.inspection import integer
from edgetool.operators.work.copies import copied_evenly
from edgetool.operators.work.loops import Loops, repeated, together
from edgetool.operators.work.types import Work, WorkRule


def _handed_over(tensors: Sequence[Tensor | None]) -> Loops:
    """Each tensor is copied once, from or to a subgraph."""
    given = [tensor for tensor in tensors if tensor is not None]
    return together(
        {"tensor": len(given), "axis": sum(len(tensor.shape) for tensor in given)},
        *(copied_evenly(arena_bytes(tensor), 1) for tensor in given),
    )


def _run(graph: Graph) -> Loops:
    return {"subgraph": 1, "nested operator": len(graph.operators)}


def _if(call: Call) -> Work:
    """Of the branches, that with more operators."""
    branches = [call.model.subgraphs[integer(call, f"{name}_subgraph_index")] for name in ("then", "else")]
    inputs = [call.input(position) for position in range(1, len(call.operator.inputs))]
    outputs = [call.output(position) for position in range(len(call.operator.outputs))]
    longer = max(branches, key=lambda graph: len(graph.operators))
    return Work("branch", together(_handed_over(inputs), _handed_over(outputs), _run(longer)))


def _while(call: Call) -> Work:
    """Everything is handed to the condition, and to the outputs; each turn to the body, from it, and to the condition.

    One turn is counted where the file does not tell how many there are.
    """
    condition, body = (call.model.subgraphs[integer(call, f"{name}_subgraph_index")] for name in ("cond", "body"))
    count = turns(call.model, call.graph, call.operator)
    number = 1 if count is None else count
    handed = _handed_over([call.output(position) for position in range(len(call.operator.outputs))])
    return Work(
        "loop",
        together(
            {"turn": number},
            repeated(2 + 3 * number, handed),
            repeated(number + 1, _run(condition)),
            repeated(number, _run(body)),
        ),
    )


def _call_once(_: Call) -> Work:
    return Work("again", {})


def _handle(_: Call) -> Work:
    return Work("handle", {})


def _read(call: Call) -> Work:
    value = call.required_output()
    return Work("copy", together({"axis": len(value.shape)}, copied_evenly(arena_bytes(value), 1)))


def _assign(call: Call) -> Work:
    value = call.required_input(1)
    return Work("copy", together({"axis": len(value.shape)}, copied_evenly(arena_bytes(value), 1)))


WORK: dict[str, WorkRule] = {
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _call_once,
    "IF": _if,
    "READ_VARIABLE": _read,
    "VAR_HANDLE": _handle,
    "WHILE": _while,
}
