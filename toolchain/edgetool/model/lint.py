"""Findings about models that are well-formed but unusual: one for each rule that applies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

from edgetool.errors import InvalidModelError
from edgetool.finding import Finding, Level
from edgetool.model.types import DType, Graph, Model, Tensor
from edgetool.model.views import views_of

_MAX_NAME_SHOWN = 60


@dataclass(frozen=True, slots=True)
class _ModelRule:
    """name: the finding's rule. message: what is unusual and why that matters. places: finds where it is the case.

    level: the finding's level, for a rule that has several.
    """

    name: str
    message: str
    places: Callable[[Model], Iterable[str]]
    level: Level | None = None


def model_findings(model: Model) -> tuple[Finding, ...]:
    """Return one finding per rule that applies, with the number of places and the first one."""
    findings = []
    for rule in _RULES:
        places = list(rule.places(model))
        if places:
            findings.append(Finding(rule.name, f"{rule.message}: {len(places)}", where=places[0], level=rule.level))
    return tuple(findings)


def _place(model: Model, graph: Graph, tensor: Tensor) -> str:
    """Return a tensor's index and name, in printable characters."""
    subgraph = f"subgraph {graph.index} " if len(model.subgraphs) > 1 else ""
    return f"{subgraph}tensor {tensor.index}" + (f" {tensor.name[:_MAX_NAME_SHOWN]!a}" if tensor.name else "")


def _tensors_where(predicate: Callable[[Tensor], bool]) -> Callable[[Model], Iterator[str]]:
    """Return a function that yields the tensors for which `predicate` is true."""

    def places(model: Model) -> Iterator[str]:
        for graph in model.subgraphs:
            for tensor in graph.tensors:
                if predicate(tensor):
                    yield _place(model, graph, tensor)

    return places


def _tensors_in_graph_where(find: Callable[[Graph], Iterable[int]]) -> Callable[[Model], Iterator[str]]:
    """Return a function that yields the tensors whose indices `find` returns for each subgraph."""

    def places(model: Model) -> Iterator[str]:
        for graph in model.subgraphs:
            for index in find(graph):
                yield _place(model, graph, graph.tensors[index])

    return places


def _empty(graph: Graph) -> Iterator[int]:
    """Return the empty tensors, except intermediates, which are always empty."""
    intermediates = {index for operator in graph.operators for index in operator.intermediates}
    return (tensor.index for tensor in graph.tensors if 0 in tensor.shape and tensor.index not in intermediates)


def _odd_quantized_dimension(tensor: Tensor) -> bool:
    quantization = tensor.quantization
    return quantization is not None and not 0 <= quantization.axis < max(1, len(tensor.shape))


def _used_odd_dimension(tensor: Tensor) -> bool:
    """Return whether the invalid dimension has an effect: kernels read it only if there is a scale per channel."""
    return _odd_quantized_dimension(tensor) and tensor.quantization is not None and len(tensor.quantization.scales) > 1


def _unused_odd_dimension(tensor: Tensor) -> bool:
    return _odd_quantized_dimension(tensor) and not _used_odd_dimension(tensor)


def _odd_scale(tensor: Tensor) -> bool:
    return tensor.quantization is not None and any(
        not isfinite(scale) or scale <= 0 for scale in tensor.quantization.scales
    )


MIN_RANGE = 4e-6
_RANGES = {
    DType.INT4: (-8, 7),
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
}


def _odd_zero_point(tensor: Tensor) -> bool:
    if tensor.quantization is None or tensor.dtype not in _RANGES:
        return False
    low, high = _RANGES[tensor.dtype]
    return any(not low <= zero_point <= high for zero_point in tensor.quantization.zero_points)


_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


def _filters_with_zero_point(graph: Graph) -> Iterator[int]:
    """Return the filters with a nonzero zero point, which kernels assume to be 0."""
    filters = {index for op in graph.operators if op.code in _CONVOLUTIONS for index in op.inputs[1:2]}
    for index in sorted(filters - {-1}):
        tensor = graph.tensors[index]
        if tensor.dtype in (DType.INT8, DType.INT4) and tensor.quantization and any(tensor.quantization.zero_points):
            yield index


def _vanishing(tensor: Tensor) -> bool:
    """Return whether an activation's range is close to the smallest that TensorFlow's calibrator produces, +-1e-6."""
    if tensor.is_constant or tensor.quantization is None or tensor.dtype not in _RANGES:
        return False
    low, high = _RANGES[tensor.dtype]
    return any(0 < scale * (high - low) < MIN_RANGE for scale in tensor.quantization.scales)


def _referenced(graph: Graph) -> set[int]:
    """Return the tensors that an operator or the graph's interface uses."""
    referenced = {*graph.inputs, *graph.outputs}
    for operator in graph.operators:
        referenced.update(operator.inputs, operator.outputs, operator.intermediates)
    return referenced


def _dead(graph: Graph) -> Iterator[int]:
    referenced = _referenced(graph)
    return (t.index for t in graph.tensors if t.index not in referenced and not t.is_constant)


def _unused_constants(graph: Graph) -> Iterator[int]:
    referenced = _referenced(graph)
    return (t.index for t in graph.tensors if t.index not in referenced and t.is_constant)


def _never_written(graph: Graph) -> Iterator[int]:
    """Return the tensors that are read, or are graph outputs, but are never written.

    A custom operator may take its scratch memory as an input (Arm's ethos-u does).
    """
    written = set(graph.inputs).union(*(operator.outputs for operator in graph.operators))
    builtin = (operator for operator in graph.operators if operator.code != "CUSTOM")
    read = set(graph.outputs).union(*(operator.inputs for operator in builtin))
    for index in sorted(read - written - {-1}):
        if not graph.tensors[index].is_constant and not graph.tensors[index].is_variable:
            yield index


def _without_views(places: Callable[[Model], Iterator[str]]) -> Callable[[Model], Iterator[str]]:
    """Return a function that leaves out views and their parents, which are written as parts of each other."""

    def others(model: Model) -> Iterator[str]:
        try:
            parts = {index for view in views_of(model) for index in (view.tensor, view.parent)}
        except InvalidModelError:
            parts = set()  # the planner refuses the model
        known = {_place(model, model.main, model.main.tensors[index]) for index in parts}
        return (place for place in places(model) if place not in known)

    return others


def _read_too_early(graph: Graph) -> Iterator[int]:
    """Return the tensors that an operator reads before the operator that writes them has run."""
    written_at: dict[int, int] = {}
    for operator in graph.operators:
        for index in operator.outputs:
            written_at.setdefault(index, operator.index)
    graph_inputs = set(graph.inputs)
    early = {
        index
        for operator in graph.operators
        for index in operator.inputs
        if written_at.get(index, -1) >= operator.index
        and index not in graph_inputs
        and not graph.tensors[index].is_variable
    }
    return iter(sorted(early))


def _written_twice(graph: Graph) -> Iterator[int]:
    writers = Counter(graph.inputs)
    writers.update(index for operator in graph.operators for index in operator.outputs)
    return (i for i, count in sorted(writers.items()) if count > 1 and not graph.tensors[i].is_variable)


def _written_constants(graph: Graph) -> Iterator[int]:
    written = set(graph.inputs).union(*(operator.outputs for operator in graph.operators))
    return (index for index in sorted(written) if graph.tensors[index].is_constant)


def _shared_names(graph: Graph) -> Iterator[int]:
    names = Counter(tensor.name for tensor in graph.tensors)
    return (tensor.index for tensor in graph.tensors if tensor.name and names[tensor.name] > 1)


def _repeated_metadata(model: Model) -> Iterator[str]:
    names = Counter(entry.name for entry in model.metadata)
    return (f"metadata {name[:_MAX_NAME_SHOWN]!a}" for name, count in names.items() if count > 1)


def _with_shape_conflict(model: Model) -> Iterator[str]:
    for graph in model.subgraphs:
        subgraph = f"subgraph {graph.index} " if len(model.subgraphs) > 1 else ""
        yield from (f"{subgraph}operator {op.index} {op.code}" for op in graph.operators if op.shape_conflict)


def _unknown_fields(model: Model) -> Iterable[str]:
    return model.unknown_fields


_RULES = (
    _ModelRule(
        "written-constants",
        "constants that an operator writes or that are inputs of the model, although they are in flash on the device",
        _tensors_in_graph_where(_written_constants),
    ),
    _ModelRule(
        "unsettled-shapes",
        "operators with incompatible tensor shapes, because their sizes are known only when the model runs",
        _with_shape_conflict,
    ),
    _ModelRule(
        "never-written",
        "tensors that are read but never written, so that their contents are undefined",
        _without_views(_tensors_in_graph_where(_never_written)),
    ),
    _ModelRule(
        "read-too-early",
        "tensors that are read before the operator that writes them has run",
        _tensors_in_graph_where(_read_too_early),
    ),
    _ModelRule(
        "written-twice",
        "tensors with more than one writer",
        _tensors_in_graph_where(_written_twice),
    ),
    _ModelRule(
        "quantized-dimension",
        "tensors with a quantized dimension that does not exist in their shape",
        _tensors_where(_used_odd_dimension),
        level="warning",
    ),
    _ModelRule(
        "quantized-dimension",
        "tensors with one scale and a quantized dimension that does not exist in their shape; TFLM ignores it",
        _tensors_where(_unused_odd_dimension),
        level="note",
    ),
    _ModelRule(
        "odd-scales",
        "tensors with a scale that is not a positive number",
        _tensors_where(_odd_scale),
    ),
    _ModelRule(
        "vanishing-ranges",
        "activations that stayed at zero in calibration: the model is untrained, or the data does not match it",
        _tensors_where(_vanishing),
    ),
    _ModelRule(
        "odd-zero-points",
        "tensors with a zero point that their type cannot represent",
        _tensors_where(_odd_zero_point),
    ),
    _ModelRule(
        "filter-zero-points",
        "filters of convolutions with a nonzero zero point; kernels assume that it is 0 and compute different results",
        _tensors_in_graph_where(_filters_with_zero_point),
    ),
    _ModelRule(
        "dynamic-shapes",
        "tensors with a dimension of unknown size, other than the batch; all figures are for the size in their shape",
        _tensors_where(lambda tensor: -1 in tensor.shape_signature[1:]),
    ),
    _ModelRule(
        "dead-tensors",
        "tensors that belong to no operator, for which TensorFlow Lite Micro allocates memory anyway",
        _without_views(_tensors_in_graph_where(_dead)),
    ),
    _ModelRule(
        "unused-constants",
        "constants that no operator uses, which waste flash",
        _tensors_in_graph_where(_unused_constants),
    ),
    _ModelRule(
        "empty-tensors",
        "tensors with a dimension of 0, which have no elements",
        _tensors_in_graph_where(_empty),
    ),
    _ModelRule(
        "unnamed-tensors",
        "tensors without a name, which are identified by their index",
        _tensors_where(lambda tensor: not tensor.name),
    ),
    _ModelRule(
        "shared-names",
        "tensors that share a name with another tensor, which are identified by their index",
        _tensors_in_graph_where(_shared_names),
    ),
    _ModelRule(
        "repeated-metadata",
        "metadata names that occur more than once; runtimes differ in which entry they use",
        _repeated_metadata,
    ),
    _ModelRule(
        "unknown-fields",
        "fields that are newer than this version of edgetool, which ignores them",
        _unknown_fields,
    ),
)
