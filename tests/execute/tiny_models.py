"""Tiny .tflite files, one per thing to run, built with the generated classes that come with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

flatbuffers: Any = pytest.importorskip("flatbuffers")
schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")

DTYPES = {np.dtype(np.float32): 0, np.dtype(np.int32): 2, np.dtype(np.int8): 9}


@dataclass
class Builder:
    """Collects tensors and operators of one subgraph; `finish` gives the file."""

    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    codes: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: Any = np.float32,
        *,
        data: np.ndarray | None = None,
        scale: float | None = None,
        zero_point: int = 0,
        variable: bool = False,
    ) -> int:
        made = schema.TensorT()
        made.name = f"t{len(self.tensors)}"
        made.shape = list(shape)
        made.type = DTYPES[np.dtype(dtype)]
        made.isVariable = variable
        made.buffer = 0
        if data is not None:
            made.buffer = len(self.buffers)
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.astype(dtype).tobytes(), np.uint8)
            self.buffers.append(buffer)
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = [scale]
            made.quantization.zeroPoint = [zero_point]
        self.tensors.append(made)
        return len(self.tensors) - 1

    def operator(self, name: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> None:
        """`name` as the schema has it; options: table="AddOptions" and its fields."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = options.pop("version", 1)
        made = schema.OperatorT()
        made.opcodeIndex = len(self.codes)
        made.inputs = list(inputs)
        made.outputs = list(outputs)
        if "table" in options:
            table = options.pop("table")
            made.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            made.builtinOptions = getattr(schema, f"{table}T")()
            for key, value in options.items():
                assert hasattr(made.builtinOptions, key)
                setattr(made.builtinOptions, key, value)
        self.codes.append(code)
        self.operators.append(made)

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        graph = schema.SubGraphT()
        graph.tensors = self.tensors
        graph.operators = self.operators
        graph.inputs = list(inputs)
        graph.outputs = list(outputs)
        model = schema.ModelT()
        model.version = 3
        model.description = "tiny"
        model.operatorCodes = self.codes
        model.subgraphs = [graph]
        model.buffers = self.buffers
        out = flatbuffers.Builder(1024)
        out.Finish(model.Pack(out), b"TFL3")
        return bytes(out.Output())


def add_and_subtract() -> bytes:
    """Float a, b -> a - b, a + b: the order of inputs and outputs shows."""
    build = Builder()
    a, b, difference, total = (build.tensor([1, 3]) for _ in range(4))
    build.operator("SUB", [a, b], [difference], table="SubOptions")
    build.operator("ADD", [a, b], [total], table="AddOptions")
    return build.finish([a, b], [difference, total])


def last_three(size: int = 1) -> bytes:
    """Float x (1, size) -> the sum of the last three x[0], kept in a variable tensor by SVDF."""
    build = Builder()
    x = build.tensor([1, size])
    feature = build.tensor([1, size], data=np.eye(1, size))
    time = build.tensor([1, 3], data=np.ones((1, 3)))
    bias = build.tensor([1], data=np.zeros(1))  # TFLM dies without one
    state = build.tensor([1, 3], variable=True)
    y = build.tensor([1, 1])
    build.operator("SVDF", [x, feature, time, bias, state], [y], table="SVDFOptions", rank=1)
    return build.finish([x], [y])


def dense(inputs: int, outputs: int, seed: int) -> bytes:
    """int8 x (1, inputs) -> FULLY_CONNECTED (1, outputs), random weights, scales that keep it in range."""
    generator = np.random.default_rng(seed)
    build = Builder()
    x = build.tensor([1, inputs], np.int8, scale=1 / 128, zero_point=-3)
    weights = build.tensor(
        [outputs, inputs], np.int8, data=generator.integers(-127, 128, (outputs, inputs)), scale=1 / 127
    )
    bias = build.tensor([outputs], np.int32, data=generator.integers(-9999, 9999, outputs), scale=1 / 128 / 127)
    y = build.tensor([1, outputs], np.int8, scale=inputs**0.5 / 128, zero_point=5)
    build.operator("FULLY_CONNECTED", [x, weights, bias], [y], table="FullyConnectedOptions", version=4)
    return build.finish([x], [y])


def gelu() -> bytes:
    """Float GELU, which LiteRT has and TFLM has not."""
    build = Builder()
    x, y = build.tensor([1, 4]), build.tensor([1, 4])
    build.operator("GELU", [x], [y], table="GeluOptions", approximate=False)
    return build.finish([x], [y])


def wide(size: int) -> bytes:
    """Float x (1, size) -> x + x: an activation of any size."""
    build = Builder()
    x, y = build.tensor([1, size]), build.tensor([1, size])
    build.operator("ADD", [x, x], [y], table="AddOptions")
    return build.finish([x], [y])
