"""Node data for Google's Model Explorer: the time, arena, multiply-accumulates and error of each operator as colours.

The viewer shows one figure per file. The format is that of ModelNodeData in its package ai-edge-model-explorer
(node_data_builder.py), with nodes and graphs named as by the adapter with which it opens .tflite files
(direct_flatbuffer_to_json_graph_convert.cc).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetool.model.scopes import layer_of
from edgetool.model.types import Graph, Model
from edgetool.report.document import Report
from edgetool.report.moments import Moments, arena_bytes, moves_bytes, operator_macs

# By operator, as (subgraph, index).
Values = Mapping[tuple[int, int], float | int]

FIGURES = ("time", "arena", "macs", "error")
LOW, HIGH = "#fff5eb", "#d94801"
GRADIENT = [{"stop": 0, "bgColor": LOW}, {"stop": 1, "bgColor": HIGH}]
NO_SUMS = {"hideAggregatedStats": ["sum", "avg"], "hideInChildrenStatsTable": True}
DIGITS = 4
# A JavaScript object cannot have this property, so that the viewer would not find a tensor of this name.
NO_KEY = "__proto__"


@dataclass(frozen=True, slots=True)
class NodeData:
    """A file for each of FIGURES that is known, as a JSON value, and a sentence for everything that the files lack."""

    files: dict[str, dict[str, Any]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of operators. title: its name in the viewer. adds_up: whether sums over operators have a meaning."""

    title: str
    values: Values
    adds_up: bool = True


def node_data(report: Report, model: Model, moments: Moments) -> NodeData:
    """Return the node data of a model.

    A figure that is not known of any operator has no file: the time without an estimate, and the error unless the
    quantization of layers was measured.

    Args:
        report: The report on the plan.
        model: The model of its file.
        moments: Those of the plan.
    """
    target = "" if report.target is None else f", {report.target.name}"
    errors, unmatched = _errors(report, model)
    figures = {
        "time": _Figure(f"time in ms{' of moving bytes' * moves_bytes(report)}{target}", _times(report)),
        "arena": _Figure(f"arena in bytes{target}", arena_bytes(moments), adds_up=False),
        "macs": _Figure(f"MACs{target}", operator_macs(report, model)),
        "error": _Figure("error in quantization steps", errors, adds_up=False),
    }
    ids = graph_ids(model)
    used = Counter(ids)
    graphs = [(ids[graph.index], graph, node_keys(graph)) for graph in model.subgraphs if used[ids[graph.index]] == 1]
    files = {
        name: {
            identifier: data
            for identifier, graph, keys in graphs
            if (data := _graph_data(figure, graph, keys))["results"]
        }
        for name, figure in figures.items()
    }
    nameless = sum(len(graph.operators) - len(keys) for _, graph, keys in graphs)
    notes = (
        (len(ids) - len(graphs), "subgraphs have no data: Model Explorer cannot tell them apart, by their names"),
        (nameless, "operators have no data: in Model Explorer, their numbers are the names of tensors"),
        (unmatched, "measured layers have no operator, by the names of its tensors: their errors are missing"),
    )
    return NodeData(
        {name: data for name, data in files.items() if data},
        tuple(f"{count:,} {text}" for count, text in notes if count),
    )


def graph_ids(model: Model) -> list[str]:
    """Return the names of the subgraphs in the viewer: their own, that of a signature, or a number."""
    signatures = {item.subgraph: item.key for item in reversed(model.signatures)}
    return [
        graph.name or signatures.get(graph.index) or ("main" if graph.index == 0 else f"subgraph_{graph.index}")
        for graph in model.subgraphs
    ]


def node_keys(graph: Graph) -> dict[int, str]:
    """Return the key of each operator, without those that have none.

    It is the operator's position in the file. But the viewer prefers a tensor of that name: then it is the name of an
    output that no other operator writes, if no other tensor has it.
    """
    names = Counter(tensor.name for tensor in graph.tensors)
    writers = Counter((*graph.inputs, *(index for operator in graph.operators for index in operator.outputs)))
    keys = {}
    for operator in graph.operators:
        own = [graph.tensors[index].name for index in operator.outputs if index >= 0 and writers[index] == 1]
        names_of_it = [name for name in own if names[name] == 1 and name != NO_KEY]
        if str(operator.index) not in names:
            keys[operator.index] = str(operator.index)
        elif names_of_it:
            keys[operator.index] = names_of_it[0]
    return keys


def _graph_data(figure: _Figure, graph: Graph, keys: Mapping[int, str]) -> dict[str, Any]:
    results = {
        key: {"value": figure.values[graph.index, operator]}
        for operator, key in keys.items()
        if (graph.index, operator) in figure.values
    }
    return {"results": results, "name": figure.title, "gradient": GRADIENT, **({} if figure.adds_up else NO_SUMS)}


def _times(report: Report) -> Values:
    if report.estimate is None:
        return {}
    return {(item.subgraph, item.index): _rounded(item.ms.value) for item in report.estimate.operators}


def _errors(report: Report, model: Model) -> tuple[Values, int]:
    """Return the errors of the operators of measured layers, and the number of layers of which there is no operator.

    A layer is known by its name, which is in those of the tensors, and by the kind of the operator.
    """
    losses = () if report.quantization is None else report.quantization.layers
    by_layer = {item.name: item for item in losses if item.name}
    values, matched = {}, set()
    for operator in model.main.operators:
        outputs = [model.main.tensors[index].name for index in operator.outputs if index >= 0]
        loss = by_layer.get(layer_of(outputs, by_layer) or "")
        if loss is not None and loss.operator == operator.label:
            values[0, operator.index] = _rounded(loss.rmse_over_scale)
            matched.add(loss.name)
    return values, len(losses) - len(matched)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
