"""Resource variables in native programs. Each is a tensor of the main graph, behind the tensors of the .tflite.

A CALL_ONCE whose subgraph assigns constants is no step: init and reset write the constants. TFLM runs the subgraph at
the first invocation, which is the same if no operator accesses these variables before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgetool.codegen.native.program import Constant, RowInput, Step, describe
from edgetool.codegen.native.site import NUMPY_TYPES, Initial, Lowering, Site
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Tensor
from edgetool.operators.call import zero_point
from edgetool.operators.control import assignments, resource_variables

ACCESSES = ("ASSIGN_VARIABLE", "READ_VARIABLE")


def variable_tensors(model: Model) -> tuple[Tensor, ...]:
    """Return a tensor of bytes for each resource variable, in TFLM's order.

    Its zero point is the byte that TFLM fills it with: that of the first tensor that an operator assigns to it, as int8
    for every type (MicroResourceVariables::Allocate, micro_resource_variable.cc).
    """
    names = resource_variables(model)
    if not names:
        return ()
    sizes, zero_points = [0] * len(names), [0] * len(names)
    for (graph, position), assignment in assignments(model).items():
        number = assignment.variable
        if assignment.first and number is not None and 0 <= number < len(names):
            operator = model.subgraphs[graph].operators[position]
            value = model.subgraphs[graph].tensors[operator.inputs[1]]
            sizes[number] = assignment.size_bytes or 0
            zero_points[number] = (zero_point(value) + 128) % 256 - 128
    first = len(model.main.tensors)
    return tuple(
        Tensor(
            index=first + number,
            name=name,
            shape=(sizes[number],),
            dtype=DType.INT8,
            data=None,
            quantization=Quantization((1.0,), (zero_points[number],), 0),
            is_variable=True,
        )
        for number, (_, name) in enumerate(names)
    )


def _variable(site: Site, graph: Graph, operator: Operator, size_bytes: int) -> int:
    """Return the tensor of the variable that an operator accesses. Raises UnsupportedModelError if there is none."""
    assignment = assignments(site.model).get((graph.index, operator.index))
    number = None if assignment is None else assignment.variable
    if number is None or number not in range(len(resource_variables(site.model))):
        site.refuse("its variable is unknown")
    index = len(site.model.main.tensors) + number
    site.require(
        size_bytes == variable_tensors(site.model)[number].size_bytes,
        "its variable is never assigned, or has another size",
    )
    return index


def _var_handle(site: Site) -> Iterable[Step]:
    site.require(site.operator.outputs[0] not in site.graph.outputs, "its handle is an output of the model")
    return ()


def _assign_variable(site: Site) -> Iterator[Step]:
    value = site.input(1)
    yield copy_step(site, site.index(1), _variable(site, site.graph, site.operator, value.size_bytes), value.size_bytes)


def _read_variable(site: Site) -> Iterator[Step]:
    size = site.output().size_bytes
    yield copy_step(site, _variable(site, site.graph, site.operator, size), site.operator.outputs[0], size)


def copy_step(site: Site, source: int | Constant, output: int, size_bytes: int) -> Step:
    """Return a copy of the first bytes of a tensor or constant to another tensor."""
    return Step(
        operator=site.operator.index,
        kernel="edgetool_assign",
        op=describe("edgetool_assign", bytes=size_bytes),
        inputs=(RowInput(source, row_bytes=size_bytes),),
        output=output,
        row_bytes=size_bytes,
    )


def _call_once(site: Site) -> Iterator[Initial]:
    graph = site.model.subgraphs[site.option("init_subgraph_index", 0)]
    accessed = {
        _variable(site, site.graph, operator, _accessed_bytes(site.graph, operator))
        for operator in site.graph.operators[: site.operator.index]
        if operator.code in ACCESSES
    }
    for operator in graph.operators:
        if operator.code == "VAR_HANDLE":
            continue
        value = graph.tensors[operator.inputs[1]] if operator.code == "ASSIGN_VARIABLE" else None
        if value is None or value.data is None or value.dtype not in NUMPY_TYPES or value.sparsity is not None:
            site.refuse("its subgraph does more than assign constants")
        variable = _variable(site, graph, operator, len(value.data))
        site.require(variable not in accessed, "its variables are accessed before it")
        yield Initial(variable, value.data)


def _accessed_bytes(graph: Graph, operator: Operator) -> int:
    index = operator.inputs[1] if operator.code == "ASSIGN_VARIABLE" else operator.outputs[0]
    return graph.tensors[index].size_bytes


LOWERINGS: dict[str, Lowering] = {
    "ASSIGN_VARIABLE": _assign_variable,
    "CALL_ONCE": _call_once,
    "READ_VARIABLE": _read_variable,
    "VAR_HANDLE": _var_handle,
}
