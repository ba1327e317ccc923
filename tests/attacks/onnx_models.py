"""Hostile ONNX models: files outside the model's directory, bombs, code and control flow. Needs the onnx package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.attacks.base import Attack


def model(*, change: Callable[[Any], None] | None = None, opset: int = 17) -> Any:
    """A ModelProto of one Gemm with 4 inputs and 2 outputs, after a change."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((4, 2), np.float32), "weights")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "weights"], ["y"], "gemm")],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [weights],
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    assert isinstance(built, onnx.ModelProto)
    if change is not None:
        change(built)
    return built


def changed(change: Callable[[Any], None], message: str) -> Attack:
    return Attack(lambda: model(change=change).SerializeToString(), message)


def external(**entries: str) -> Callable[[Any], None]:
    def change(built: Any) -> None:
        tensor = built.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    return change


def _node(kind: str, domain: str = "") -> Callable[[Any], None]:
    def change(built: Any) -> None:
        built.graph.node[0].op_type = kind
        built.graph.node[0].domain = domain

    return change


def _huge(built: Any) -> None:
    built.graph.initializer[0].dims[:] = [2**20, 2**20]


def _attribute(built: Any) -> None:
    built.graph.node[0].attribute.add(name="evil", type=2, i=1)


def _undefined(built: Any) -> None:
    built.graph.node[0].input[0] = "nowhere"


def _opset(version: int) -> Callable[[Any], None]:
    def change(built: Any) -> None:
        built.opset_import[0].version = version

    return change


ATTACKS: dict[str, Attack] = {
    "onnx-data-in-etc": changed(external(location="/etc/passwd"), "not a file beside the model"),
    "onnx-data-above": changed(external(location="../secret"), "not a file beside the model"),
    "onnx-data-in-a-folder": changed(external(location="folder/secret"), "not a file beside the model"),
    "onnx-data-on-windows": changed(external(location="C:\\secret"), "not a file beside the model"),
    "onnx-data-in-a-link": changed(external(location="link"), "in an unsafe way"),
    "onnx-data-in-a-pipe": changed(external(location="pipe"), "is not a regular file"),
    "onnx-data-at-a-negative-offset": changed(external(location="data", offset="-8"), "in an unsafe way"),
    "onnx-data-of-4-gib": changed(external(location="data", length="4294967296"), "more than a .tflite"),
    "onnx-data-too-short": changed(external(location="data", length="1000"), "is too short"),
    "onnx-data-at-no-number": changed(external(location="data", offset="x"), "without a valid position"),
    "onnx-data-missing": changed(external(location="missing"), "cannot be read"),
    "onnx-tensor-of-tera-elements": changed(_huge, "has 1099511627776 elements"),
    "onnx-loop": changed(_node("Loop"), "is a loop"),
    "onnx-custom-domain": changed(_node("PyOp", "ai.onnx.contrib"), "is a custom operator of the domain"),
    "onnx-opset-too-old": changed(_opset(7), "uses version 7 of the ONNX operators"),
    "onnx-opset-too-new": changed(_opset(999), "uses version 999 of the ONNX operators"),
    "onnx-unknown-operator": changed(_node("Evil"), r"node 'gemm' \(Evil\): is not an ONNX operator of version 17"),
    "onnx-operator-of-a-later-version": changed(
        _node("Gelu"), r"of version 17 \(opset\); export it with opset_version="
    ),
    "onnx-invalid-attribute": changed(_attribute, r"node 'gemm' \(Gemm\): is not valid ONNX: Unrecognized attribute"),
    "onnx-undefined-input": changed(_undefined, "is not valid ONNX: .* input 'nowhere' of node: name: gemm"),
    "onnx-format-too-new": changed(lambda built: setattr(built, "ir_version", 999), "version 999 of the file format"),
    "onnx-without-a-version": changed(lambda built: built.ClearField("opset_import"), "has no version of the ONNX"),
    "onnx-without-a-graph": changed(lambda built: built.ClearField("graph"), "is not an ONNX model: it has no graph"),
    "onnx-not-protobuf": Attack(lambda: b"\x08\x08\xff\xff\xff\xff", "the file is damaged"),
    "onnx-empty": Attack(lambda: b"", "the file is empty"),
    "onnx-web-page": Attack(lambda: b"<!doctype html>", "is a web page, not an ONNX model; download the file itself"),
    "onnx-program": Attack(
        lambda: b"PK\x03\x04model/data/weights/weight_0",
        "a PyTorch program, .* not an ONNX model; rename it to end in .pt2",
    ),
}
