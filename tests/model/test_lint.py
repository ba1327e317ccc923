"""Oddities in a model: one finding for each kind, with how many and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgetool.model.lint import model_findings
from edgetool.model.types import DType, Graph, Metadata, Model, Quantization, Tensor
from tests.model.builders import ALL, Builder, conv_model, if_model, options, residual_model

Change = Callable[[Graph], Graph]


def changed(change: Change) -> Model:
    """One convolution, changed: tensors x, weights, bias, y."""
    model = conv_model()
    return replace(model, subgraphs=(change(model.main),))


def with_tensor(index: int, **changes: object) -> Change:
    def change(graph: Graph) -> Graph:
        tensors = list(graph.tensors)
        tensors[index] = replace(tensors[index], **changes)
        return replace(graph, tensors=tuple(tensors))

    return change


def with_more(**changes: object) -> Change:
    """With a further tensor that nothing mentions."""

    def change(graph: Graph) -> Graph:
        extra = Tensor(4, "extra", (2,), DType.INT8, None, None, is_variable=False)
        return replace(graph, tensors=(*graph.tensors, replace(extra, **changes)))

    return change


def with_operators(*indices: tuple[tuple[int, ...], tuple[int, ...]], code: str = "CONV_2D") -> Change:
    def change(graph: Graph) -> Graph:
        base = replace(graph.operators[0], code=code)
        return replace(
            graph,
            operators=tuple(
                replace(base, index=i, inputs=inputs, outputs=outputs) for i, (inputs, outputs) in enumerate(indices)
            ),
        )

    return change


CASES: dict[str, tuple[Change, str, int, str]] = {
    "output is constant": (with_operators(((0, 1, 2), (1,)), ((0, 1, 2), (3,))), "written-constants", 1, "tensor 1"),
    "input is constant": (lambda graph: replace(graph, inputs=(0, 2)), "written-constants", 1, "tensor 2"),
    "nothing writes it": (lambda graph: replace(graph, inputs=()), "never-written", 1, "tensor 0"),
    "output from nowhere": (with_operators(((0, 1, 2), (0,))), "never-written", 1, "tensor 3"),
    "order": (lambda g: with_operators(((3, 1, 2), (4,)), ((0, 1, 2), (3,)))(with_more()(g)), "read-too-early", 1, "3"),
    "reads itself": (with_operators(((3, 1, 2), (3,)), ((0, 1, 2), (3,))), "read-too-early", 1, "tensor 3"),
    "two writers": (with_operators(((0, 1, 2), (3,)), ((0, 1, 2), (3,))), "written-twice", 1, "tensor 3"),
    "input has a writer": (with_operators(((0, 1, 2), (0,)), ((0, 1, 2), (3,))), "written-twice", 1, "tensor 0"),
    "axis": (with_tensor(1, quantization=Quantization((1.0, 2.0), (0, 0), 4)), "quantized-dimension", 1, "tensor 1"),
    "negative axis": (with_tensor(1, quantization=Quantization((1.0,), (0,), -1)), "quantized-dimension", 1, "1"),
    "zero scale": (with_tensor(1, quantization=Quantization((0.0,), (0,), 0)), "odd-scales", 1, "tensor 1"),
    "vanishing range": (
        with_tensor(0, quantization=Quantization((7.9e-9,), (0,), 0)),
        "vanishing-ranges",
        1,
        "tensor 0",
    ),
    "scale not a number": (with_tensor(1, quantization=Quantization((float("nan"),), (0,), 0)), "odd-scales", 1, "1"),
    "zero point of a filter": (
        with_tensor(1, quantization=Quantization((0.5,) * 8, (0,) * 7 + (1,), 0)),
        "filter-zero-points",
        1,
        "tensor 1",
    ),
    "zero point": (with_tensor(3, quantization=Quantization((1.0,), (128,), 0)), "odd-zero-points", 1, "tensor 3"),
    "unknown height": (with_tensor(0, shape_signature=(1, -1, 8, 3)), "dynamic-shapes", 1, "tensor 0"),
    "dead": (with_more(), "dead-tensors", 1, "tensor 4 'extra'"),
    "unused constant": (with_more(data=b"ab"), "unused-constants", 1, "tensor 4"),
    "no elements": (with_tensor(0, shape=(1, 0, 8, 3)), "empty-tensors", 1, "tensor 0"),
    "no name": (with_tensor(2, name=""), "unnamed-tensors", 1, "tensor 2"),
    "same name": (with_tensor(1, name="tensor_0"), "shared-names", 2, "tensor 0"),
}


@pytest.mark.parametrize(("change", "rule", "count", "place"), CASES.values(), ids=CASES)
def test_one_oddity_gives_one_finding(change: Change, rule: str, count: int, place: str) -> None:
    found = [finding for finding in model_findings(changed(change)) if finding.rule == rule]
    assert len(found) == 1
    assert found[0].message.endswith(f": {count}")
    assert place in str(found[0].where)


def test_sound_models_have_none() -> None:
    for make in ALL.values():
        assert model_findings(make()) == ()


@pytest.mark.parametrize(
    "change",
    [
        with_tensor(0, shape_signature=(-1, 8, 8, 3)),  # the batch
        with_tensor(1, quantization=None),
        with_operators(((0, -1, 4), (3,)), code="CUSTOM"),  # its scratch, taken as an input
    ],
)
def test_common_properties_cause_no_finding(change: Change) -> None:
    quiet = {"never-written", "dynamic-shapes", "odd-scales", "quantized-dimension"}
    model = changed(lambda graph: change(with_more()(graph)))
    assert not quiet & {finding.rule for finding in model_findings(model)}


def test_a_flood_is_one_finding() -> None:
    model = residual_model()
    tensors = tuple(replace(tensor, name="") for tensor in model.main.tensors)
    (finding,) = model_findings(replace(model, subgraphs=(replace(model.main, tensors=tensors),)))
    assert finding.message.endswith(f": {len(tensors)}")
    assert finding.where == "tensor 0"


def test_subgraphs_are_distinguished() -> None:
    model = if_model()
    graph = model.subgraphs[2]
    nameless = replace(graph, tensors=(graph.tensors[0], replace(graph.tensors[1], name="")))
    (finding,) = model_findings(replace(model, subgraphs=(*model.subgraphs[:2], nameless)))
    assert finding.where == "subgraph 2 tensor 1"


def test_a_state_may_be_read_before_it_is_written() -> None:
    build = Builder()
    x = build.tensor([1, 2], DType.FLOAT32)
    state = build.tensor([1, 2], DType.FLOAT32, is_variable=True)
    y = build.tensor([1, 2], DType.FLOAT32)
    build.operator("ADD", [x, state], [y], options("AddOptions"))
    assert model_findings(build.model([x], [y])) == ()


def test_what_belongs_to_the_file() -> None:
    model = conv_model()
    repeated = (Metadata("twice", b"", 0), Metadata("twice", b"", 0))
    odd = replace(model, metadata=repeated, unknown_fields=("Operator.field 14", "Tensor.field 11"))
    findings = {finding.rule: finding for finding in model_findings(odd)}
    assert findings["repeated-metadata"].where == "metadata 'twice'"
    assert findings["unknown-fields"].message.endswith(": 2")
    assert len(findings) == 2


def test_hostile_names_stay_printable() -> None:
    model = changed(with_more(name="\x1b[31m\n" + "y" * 1000))
    (finding,) = model_findings(model)
    assert str(finding.where).isprintable()
    assert len(str(finding.where)) < 300
