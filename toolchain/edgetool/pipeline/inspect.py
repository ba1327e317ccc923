"""Describe the contents of a .tflite as a document that JSON can represent."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.model.lint import model_findings
from edgetool.model.types import Graph, Model, Operator, Options, Quantization, Tensor
from edgetool.operators.registry import OperatorCost, operator_costs
from edgetool.pipeline.reporting import finding_infos, model_info
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import SCHEMA, Provenance
from edgetool.report.json import plain


def inspect_model(path: Path) -> dict[str, Any]:
    """Return the document: model, totals, subgraphs with operators and tensors, signatures, metadata and findings."""
    source = open_tflite(path)
    model = source.model
    costs = operator_costs(model)
    return {
        "schema": SCHEMA,
        "provenance": plain(Provenance(f"edgetool {__version__}", {"python": platform.python_version()}, {}, False)),
        "model": plain(model_info(source)),
        "description": model.description,
        "totals": _totals(model, costs),
        "subgraphs": [
            _subgraph(graph, [cost for cost in costs if cost.subgraph == graph.index]) for graph in model.subgraphs
        ],
        "signatures": [
            {
                "key": signature.key,
                "subgraph": signature.subgraph,
                "inputs": dict(signature.inputs),
                "outputs": dict(signature.outputs),
            }
            for signature in model.signatures
        ],
        "metadata": [{"name": entry.name, "bytes": len(entry.data)} for entry in model.metadata],
        "findings": plain(finding_infos(model_findings(model))),
    }


def _totals(model: Model, costs: tuple[OperatorCost, ...]) -> dict[str, int]:
    """Return sums over all subgraphs; data_bytes counts each constant payload once, the other sums once per use."""
    constants = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors if tensor.is_constant}
    return {
        "macs": sum(cost.macs for cost in costs),
        "parameter_bytes": sum(cost.parameter_bytes for cost in costs),
        "activation_bytes": sum(cost.activation_bytes for cost in costs),
        "data_bytes": sum(len(model.data[buffer] or b"") for buffer in constants),
    }


def _subgraph(graph: Graph, costs: list[OperatorCost]) -> dict[str, Any]:
    return {
        "index": graph.index,
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "operators": [_operator(item, cost) for item, cost in zip(graph.operators, costs, strict=True)],
        "tensors": [_tensor(tensor) for tensor in graph.tensors],
    }


def _operator(operator: Operator, cost: OperatorCost) -> dict[str, Any]:
    return {
        "index": operator.index,
        "operator": operator.code,
        "custom_code": operator.custom_code,
        "version": operator.version,
        "inputs": list(operator.inputs),
        "outputs": list(operator.outputs),
        "options": None if operator.options is None else _option_value(operator.options),
        "macs": cost.macs,
        "parameter_bytes": cost.parameter_bytes,
        "activation_bytes": cost.activation_bytes,
    }


def _option_value(value: object) -> object:
    """Return an option table as nested dicts; bytes become hexadecimal digits."""
    if isinstance(value, Options):
        return {name: _option_value(item) for name, item in value.fields}
    if isinstance(value, tuple):
        return [_option_value(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)  # JSON cannot represent these numbers
    return value


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "index": tensor.index,
        "name": tensor.name,
        "shape": list(tensor.shape),
        "shape_signature": list(tensor.shape_signature),
        "dtype": tensor.dtype.name,
        "bytes": tensor.size_bytes if tensor.data is None else len(tensor.data),
        "constant": tensor.is_constant,
        "variable": tensor.is_variable,
        "sparse": tensor.sparsity is not None,
        "quantization": _quantization(tensor.quantization),
    }


def _quantization(quantization: Quantization | None) -> dict[str, Any] | None:
    if quantization is None or not quantization.scales:
        return None
    return {
        "scales": _option_value(quantization.scales),
        "zero_points": list(quantization.zero_points),
        "axis": quantization.axis,
        "per_channel": quantization.per_channel,
    }
