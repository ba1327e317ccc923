"""Control flow and resource variables: MACs, Prepare, loop counts and bounds.

Sources of Prepare: if.cc, while.cc, call_once.cc, var_handle.cc, read_variable.cc, assign_variable.cc,
micro_resource_variable.cc.

Sources of the loop counts: if.cc, while.cc, call_once.cc, var_handle.cc, read_variable.cc, assign_variable.cc,
kernel_util.cc, micro_interpreter_graph.cc. The rule of CALL_ONCE is that of every run but the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from edgetool.model.loops import iterations
from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import (
    Assignment,
    Call,
    PrepareRule,
    Request,
    arena_bytes,
    demand,
    input_type,
    integer,
    looks_at,
    nothing,
    persistent,
    words,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import LoopCounts, LoopRule, Loops, copied_evenly, repeated, together


def _subgraph(call: Call, option: str) -> Graph:
    index, number = integer(call, option), len(call.model.subgraphs)
    demand(call, 0 <= index < number, f"calls subgraph {index}, but the model has only {number}")
    return call.model.subgraphs[index]


def _branches(call: Call) -> None:
    """The condition is one bool; the first branch takes and gives what the operator has. The second is not asked."""
    input_type(0, DType.BOOL)(call)
    elements = call.required_input(0).element_count
    demand(call, elements == 1, f"requires one condition, not {elements}")
    then = _subgraph(call, "then_subgraph_index")
    _subgraph(call, "else_subgraph_index")
    given, made = len(call.operator.inputs) - 1, len(call.operator.outputs)
    for side, number, wanted in (("inputs", len(then.inputs), given), ("outputs", len(then.outputs), made)):
        demand(call, number == wanted, f"calls a subgraph with the wrong number of {side}: {number}, not {wanted}")


def _loop(call: Call) -> Iterable[Request]:
    """The condition and the body take what the operator has, and the body gives as much."""
    given, made = len(call.operator.inputs), len(call.operator.outputs)
    condition, body = _subgraph(call, "cond_subgraph_index"), _subgraph(call, "body_subgraph_index")
    numbers = {given, made, len(condition.inputs), len(body.inputs), len(body.outputs)}
    demand(call, len(numbers) == 1, "has a different number of inputs or outputs from its subgraphs")
    # Not asked: the kernel reads the first output all the same.
    demand(call, len(condition.outputs) > 0, "uses a condition subgraph that has no outputs")
    return ()


def _prepare_call_once(call: Call) -> Iterable[Request]:
    _subgraph(call, "init_subgraph_index")
    return ()


def _assign_variable(call: Call) -> Iterator[Request]:
    """The variable's bytes, when no earlier operator of any subgraph assigned to it."""
    input_type(0, DType.RESOURCE, DType.INT32)(call)
    handle, value = call.required_input(0), call.required_input(1)
    demand(call, handle.element_count == 1, f"requires one variable, not {handle.element_count}")
    yield from call.temporary_inputs(1)
    assignment = call.assignments[call.graph.index, call.operator.index]
    if assignment.variable is None:
        return  # The handle is made in another subgraph: only Invoke knows the variable.
    known = assignment.known
    demand(
        call, 0 <= assignment.variable < known, f"assigns to variable {assignment.variable}, but there are only {known}"
    )
    _as_large_as_the_variable(call, assignment, value)
    if assignment.first:
        yield persistent("resource variable", arena_bytes(value))


def _read_variable(call: Call) -> Iterator[Request]:
    call.required_input(0)
    yield from call.temporary_inputs(0)
    assignment = call.assignments.get((call.graph.index, call.operator.index))
    if assignment is not None:
        _as_large_as_the_variable(call, assignment, call.required_output())


def _as_large_as_the_variable(call: Call, assignment: Assignment, tensor: Tensor) -> None:
    """Only builds for debugging ask; the others copy as much as the variable has, whatever the tensor's size."""
    variable, found = assignment.size_bytes, arena_bytes(tensor)
    demand(call, variable in (None, found), f"copies {variable} bytes between a variable and a tensor of {found} bytes")


def resource_variables(model: Model) -> tuple[tuple[str | None, str], ...]:
    """The resource variables by (container, shared name), as TFLM numbers them: the firmware makes room for each."""
    variables = _Variables()
    for graph in model.subgraphs:
        for operator in graph.operators:
            variables.prepare(graph, operator)
    return tuple(variables.names)


def assignments(model: Model) -> dict[tuple[int, int], Assignment]:
    """What each ASSIGN_VARIABLE and READ_VARIABLE finds, by (subgraph, operator).

    Operators are prepared subgraph by subgraph.
    """
    variables = _Variables()
    found: dict[tuple[int, int], Assignment] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.code in ("ASSIGN_VARIABLE", "READ_VARIABLE") and operator.inputs and operator.inputs[0] >= 0:
                variable = variables.of(graph, graph.tensors[operator.inputs[0]])
                first = operator.code == "ASSIGN_VARIABLE" and variable not in variables.sizes_bytes
                found[graph.index, operator.index] = Assignment(variable, len(variables.names), first)
            variables.prepare(graph, operator)
    sizes_bytes = variables.sizes_bytes
    return {
        place: replace(one, size_bytes=sizes_bytes.get(one.variable) if one.variable is not None else None)
        for place, one in found.items()
    }


class _Variables:
    """The resource variables as TFLM numbers them while it prepares operators, and those that have their bytes."""

    def __init__(self) -> None:
        self.names: list[tuple[str | None, str]] = []
        self.numbers: dict[tuple[str | None, str], int] = {}
        self.handles: dict[tuple[int, int], int] = {}
        self.sizes_bytes: dict[int, int | None] = {}  # of those that have their bytes

    def of(self, graph: Graph, handle: Tensor) -> int | None:
        """The variable that the tensor stands for; None when no operator has said so yet."""
        if handle.is_constant:
            return next(iter(words(handle)), None)
        return self.handles.get((graph.index, handle.index))

    def prepare(self, graph: Graph, operator: Operator) -> None:
        if operator.code == "VAR_HANDLE" and operator.outputs:
            self.handles[graph.index, operator.outputs[0]] = self._number(*_variable_name(operator))
        if operator.code == "ASSIGN_VARIABLE" and operator.inputs:
            variable = self.of(graph, graph.tensors[operator.inputs[0]])
            if variable is not None:
                value = operator.inputs[1] if len(operator.inputs) > 1 else -1
                self.sizes_bytes.setdefault(variable, arena_bytes(graph.tensors[value]) if value >= 0 else None)

    def _number(self, container: str | None, shared_name: str) -> int:
        key = (container, shared_name)
        if key not in self.numbers:
            self.numbers[key] = len(self.names)
            # A handle without a container finds the first variable of that name in any.
            self.numbers.setdefault((None, shared_name), len(self.names))
            self.names.append(key)
        return self.numbers[key]


def _variable_name(operator: Operator) -> tuple[str | None, str]:
    """The container (None where the file has none) and the shared name of a VAR_HANDLE."""
    fields = dict(operator.options.fields) if operator.options is not None else {}
    container, shared_name = fields.get("container"), fields.get("shared_name")
    return (container if isinstance(container, str) else None), (shared_name if isinstance(shared_name, str) else "")


PREPARE: dict[str, PrepareRule] = {
    "ASSIGN_VARIABLE": _assign_variable,
    "CALL_ONCE": _prepare_call_once,
    "IF": looks_at((0,), (), _branches),
    "READ_VARIABLE": _read_variable,
    # Too many variables fail here; the firmware makes room for all.
    "VAR_HANDLE": nothing,
    "WHILE": _loop,
}


def _handed_over(tensors: Sequence[Tensor | None]) -> Loops:
    """Each tensor is copied once, from or to a subgraph."""
    given = [tensor for tensor in tensors if tensor is not None]
    return together(
        {"tensor": len(given), "axis": sum(len(tensor.shape) for tensor in given)},
        *(copied_evenly(arena_bytes(tensor), 1) for tensor in given),
    )


def _run(graph: Graph) -> Loops:
    return {"subgraph": 1, "nested operator": len(graph.operators)}


def _if(call: Call) -> LoopCounts:
    """Of the branches, that with more operators."""
    branches = [call.model.subgraphs[integer(call, f"{name}_subgraph_index")] for name in ("then", "else")]
    inputs = [call.input(position) for position in range(1, len(call.operator.inputs))]
    outputs = [call.output(position) for position in range(len(call.operator.outputs))]
    longer = max(branches, key=lambda graph: len(graph.operators))
    return LoopCounts("branch", together(_handed_over(inputs), _handed_over(outputs), _run(longer)))


def _while(call: Call) -> LoopCounts:
    """Everything is handed to the condition, and to the outputs; each turn to the body, from it, and to the condition.

    One turn is counted where the file does not tell how many there are.
    """
    condition, body = (call.model.subgraphs[integer(call, f"{name}_subgraph_index")] for name in ("cond", "body"))
    count = iterations(call.model, call.graph, call.operator)
    number = 1 if count is None else count
    handed = _handed_over([call.output(position) for position in range(len(call.operator.outputs))])
    return LoopCounts(
        "loop",
        together(
            {"turn": number},
            repeated(2 + 3 * number, handed),
            repeated(number + 1, _run(condition)),
            repeated(number, _run(body)),
        ),
    )


def _call_once_loops(_: Call) -> LoopCounts:
    return LoopCounts("again", {})


def _handle(_: Call) -> LoopCounts:
    return LoopCounts("handle", {})


def _read(call: Call) -> LoopCounts:
    value = call.required_output()
    return LoopCounts("copy", together({"axis": len(value.shape)}, copied_evenly(arena_bytes(value), 1)))


def _assign(call: Call) -> LoopCounts:
    value = call.required_input(1)
    return LoopCounts("copy", together({"axis": len(value.shape)}, copied_evenly(arena_bytes(value), 1)))


LOOPS: dict[str, LoopRule] = {
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _call_once_loops,
    "IF": _if,
    "READ_VARIABLE": _read,
    "VAR_HANDLE": _handle,
    "WHILE": _while,
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS)
