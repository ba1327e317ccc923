"""Node data, read by the types of Model Explorer's own package, and put on the nodes that its own adapter makes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetool.model.types import Graph, Model, Signature
from edgetool.model.writer import write_model
from edgetool.pipeline.reporting import Described
from edgetool.pipeline.viewers import FILES, moments_of, viewer_files
from edgetool.report.document import Histogram, LayerLoss, QuantizationInfo
from edgetool.report.model_explorer import FIGURES, NodeData, graph_ids, node_data, node_keys
from edgetool.target.types import Target
from tests import hostile_names
from tests.memory import account_structures
from tests.model.builders import Builder, chain_model, conv_model, if_model, residual_model
from tests.report.described import DESKTOP, M4, NATIVE, ROWS, described

HISTOGRAM = Histogram(0.0, 1.0, (1,))


def data_of(item: Described) -> NodeData:
    return node_data(item.report, item.source.model, moments_of(item))


def named(model: Model, **names: str) -> Model:
    """The model with other names of tensors of the main graph, by index: t3="x"."""
    renamed = {int(key[1:]): name for key, name in names.items()}
    tensors = (replace(item, name=renamed.get(item.index, item.name)) for item in model.main.tensors)
    return replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)), *model.subgraphs[1:]))


def values(data: NodeData, figure: str, graph: str = "main") -> dict[str, float]:
    return {key: result["value"] for key, result in data.files[figure][graph]["results"].items()}


# ---- as the viewer reads it


def adapted(model: Model) -> list[dict[str, Any]]:
    """The graphs that the adapter of Model Explorer makes of the file."""
    adapter = pytest.importorskip("ai_edge_model_explorer_adapter", reason="pip install ai-edge-model-explorer")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(write_model(model))
        text = adapter.ConvertFlatbufferDirectlyToJson(adapter.VisualizeConfig(), str(path))
    return [graph for collection in json.loads(text) for graph in collection["subgraphs"]]


def seen(graph: dict[str, Any], results: dict[str, Any]) -> dict[str, float]:
    """The values on the nodes of a graph: a key is the name of a tensor or, if there is none, of a node.

    As in node_data_provider_extension_service.ts, the last of several tensors of a name counts.
    """
    nodes = {
        attribute["value"]: node["id"]
        for node in graph["nodes"]
        for output in node["outputsMetadata"]
        for attribute in output["attrs"]
        if attribute["key"] == "tensor_name"
    }
    placed = Counter(nodes.get(key, key) for key in results)
    assert set(placed) <= {node["id"] for node in graph["nodes"]}
    assert all(count == 1 for count in placed.values())
    return {nodes.get(key, key): result["value"] for key, result in results.items()}


MODELS: dict[str, Callable[[], Model]] = {
    "residual": residual_model,
    "if": if_model,
    "branches": account_structures.branches,
    "loop": account_structures.loop,
    "variables": account_structures.variables,
    "numbers": lambda: named(chain_model(4), **{f"t{index}": str(index % 5) for index in range(9)}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_value_is_on_the_node_of_its_operator(name: str) -> None:
    model = MODELS[name]()
    item = described(model)
    data = data_of(item)
    graphs = {graph["id"]: graph for graph in adapted(model)}
    assert list(graphs) == graph_ids(item.source.model)
    assert item.report.estimate is not None
    macs = {(info.subgraph, info.index): info.macs for info in item.report.estimate.operators}
    on_nodes = {
        (index, int(node)): value
        for index, graph in enumerate(graphs)
        if graph in data.files["macs"]
        for node, value in seen(graphs[graph], data.files["macs"][graph]["results"]).items()
    }
    missing = 0 if not data.notes else sum(len(g.operators) - len(node_keys(g)) for g in model.subgraphs)
    assert on_nodes.items() <= macs.items()
    assert len(on_nodes) == len(macs) - missing
    assert bool(missing) == bool(data.notes)


@pytest.mark.parametrize(
    "make", [hostile_names.hostile_model, hostile_names.many_inputs, hostile_names.custom_operators]
)
def test_hostile_names_are_only_names(make: Callable[[], bytes]) -> None:
    item = described(make())
    model = item.source.model
    assert [graph["id"] for graph in adapted(model)] == graph_ids(model)
    data = data_of(item)
    assert not data.notes
    for graph in adapted(model):
        on_nodes = seen(graph, data.files["time"][graph["id"]]["results"])
        assert on_nodes.keys() == {str(operator.index) for operator in model.main.operators}
    for text in viewer_files(item, "model-explorer").files.values():
        assert text.isascii()
        assert "##" not in text


@pytest.mark.parametrize("first", range(0, len(hostile_names.NAMES), 7))
def test_a_graph_of_any_name_is_found(first: int) -> None:
    item = described(hostile_names.hostile_model(first))
    (identifier,) = graph_ids(item.source.model)
    assert [graph["id"] for graph in adapted(item.source.model)] == [identifier]
    assert list(data_of(item).files["arena"]) == [identifier]


def test_a_graph_without_a_name_has_that_of_its_signature_or_a_number() -> None:
    model = if_model()
    nameless = replace(model, subgraphs=tuple(replace(graph, name="") for graph in model.subgraphs))
    signatures = (Signature("first", 1, (), ()), Signature("second", 1, (), ()))
    for item in (nameless, replace(nameless, signatures=signatures)):
        assert [graph["id"] for graph in adapted(item)] == graph_ids(item)
    assert graph_ids(replace(nameless, signatures=signatures)) == ["main", "first", "subgraph_2"]


@pytest.mark.parametrize("target", [M4, NATIVE, ROWS, DESKTOP, None], ids=["tflm", "native", "rows", "desktop", "none"])
def test_the_package_reads_the_files(target: Target | None) -> None:
    builder = pytest.importorskip("model_explorer.node_data_builder", reason="pip install ai-edge-model-explorer")
    dacite = pytest.importorskip("dacite")
    files = viewer_files(described(conv_model(), target), "model-explorer").files
    assert set(files) <= set(FILES["model-explorer"])
    for text in files.values():
        graphs = {
            key: dacite.from_dict(builder.GraphNodeData, graph, dacite.Config(strict=True))
            for key, graph in json.loads(text).items()
        }
        assert json.loads(builder.ModelNodeData(graphs).to_json_string()) == {
            key: {**plain_defaults(builder), **graph} for key, graph in json.loads(text).items()
        }


def plain_defaults(builder: Any) -> dict[str, Any]:
    """What the package writes of a graph for which nothing is set."""
    value: dict[str, Any] = json.loads(builder.GraphNodeData({}).to_json_string())
    return value


# ---- what is in the files


def test_figures_are_those_of_the_report() -> None:
    item = described(residual_model())
    data, report = data_of(item), item.report
    assert report.estimate is not None
    assert report.plan is not None
    assert report.plan.peak is not None
    assert set(data.files) == set(FIGURES) - {"error"}
    infos = {str(info.index): info for info in report.estimate.operators}
    assert values(data, "macs") == {key: info.macs for key, info in infos.items()}
    assert values(data, "time") == pytest.approx({key: info.ms.value for key, info in infos.items()}, rel=1e-3)
    assert max(values(data, "arena").values()) == report.plan.peak.bytes
    assert data.files["time"]["main"]["name"] == "time in ms, cortex-m4"


def test_what_is_unknown_has_no_file() -> None:
    title = data_of(described(residual_model(), DESKTOP)).files["time"]["main"]["name"]
    assert title == "time in ms of moving bytes, desktop"
    assert set(data_of(described(residual_model(), None)).files) == {"arena", "macs"}
    build = Builder()
    x = build.activation([1, 16])
    assert data_of(described(build.model([x], [x]))) == NodeData({}, ())


def test_errors_belong_to_the_operators_of_measured_layers() -> None:
    item = described(named(residual_model(), **{f"t{index}": name for index, name in outputs().items()}))
    losses = (loss("first", "CONV_2D", 0.31234567), loss("second", "CONV_2D", 4.0), loss("gone", "CONV_2D", 5.0))
    report = replace(item.report, quantization=QuantizationInfo("int8", True, 10, layers=losses))
    data = node_data(report, item.source.model, moments_of(item))
    kinds = {str(operator.index): operator.label for operator in item.source.model.main.operators}
    first = next(key for key, label in kinds.items() if label == "CONV_2D")
    assert values(data, "error") == {first: 0.3123}
    assert data.notes == ("2 measured layers have no operator, by the names of its tensors: their errors are missing",)


def outputs() -> dict[int, str]:
    """Names of Keras for the outputs of the first two operators, of which the second is no convolution."""
    first, second, *_ = residual_model().main.operators
    assert second.label != "CONV_2D"
    return {first.outputs[0]: "model/first/Relu;model/first/BiasAdd", second.outputs[0]: "model/second/Relu"}


def loss(name: str, operator: str, rmse: float) -> LayerLoss:
    return LayerLoss(name, "Conv2D", operator, 30.0, rmse, 0.1, 0.0, 1.0, 1, 0, 1.0, HISTOGRAM)


def test_subgraphs_of_one_name_have_no_data_and_a_note() -> None:
    model = if_model()
    item = described(
        replace(model, subgraphs=tuple(replace(g, name=n) for g, n in zip(model.subgraphs, "aba", strict=True)))
    )
    data = data_of(item)
    assert all(list(graphs) == ["b"] for graphs in data.files.values())
    assert len(data.notes) == 1
    assert "2 subgraphs" in data.notes[0]


def keys(graph: Graph, **names: str) -> dict[int, str]:
    model = chain_model(2)
    return node_keys(named(replace(model, subgraphs=(graph,)), **names).main)


def test_numbers_as_names_of_tensors_take_no_values_of_operators() -> None:
    graph = chain_model(2).main
    first, second = graph.operators
    x, y, z = (f"t{index}" for index in (graph.inputs[0], first.outputs[0], second.outputs[0]))
    assert keys(graph) == {0: "0", 1: "1"}
    assert keys(graph, **{x: "1", z: "z"}) == {0: "0", 1: "z"}
    assert keys(graph, **{y: "1", z: "0"}) == {0: "1", 1: "0"}
    assert keys(graph, **{x: "1", y: "z", z: "z"}) == {0: "0"}
    assert keys(graph, **{x: "1", z: "__proto__"}) == {0: "0"}
    twice = replace(graph, operators=(first, replace(second, outputs=first.outputs)))
    assert keys(twice, **{x: "1", y: "y"}) == {0: "0"}
    given = replace(graph, inputs=(*graph.inputs, *second.outputs))
    assert keys(given, **{x: "1", z: "z"}) == {0: "0"}
