"""Graphs of operators in float32 and int8 that compute their shapes, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from edgetool.model.schema import OPTION_TABLES
from edgetool.model.types import DType, Model
from tests.passes.runs import Net

FLOAT, INT8 = DType.FLOAT32, DType.INT8
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
# Of operators whose version is not 2.
VERSIONS = {"CUMSUM": 1, "LOG": 1, "NEG": 1, "PRELU": 1, "SELECT_V2": 1}


class Graph(Net):
    """A Net that also computes shapes."""

    def shape(self, tensor: int) -> tuple[int, ...]:
        return self.tensors[tensor].shape

    def dtype(self, tensor: int) -> DType:
        return self.tensors[tensor].dtype

    def noise(self, *shape: int, dtype: DType = FLOAT) -> int:
        values = np.random.default_rng(len(self.tensors)).integers(-20, 20, shape)
        return self.constant(values / 8 if dtype is FLOAT else values, dtype)

    def apply(self, code: str, inputs: Sequence[int], shape: Sequence[int] | None = None, **fields: Any) -> int:
        made = self.shape(inputs[0]) if shape is None else shape
        table, version = OPTION_TABLES.get(code, "") if fields else "", VERSIONS.get(code, 2)
        return self.add_operator(
            code, inputs, made, dtype=self.dtype(inputs[0]), table=table, version=version, **fields
        )[0]

    def transpose(self, x: int, order: Sequence[int]) -> int:
        return self.apply("TRANSPOSE", [x, self.constant(order)], [self.shape(x)[axis] for axis in order])

    def pixels(self, x: int, channels: int) -> int:
        """A 1x1 convolution of images whose channels are last."""
        weights, bias = self.noise(channels, 1, 1, self.shape(x)[3]), self.noise(channels)
        shape = (*self.shape(x)[:3], channels)
        return self.apply("CONV_2D", [x, weights, bias], shape, padding="VALID", stride_w=1, stride_h=1)

    def dense(self, x: int, units: int) -> int:
        rows, depth = prod(self.shape(x)[:-1]), self.shape(x)[-1]
        return self.apply("FULLY_CONNECTED", [x, self.noise(units, depth), self.noise(units)], (rows, units))

    def pad(self, x: int, *paddings: tuple[int, int]) -> int:
        shape = [size + before + after for size, (before, after) in zip(self.shape(x), paddings, strict=True)]
        return self.apply("PAD", [x, self.constant(paddings)], shape)

    def reduce(self, code: str, x: int, axes: Sequence[int], keep_dims: bool = False) -> int:
        kept = [1 if i in axes else size for i, size in enumerate(self.shape(x)) if keep_dims or i not in axes]
        return self.apply(code, [x, self.constant(axes)], kept, keep_dims=keep_dims)

    def concatenate(self, tensors: Sequence[int], axis: int) -> int:
        shape = list(self.shape(tensors[0]))
        shape[axis] = sum(self.shape(tensor)[axis] for tensor in tensors)
        return self.apply("CONCATENATION", tensors, shape, axis=axis)


def image(*shape: int) -> tuple[Graph, int]:
    """A network that starts with a convolution of an image whose channels are last, and its result, channels first."""
    net = Graph()
    x = net.input(shape, FLOAT)
    return net, net.transpose(net.pixels(x, 6), TO_NCHW)


def relu(net: Graph, x: int) -> int:
    return net.apply("RELU", [x])


@st.composite
def networks(draw: st.DrawFn) -> Model:
    """Random operators that move, clamp and compare, in float32 or int8: none rounds."""
    dtype = draw(st.sampled_from([FLOAT, INT8]))
    net = Graph()
    sizes = st.integers(1, 4)
    tensors = [net.input([1, *draw(st.tuples(sizes, sizes, sizes))], dtype)]
    for _ in range(draw(st.integers(2, 9))):
        x = draw(st.sampled_from(tensors[-4:]))
        shape = net.shape(x)
        rank = len(shape)
        kind = draw(st.sampled_from(KINDS))
        if kind == "transpose":
            y = net.transpose(x, draw(st.permutations(range(rank))))
        elif kind == "relu":
            y = relu(net, x)
        elif kind == "maximum":
            others = [other for other in tensors if net.shape(other) == shape]
            y = net.apply("MAXIMUM", [x, draw(st.sampled_from(others))])
        elif kind == "constant":
            partial = [draw(st.sampled_from([1, size])) for size in shape[draw(st.integers(0, rank - 1)) :]]
            y = net.apply("MAXIMUM", [x, net.noise(*partial, dtype=dtype)])
        elif kind == "pad":
            y = net.pad(x, *[(draw(st.integers(0, 1)), draw(st.integers(0, 1))) for _ in shape])
        elif kind == "concatenate":
            y = net.concatenate([x, x], draw(st.integers(0, rank - 1)))
        elif kind == "reduce":
            axes = draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=max(1, rank - 2)))
            y = net.reduce("REDUCE_MAX", x, sorted(axes), keep_dims=rank < 3 or draw(st.booleans()))
        elif kind == "ones":
            place = draw(st.integers(0, rank))
            ones = [axis for axis in range(rank) if shape[axis] == 1 and rank > 2]
            drop = draw(st.sampled_from(ones)) if ones and (rank > 4 or draw(st.booleans())) else None
            new = (*shape[:place], 1, *shape[place:]) if drop is None else (*shape[:drop], *shape[drop + 1 :])
            y = net.reshape(x, new if len(new) < 6 else shape)
        else:
            first = draw(st.integers(0, rank - 2))
            merged = (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])
            size = max((n for n in (3, 2) if shape[first] % n == 0), default=1)
            split = (*shape[:first], size, shape[first] // size, *shape[first + 1 :])
            y = net.reshape(
                x, draw(st.sampled_from([split] if rank < 3 else [merged] if rank > 3 else [merged, split]))
            )
        tensors.append(y)
    outputs = draw(st.lists(st.sampled_from(tensors[1:]), min_size=1, max_size=2, unique=True))
    return net.model([0], outputs)


KINDS = ["transpose", "transpose", "relu", "maximum", "constant", "pad", "concatenate", "reduce", "reshape", "ones"]
