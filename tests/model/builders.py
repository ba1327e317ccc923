"""Small models of our own, as Model values: for tests that need a model and nothing else.

`write_model(conv_model())` gives a file that LiteRT and TFLM run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import Any

from edgetool.model.schema import OPTION_TABLES, table
from edgetool.model.types import (
    DType,
    Graph,
    Model,
    Operator,
    OperatorCode,
    Options,
    Quantization,
    Signature,
    Tensor,
)
from edgetool.model.writer import write_model

ACTIVATION_SCALE = 1 / 16  # powers of two are the same number in 32 and 64 bits
WEIGHT_SCALE = 1 / 128


def options(name: str, **values: Any) -> Options:
    """An option table with the schema's defaults for what is not given."""
    defaults = table(name).defaults
    assert values.keys() <= defaults.keys()
    return Options(name, tuple({**defaults, **values}.items()))


@dataclass
class Builder:
    """Collects a model. Each layer takes the index of its input and gives that of its output."""

    seed: int = 0
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    codes: list[OperatorCode] = field(default_factory=list)
    data: list[bytes | None] = field(default_factory=lambda: [None])

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: DType = DType.INT8,
        *,
        data: bytes | None = None,
        scales: Sequence[float] = (),
        zero_point: int = 0,
        axis: int = 0,
        name: str | None = None,
        is_variable: bool = False,
    ) -> int:
        """Add a tensor, a constant one when data is given; its index."""
        if data is not None:
            self.data.append(data)
        quantization = None
        if scales:
            quantization = Quantization(tuple(scales), (zero_point,) * len(scales), axis)
        index = len(self.tensors)
        self.tensors.append(
            Tensor(
                index=index,
                name=f"tensor_{index}" if name is None else name,
                shape=tuple(shape),
                dtype=dtype,
                data=data,
                quantization=quantization,
                is_variable=is_variable,
                buffer=0 if data is None else len(self.data) - 1,
            )
        )
        return index

    def activation(self, shape: Sequence[int], **values: Any) -> int:
        """An int8 tensor in the arena."""
        return self.tensor(shape, scales=(ACTIVATION_SCALE,), **values)

    def operator(
        self,
        code: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        given: Options | None = None,
        *,
        version: int = 1,
        custom_code: str | None = None,
        custom_options: bytes | None = None,
    ) -> None:
        """Add an operator; options default to those of its table."""
        entry = OperatorCode(code, version, custom_code)
        if entry not in self.codes:
            self.codes.append(entry)
        if given is None and code in OPTION_TABLES:
            given = options(OPTION_TABLES[code])
        self.operators.append(
            Operator(
                index=len(self.operators),
                code=code,
                version=version,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                options=given,
                opcode_index=self.codes.index(entry),
                custom_code=custom_code,
                custom_options=custom_options,
            )
        )

    def weights(self, shape: Sequence[int], axis: int | None = None) -> int:
        """A constant int8 tensor of seeded noise, per channel along `axis`, per tensor when that is None."""
        count = 1
        for dimension in shape:
            count *= dimension
        data = bytes(self.random.randrange(-127, 128) & 0xFF for _ in range(count))
        scales = [WEIGHT_SCALE] * (1 if axis is None else shape[axis])
        return self.tensor(shape, data=data, scales=scales, axis=axis or 0)

    def bias(self, size: int, *, per_channel: bool) -> int:
        """A constant int32 vector."""
        values = [self.random.randrange(-500, 500) for _ in range(size)]
        scales = [ACTIVATION_SCALE * WEIGHT_SCALE] * (size if per_channel else 1)
        return self.tensor([size], DType.INT32, data=pack(f"<{size}i", *values), scales=scales)

    def conv(self, x: int, channels: int, kernel: int = 3, stride: int = 1) -> int:
        """CONV_2D, SAME, RELU."""
        batch, height, width, depth = self.tensors[x].shape
        inputs = [x, self.weights([channels, kernel, kernel, depth], 0), self.bias(channels, per_channel=True)]
        y = self.activation([batch, -(-height // stride), -(-width // stride), channels])
        given = options("Conv2DOptions", stride_w=stride, stride_h=stride, fused_activation_function="RELU")
        self.operator("CONV_2D", inputs, [y], given, version=3)
        return y

    def depthwise(self, x: int, kernel: int = 3, stride: int = 1) -> int:
        """DEPTHWISE_CONV_2D, SAME."""
        batch, height, width, depth = self.tensors[x].shape
        inputs = [x, self.weights([1, kernel, kernel, depth], 3), self.bias(depth, per_channel=True)]
        y = self.activation([batch, -(-height // stride), -(-width // stride), depth])
        given = options("DepthwiseConv2DOptions", stride_w=stride, stride_h=stride, depth_multiplier=1)
        self.operator("DEPTHWISE_CONV_2D", inputs, [y], given, version=3)
        return y

    def dense(self, x: int, units: int) -> int:
        """FULLY_CONNECTED of a matrix."""
        batch, depth = self.tensors[x].shape
        inputs = [x, self.weights([units, depth]), self.bias(units, per_channel=False)]
        y = self.activation([batch, units])
        self.operator("FULLY_CONNECTED", inputs, [y], version=4)
        return y

    def add(self, a: int, b: int) -> int:
        """ADD of two tensors of one shape."""
        y = self.activation(self.tensors[a].shape)
        self.operator("ADD", [a, b], [y], version=2)
        return y

    def average(self, x: int) -> int:
        """AVERAGE_POOL_2D over the whole image."""
        batch, height, width, depth = self.tensors[x].shape
        y = self.activation([batch, 1, 1, depth])
        given = options(
            "Pool2DOptions",
            padding="VALID",
            stride_w=width,
            stride_h=height,
            filter_width=width,
            filter_height=height,
        )
        self.operator("AVERAGE_POOL_2D", [x], [y], given, version=2)
        return y

    def flatten(self, x: int) -> int:
        """RESHAPE to a matrix."""
        batch, *rest = self.tensors[x].shape
        size = 1
        for dimension in rest:
            size *= dimension
        y = self.activation([batch, size])
        shape = self.tensor([2], DType.INT32, data=pack("<2i", batch, size))
        self.operator("RESHAPE", [x, shape], [y], options("ReshapeOptions", new_shape=(batch, size)))
        return y

    def softmax(self, x: int) -> int:
        """SOFTMAX with the scale and zero point that it must have."""
        y = self.tensor(self.tensors[x].shape, scales=(1 / 256,), zero_point=-128)
        self.operator("SOFTMAX", [x], [y], options("SoftmaxOptions", beta=1.0), version=2)
        return y

    def graph(self, inputs: Sequence[int], outputs: Sequence[int], index: int = 0, name: str = "main") -> Graph:
        """What was collected, as one subgraph."""
        return Graph(index, name, tuple(self.tensors), tuple(self.operators), tuple(inputs), tuple(outputs))

    def model(self, inputs: Sequence[int], outputs: Sequence[int]) -> Model:
        """What was collected, as a model with one subgraph and a signature."""
        return Model(
            version=3,
            description="made for a test",
            operator_codes=tuple(self.codes),
            subgraphs=(self.graph(inputs, outputs),),
            data=tuple(self.data),
            signatures=(
                Signature(
                    "serving_default",
                    0,
                    tuple((f"input_{i}", tensor) for i, tensor in enumerate(inputs)),
                    tuple((f"output_{i}", tensor) for i, tensor in enumerate(outputs)),
                ),
            ),
        )


def conv_model() -> Model:
    """One CONV_2D: (1, 8, 8, 3) to (1, 4, 4, 8), 3x3, stride 2, RELU."""
    build = Builder(seed=1)
    x = build.activation([1, 8, 8, 3])
    return build.model([x], [build.conv(x, 8, stride=2)])


def conv_model_bytes() -> bytes:
    """`conv_model` as a file."""
    return write_model(conv_model())


def depthwise_model() -> Model:
    """One DEPTHWISE_CONV_2D: (1, 8, 8, 4) to the same, 3x3."""
    build = Builder(seed=2)
    x = build.activation([1, 8, 8, 4])
    return build.model([x], [build.depthwise(x)])


def dense_model() -> Model:
    """One FULLY_CONNECTED: (1, 16) to (1, 10)."""
    build = Builder(seed=3)
    x = build.activation([1, 16])
    return build.model([x], [build.dense(x, 10)])


def add_model() -> Model:
    """One ADD of two inputs (1, 4, 4, 2)."""
    build = Builder(seed=4)
    a, b = build.activation([1, 4, 4, 2]), build.activation([1, 4, 4, 2])
    return build.model([a, b], [build.add(a, b)])


def residual_model() -> Model:
    """A classifier of 8 operators: convolutions, one residual ADD, pooling, FULLY_CONNECTED, SOFTMAX."""
    build = Builder(seed=5)
    x = build.activation([1, 16, 16, 3], name="image")
    stem = build.conv(x, 8, stride=2)
    branch = build.conv(build.depthwise(stem), 8, kernel=1)
    pooled = build.average(build.add(stem, branch))
    return build.model([x], [build.softmax(build.dense(build.flatten(pooled), 4))])


def branches_model() -> Model:
    """Two wide branches, built side by side: run one after the other they need about half as much."""
    build = Builder(seed=3)
    x = build.activation([1, 8, 8, 2])
    wide = [build.conv(x, 64), build.conv(x, 64)]
    return build.model([x], [build.add(*(build.conv(branch, 2) for branch in wide))])


def unary_model(code: str) -> Model:
    """One operator (1, 16) to (1, 16), which the runtime need not have."""
    build = Builder(seed=7)
    x, y = build.activation([1, 16]), build.activation([1, 16])
    build.operator(code, [x], [y])
    return build.model([x], [y])


def chain_model(operators: int) -> Model:
    """A chain of 1x1 CONV_2D, (1, 2, 2, 4) throughout."""
    build = Builder(seed=6)
    first = x = build.activation([1, 2, 2, 4])
    for _ in range(operators):
        x = build.conv(x, 4, kernel=1)
    return build.model([first], [x])


def if_model() -> Model:
    """Two inputs, a bool and (1, 4) float: IF the bool is true the ABS of the other, else its negative."""
    build = Builder()
    condition = build.tensor([1], DType.BOOL)
    x, y = (build.tensor([1, 4], DType.FLOAT32) for _ in range(2))
    given = options("IfOptions", then_subgraph_index=1, else_subgraph_index=2)
    build.operator("IF", [condition, x], [y], given)
    main = build.graph([condition, x], [y])
    branches = []
    for index, code in ((1, "ABS"), (2, "NEG")):
        build.tensors, build.operators = [], []
        x, y = (build.tensor([1, 4], DType.FLOAT32) for _ in range(2))
        build.operator(code, [x], [y])
        branches.append(build.graph([x], [y], index, code.lower()))
    return Model(3, "made for a test", tuple(build.codes), (main, *branches), tuple(build.data))


ALL = {
    "conv": conv_model,
    "depthwise": depthwise_model,
    "dense": dense_model,
    "add": add_model,
    "residual": residual_model,
    "if": if_model,
}
