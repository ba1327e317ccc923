"""Models for the cases of `edgetool check`, and what stands beside them in a project."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.report.document import Accuracy, ModelInfo, OutputInfo, Provenance, QuantizationInfo, Report
from edgetool.report.json import document, to_json
from tests.model.builders import Builder, branches_model, unary_model


def classifier(wide: int = 16, classes: int = 10) -> bytes:
    """A small classifier of images; `wide` sets the channels of its third convolution."""
    build = Builder(seed=8)
    x = build.activation([1, 32, 32, 3], name="image")
    y = build.conv(x, 8, stride=2)
    y = build.conv(build.depthwise(y), wide, kernel=1)
    y = build.conv(build.depthwise(y, stride=2), 16, kernel=1)
    return write_model(build.model([x], [build.softmax(build.dense(build.flatten(build.average(y)), classes))]))


def custom() -> bytes:
    """A custom operator that TFLM does not have."""
    build = Builder(seed=9)
    x, y = build.activation([1, 16, 16, 4]), build.activation([1, 16, 16, 4])
    build.operator("CUSTOM", [build.conv(x, 4)], [y], custom_code="FancyFilter")
    return write_model(build.model([x], [y]))


def unsupported() -> bytes:
    """An operator that TFLM lacks."""
    return write_model(unary_model("GELU"))


def unordered() -> bytes:
    """A model whose file holds no plan, and for which one saves much."""
    return write_model(branches_model())


def hostile() -> bytes:
    """The classifier with tensors named to break whatever shows them."""
    build = Builder(seed=8)
    x = build.activation([1, 32, 32, 3], name="image")
    y = build.conv(build.conv(x, 8, stride=2), 16, kernel=1)
    model: Model = build.model([x], [build.softmax(build.dense(build.flatten(build.average(y)), 10))])
    names = (f"::error::{index} <b>|`@team`|</b>\n::error::x ]]>\x1b[31m\u202e##[add-mask]#1" for index in range(99))
    graphs = tuple(
        replace(graph, tensors=tuple(replace(item, name=next(names)) for item in graph.tensors))
        for graph in model.subgraphs
    )
    return write_model(replace(model, subgraphs=graphs))


def conversion_report(model: bytes, before: float, after: float) -> str:
    """What `edgetool convert --evaluate` writes beside a model: its accuracy before and after quantization."""
    made = ModelInfo("model.h5", "0" * 64, 1, 1, 1, 1, OutputInfo(sha256(model).hexdigest(), len(model)))
    quantization = QuantizationInfo("int8", True, 100, accuracy=Accuracy(before, after))
    return to_json(document(Report(Provenance("edgetool", {}, {}, False), made, quantization)))
