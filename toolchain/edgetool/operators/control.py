"""Control flow and resource variables: Prepare and loop counts.

Sources of Prepare: if.cc, while.cc, call_once.cc, var_handle.cc, read_variable.cc, assign_variable.cc,
micro_resource_variable.cc.

Sources of the loop counts: if.cc, while.cc, call_once.cc, var_handle.cc, read_variable.cc, assign_variable.cc,
kernel_util.cc, micro_interpreter_graph.cc. The rule of CALL_ONCE describes every run but the first.
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
    input_type,
    int32_words,
    integer_option,
    no_requests,
    persistent,
    prepare_rule,
    require,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import LoopCounts, LoopRule, Loops, combined, repeated, strided_memcpy_loops


def _subgraph(call: Call, option: str) -> Graph:
    index, count = integer_option(call, option), len(call.model.subgraphs)
    require(call, 0 <= index < count, f"calls subgraph {index}, but the model has only {count}")
    return call.model.subgraphs[index]


def _check_branches(call: Call) -> None:
    """Require a single bool condition, and a first branch with the operator's numbers of inputs and outputs.

    The kernel does not check the second branch.
    """
    input_type(0, DType.BOOL)(call)
    elements = call.required_input(0).element_count
    require(call, elements == 1, f"requires one condition, not {elements}")
    then = _subgraph(call, "then_subgraph_index")
    _subgraph(call, "else_subgraph_index")
    input_count, output_count = len(call.operator.inputs) - 1, len(call.operator.outputs)
    for side, number, expected in (
        ("inputs", len(then.inputs), input_count),
        ("outputs", len(then.outputs), output_count),
    ):
        require(call, number == expected, f"calls a subgraph with the wrong number of {side}: {number}, not {expected}")


def _prepare_while(call: Call) -> Iterable[Request]:
    """Require the condition and body to have the operator's number of inputs, and the body its number of outputs."""
    input_count, output_count = len(call.operator.inputs), len(call.operator.outputs)
    condition, body = _subgraph(call, "cond_subgraph_index"), _subgraph(call, "body_subgraph_index")
    counts = {input_count, output_count, len(condition.inputs), len(body.inputs), len(body.outputs)}
    require(call, len(counts) == 1, "has a different number of inputs or outputs from its subgraphs")
    # The kernel does not check this, but reads the first output.
    require(call, len(condition.outputs) > 0, "uses a condition subgraph that has no outputs")
    return ()


def _prepare_call_once(call: Call) -> Iterable[Request]:
    _subgraph(call, "init_subgraph_index")
    return ()


def _prepare_assign_variable(call: Call) -> Iterator[Request]:
    """Request the variable's bytes if no earlier operator of any subgraph assigned to it."""
    input_type(0, DType.RESOURCE, DType.INT32)(call)
    handle, value = call.required_input(0), call.required_input(1)
    require(call, handle.element_count == 1, f"requires one variable, not {handle.element_count}")
    yield from call.temporary_inputs(1)
    assignment = call.assignments[call.graph.index, call.operator.index]
    if assignment.variable is None:
        return  # The handle is created in another subgraph, so only Invoke knows the variable.
    variable_count = assignment.variable_count
    require(
        call,
        0 <= assignment.variable < variable_count,
        f"assigns to variable {assignment.variable}, but there are only {variable_count}",
    )
    _check_variable_size(call, assignment, value)
    if assignment.first:
        yield persistent("resource variable", arena_bytes(value))


def _prepare_read_variable(call: Call) -> Iterator[Request]:
    call.required_input(0)
    yield from call.temporary_inputs(0)
    assignment = call.assignments.get((call.graph.index, call.operator.index))
    if assignment is not None:
        _check_variable_size(call, assignment, call.required_output())


def _check_variable_size(call: Call, assignment: Assignment, tensor: Tensor) -> None:
    """Require the tensor to have the variable's size.

    Only debug builds check it; others copy the variable's size, whatever the tensor's size is.
    """
    variable_bytes, tensor_bytes = assignment.size_bytes, arena_bytes(tensor)
    require(
        call,
        variable_bytes in (None, tensor_bytes),
        f"copies {variable_bytes} bytes between a variable and a tensor of {tensor_bytes} bytes",
    )


def resource_variables(model: Model) -> tuple[tuple[str | None, str], ...]:
    """Return the resource variables by (container, shared name) in TFLM's order; the firmware has room for each."""
    variables = _Variables()
    for graph in model.subgraphs:
        for operator in graph.operators:
            variables.prepare(graph, operator)
    return tuple(variables.names)


def assignments(model: Model) -> dict[tuple[int, int], Assignment]:
    """Return the assignment of each ASSIGN_VARIABLE and READ_VARIABLE, by (subgraph, operator).

    Operators are prepared subgraph by subgraph.
    """
    variables = _Variables()
    by_operator: dict[tuple[int, int], Assignment] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.code in ("ASSIGN_VARIABLE", "READ_VARIABLE") and operator.inputs and operator.inputs[0] >= 0:
                variable = variables.of(graph, graph.tensors[operator.inputs[0]])
                first = operator.code == "ASSIGN_VARIABLE" and variable not in variables.sizes_bytes
                by_operator[graph.index, operator.index] = Assignment(variable, len(variables.names), first)
            variables.prepare(graph, operator)
    sizes_bytes = variables.sizes_bytes
    return {
        place: replace(
            assignment, size_bytes=sizes_bytes.get(assignment.variable) if assignment.variable is not None else None
        )
        for place, assignment in by_operator.items()
    }


class _Variables:
    """The resource variables that prepared operators have created, as TFLM numbers them, and their sizes in bytes."""

    def __init__(self) -> None:
        self.names: list[tuple[str | None, str]] = []
        self.numbers: dict[tuple[str | None, str], int] = {}
        self.handles: dict[tuple[int, int], int] = {}
        self.sizes_bytes: dict[int, int | None] = {}  # only of assigned variables

    def of(self, graph: Graph, handle: Tensor) -> int | None:
        """Return the number of the tensor's variable; None if no prepared operator has created the handle."""
        if handle.is_constant:
            return next(iter(int32_words(handle)), None)
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
            # A handle without a container refers to the first variable with that name in any container.
            self.numbers.setdefault((None, shared_name), len(self.names))
            self.names.append(key)
        return self.numbers[key]


def _variable_name(operator: Operator) -> tuple[str | None, str]:
    """Return the container (None if the file contains none) and the shared name of a VAR_HANDLE."""
    fields = dict(operator.options.fields) if operator.options is not None else {}
    container, shared_name = fields.get("container"), fields.get("shared_name")
    return (container if isinstance(container, str) else None), (shared_name if isinstance(shared_name, str) else "")


PREPARE: dict[str, PrepareRule] = {
    "ASSIGN_VARIABLE": _prepare_assign_variable,
    "CALL_ONCE": _prepare_call_once,
    "IF": prepare_rule((0,), (), _check_branches),
    "READ_VARIABLE": _prepare_read_variable,
    # TFLM rejects too many variables here, but the firmware reserves room for all.
    "VAR_HANDLE": no_requests,
    "WHILE": _prepare_while,
}


def _tensor_copies(tensors: Sequence[Tensor | None]) -> Loops:
    """Return the loops that copy each tensor once to or from a subgraph."""
    present = [tensor for tensor in tensors if tensor is not None]
    return combined(
        {"tensor": len(present), "axis": sum(len(tensor.shape) for tensor in present)},
        *(strided_memcpy_loops(arena_bytes(tensor), 1) for tensor in present),
    )


def _subgraph_loops(graph: Graph) -> Loops:
    return {"subgraph": 1, "nested operator": len(graph.operators)}


def _if_loops(call: Call) -> LoopCounts:
    """Return the loops of IF with the branch that has more operators."""
    branches = [call.model.subgraphs[integer_option(call, f"{name}_subgraph_index")] for name in ("then", "else")]
    inputs = [call.input(position) for position in range(1, len(call.operator.inputs))]
    outputs = [call.output(position) for position in range(len(call.operator.outputs))]
    longer = max(branches, key=lambda graph: len(graph.operators))
    return LoopCounts("branch", combined(_tensor_copies(inputs), _tensor_copies(outputs), _subgraph_loops(longer)))


def _while_loops(call: Call) -> LoopCounts:
    """Return the loops of WHILE; one iteration is counted if the file does not determine how many there are.

    All tensors are copied to the condition and to the outputs. Each iteration copies them to the body, from it, and to
    the condition.
    """
    condition, body = (
        call.model.subgraphs[integer_option(call, f"{name}_subgraph_index")] for name in ("cond", "body")
    )
    count = iterations(call.model, call.graph, call.operator)
    iteration_count = 1 if count is None else count
    copies = _tensor_copies([call.output(position) for position in range(len(call.operator.outputs))])
    return LoopCounts(
        "loop",
        combined(
            {"turn": iteration_count},
            repeated(2 + 3 * iteration_count, copies),
            repeated(iteration_count + 1, _subgraph_loops(condition)),
            repeated(iteration_count, _subgraph_loops(body)),
        ),
    )


def _call_once_loops(_: Call) -> LoopCounts:
    return LoopCounts("again", {})


def _var_handle_loops(_: Call) -> LoopCounts:
    return LoopCounts("handle", {})


def _read_variable_loops(call: Call) -> LoopCounts:
    value = call.required_output()
    return LoopCounts("copy", combined({"axis": len(value.shape)}, strided_memcpy_loops(arena_bytes(value), 1)))


def _assign_variable_loops(call: Call) -> LoopCounts:
    value = call.required_input(1)
    return LoopCounts("copy", combined({"axis": len(value.shape)}, strided_memcpy_loops(arena_bytes(value), 1)))


LOOPS: dict[str, LoopRule] = {
    "ASSIGN_VARIABLE": _assign_variable_loops,
    "CALL_ONCE": _call_once_loops,
    "IF": _if_loops,
    "READ_VARIABLE": _read_variable_loops,
    "VAR_HANDLE": _var_handle_loops,
    "WHILE": _while_loops,
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS)
