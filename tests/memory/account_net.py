"""A builder of models with any operator of any type: for the models on which the arena's account is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from struct import pack
from typing import Any

from edgetool.model.schema import OPTION_TABLES
from edgetool.model.types import DType, Graph, Model
from tests.model.builders import Builder, options

# The scale of an activation where a model does not care.
SCALES = {DType.INT8: 1 / 16, DType.UINT8: 1 / 16, DType.INT16: 1 / 2048}
# What a convolution's weights and bias are, by the type of its activations.
PARAMETERS = {
    DType.INT8: (DType.INT8, DType.INT32),
    DType.INT16: (DType.INT8, DType.INT64),
    DType.FLOAT32: (DType.FLOAT32, DType.FLOAT32),
}
CODES = {DType.BOOL: "?", DType.INT8: "b", DType.UINT8: "B", DType.INT16: "h", DType.INT32: "i", DType.INT64: "q"}


@dataclass
class Net(Builder):
    """Collects a model of several subgraphs. Each layer takes the index of its input and gives that of its output."""

    finished: list[Graph] = field(default_factory=list)

    def arena(
        self,
        *shape: int,
        dtype: DType = DType.INT8,
        scale: float | None = None,
        zero_point: int = 0,
        is_variable: bool = False,
    ) -> int:
        """A tensor without contents; quantized where its type usually is."""
        own = SCALES.get(dtype) if scale is None else scale
        scales = () if own is None else (own,)
        return self.tensor(shape, dtype, scales=scales, zero_point=zero_point, is_variable=is_variable)

    def constant(self, values: Sequence[int], *shape: int, dtype: DType = DType.INT32, scale: float = 0) -> int:
        """A tensor that holds these integers; of one dimension unless a shape is given."""
        data = pack(f"<{len(values)}{CODES[dtype]}", *values)
        return self.tensor(shape or (len(values),), dtype, data=data, scales=(scale,) if scale else ())

    def scalar(self, value: int, dtype: DType = DType.INT32) -> int:
        """A tensor without dimensions."""
        return self.tensor((), dtype, data=pack(f"<{CODES[dtype]}", value))

    def noise(self, *shape: int, dtype: DType = DType.INT8, axis: int | None = None, scale: float = 1 / 128) -> int:
        """A constant of seeded noise: per channel along `axis`, per tensor when that is None; int4 packed."""
        count = prod(shape)
        if dtype == DType.FLOAT32:
            return self.tensor(
                shape, dtype, data=pack(f"<{count}f", *(self.random.uniform(-1, 1) for _ in range(count)))
            )
        number = -(-count // 2) if dtype == DType.INT4 else count
        data = pack(f"<{number}{CODES.get(dtype, 'b')}", *(self.random.randrange(-100, 101) for _ in range(number)))
        return self.tensor(
            shape, dtype, data=data, scales=[scale] * (1 if axis is None else shape[axis]), axis=axis or 0
        )

    def op(
        self,
        code: str,
        inputs: Sequence[int],
        *shape: int,
        dtype: DType | None = None,
        scale: float | None = None,
        zero_point: int = 0,
        **values: Any,
    ) -> int:
        """An operator with one output: of the first input's shape and type unless stated otherwise."""
        first = self.tensors[inputs[0]] if inputs else None
        if first is not None:
            shape, dtype = shape or first.shape, dtype or first.dtype
        y = self.arena(*shape, dtype=dtype or DType.INT8, scale=scale, zero_point=zero_point)
        self.give(code, inputs, [y], **values)
        return y

    def give(self, code: str, inputs: Sequence[int], outputs: Sequence[int], **values: Any) -> None:
        """An operator with these outputs."""
        self.operator(code, inputs, outputs, options(OPTION_TABLES[code], **values) if values else None)

    def custom(self, code: str, inputs: Sequence[int], outputs: Sequence[int], given: bytes | None = None) -> None:
        """A custom operator."""
        self.operator("CUSTOM", inputs, outputs, custom_code=code, custom_options=given)

    def filter(self, *shape: int, like: int, axis: int | None = 0) -> int:
        """Weights for activations of this tensor's type."""
        dtype = PARAMETERS[self.tensors[like].dtype][0]
        return self.noise(*shape, dtype=dtype, axis=None if dtype == DType.FLOAT32 else axis)

    def biases(self, size: int, *, like: int) -> int:
        """A bias for activations of this tensor's type and scale, and weights of scale 1/128."""
        own = self.tensors[like].quantization
        return self.noise(
            size,
            dtype=PARAMETERS[self.tensors[like].dtype][1],
            axis=None,
            scale=own.scales[0] / 128 if own is not None else 0,
        )

    def end_graph(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """What was collected since the last one is a subgraph; the first is the main one."""
        self.finished.append(self.graph(inputs, outputs, len(self.finished), f"graph_{len(self.finished)}"))
        self.tensors, self.operators = [], []

    def whole(self) -> Model:
        """The model of all subgraphs."""
        return Model(3, "made for a test", tuple(self.codes), tuple(self.finished), tuple(self.data))
