"""Networks of 5 to 25 operators, drawn at random: branches, joints, several inputs and outputs, values used late.

The operators fit together as a converter writes them: matching types, and the scales that kernels require. What a
kernel is known to compute wrongly is possible, but rare enough that most networks have no such operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod, sqrt
from random import Random
from typing import Any

from benchmarks.kernels.cases.convolution import outputs
from benchmarks.kernels.cases.drawing import (
    ACTIVATIONS,
    FLOAT32,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    Shape,
    activation,
    axis_input,
    axis_of,
    bias,
    constant,
    filter_of,
    net_of,
    output_like,
    quantized_like,
    rescaled,
    scale,
    size,
    zero_point,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

ELEMENTS = 4_000  # the most elements of a tensor
PRODUCTS = 100_000  # the most multiply-accumulates of a network
MAX_FLOAT = 1e4  # larger floats are passed through LOGISTIC or TANH
ENOUGH_VALUES = 4  # with more that nothing reads, the next operator joins some
MAX_ATTEMPTS = 400


@dataclass
class Draft:
    """A network that grows. values: the inputs and the results of operators. sizes: typical magnitudes of floats."""

    random: Random
    net: Net
    inputs: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    sizes: dict[int, float] = field(default_factory=dict)
    products: int = 0

    def dims(self, x: int) -> Shape:
        return self.net.tensors[x].shape

    def dtype(self, x: int) -> DType:
        return self.net.tensors[x].dtype

    def add_input(self, dims: Sequence[int], dtype: DType) -> int:
        """Add an input of the network."""
        x = activation(self.net, self.random, dims, dtype)
        self.inputs.append(x)
        self.values.append(x)
        self.sizes[x] = 2.0
        return x

    def give(
        self, code: str, inputs: Sequence[int], results: Sequence[int], *, growth: float = 1, **given: object
    ) -> None:
        """Add an operator. growth: the size of its results, in that of its inputs."""
        self.net.give(code, inputs, results, **given)
        self.read.update(inputs)
        self.values += results
        largest = max((self.sizes[x] for x in inputs if x in self.sizes), default=1.0)
        self.sizes.update(dict.fromkeys(results, largest * growth))

    def unread(self) -> list[int]:
        """Return the values that no operator reads, and operators can."""
        return [x for x in self.values if x not in self.read and self.dtype(x) in (INT8, INT16, FLOAT32)]

    def takes(self, products: int) -> bool:
        """Return whether the network has room for this number of products, and count them."""
        if products <= 0 or self.products + products > PRODUCTS:
            return False
        self.products += products
        return True


# A layer adds operators that read a value; it returns False, and adds nothing, if it does not apply to it.
Layer = Callable[[Draft, int], bool]


def _activation_option(draft: Draft) -> str:
    return draft.random.choice(ACTIVATIONS)


def _vector_or_nothing(vector: tuple[int, ...]) -> tuple[int, ...]:
    """Return the bias; () for the index -1, with which DEPTHWISE_CONV_2D crashes in AllocateTensors."""
    return () if vector == (-1,) else vector


def _conv(draft: Draft, x: int) -> bool:
    """CONV_2D: pointwise, grouped, dilated, with strides, rarely with int4 weights."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    batch, height, width, channels = draft.dims(x)
    kernel = random.choice(((1, 1), (1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (size(random, 5), size(random, 5))))
    strides = random.choice(((1, 1), (1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 3)))
    dilations = random.choice(((1, 1), (1, 1), (1, 1), (1, 1), (2, 2), (1, 2)))
    if height == 1 and random.random() < 0.5:
        kernel, strides, dilations = (1, size(random, 9)), (1, random.choice((1, 1, 2, 3, 4))), (1, 1)
    groups = random.choice((1, 1, 1, 2, 3, 4)) if dtype is not INT16 or random.random() < 0.1 else 1
    if channels % groups:
        groups = 1
    units = size(random, 20 if groups == 1 else 6) * groups
    padding = random.choice(("SAME", "SAME", "VALID"))
    sides = [outputs(*axis, padding) for axis in zip((height, width), kernel, strides, dilations, strict=True)]
    made = (batch, *sides, units)
    terms = prod(kernel) * channels // groups
    if min(sides) < 1 or prod(made) > ELEMENTS or not draft.takes(prod(made) * terms):
        return False
    weights_type = FLOAT32 if dtype is FLOAT32 else INT4 if dtype is INT8 and random.random() < 0.06 else INT8
    weights, scales = filter_of(net, random, (units, *kernel, channels // groups), weights_type, 0)
    inputs = [x, weights, *bias(net, random, units, x, scales, weights_type)]
    fused = _activation_option(draft)
    y = output_like(net, random, made, x, scales, sqrt(terms), weights_type, fused)
    draft.give(
        "CONV_2D",
        inputs,
        [y],
        growth=sqrt(terms),
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        dilation_h_factor=dilations[0],
        dilation_w_factor=dilations[1],
        fused_activation_function=fused,
    )
    return True


def _depthwise(draft: Draft, x: int) -> bool:
    """DEPTHWISE_CONV_2D with multipliers, dilations and strides."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    batch, height, width, channels = draft.dims(x)
    kernel = random.choice(((3, 3), (3, 3), (1, 1), (1, 3), (5, 1), (size(random, 5), size(random, 5))))
    strides = random.choice(((1, 1), (1, 1), (2, 2), (1, 2), (2, 1)))
    dilations = random.choice(((1, 1), (1, 1), (1, 1), (2, 2), (1, 2)))
    multiplier = random.choice((1, 1, 1, 2, 3, 4))
    padding = random.choice(("SAME", "SAME", "VALID"))
    sides = [outputs(*axis, padding) for axis in zip((height, width), kernel, strides, dilations, strict=True)]
    made = (batch, *sides, channels * multiplier)
    if min(sides) < 1 or prod(made) > ELEMENTS or not draft.takes(prod(made) * prod(kernel)):
        return False
    weights_type = FLOAT32 if dtype is FLOAT32 else INT4 if dtype is INT8 and random.random() < 0.06 else INT8
    weights, scales = filter_of(net, random, (1, *kernel, made[3]), weights_type, 3)
    inputs = [x, weights, *_vector_or_nothing(bias(net, random, made[3], x, scales, weights_type, wide=1))]
    fused = _activation_option(draft)
    y = output_like(net, random, made, x, scales, sqrt(prod(kernel)), weights_type, fused)
    draft.give(
        "DEPTHWISE_CONV_2D",
        inputs,
        [y],
        growth=sqrt(prod(kernel)),
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        depth_multiplier=multiplier,
        dilation_h_factor=dilations[0],
        dilation_w_factor=dilations[1],
        fused_activation_function=fused,
    )
    return True


def _transposed(draft: Draft, x: int) -> bool:
    """TRANSPOSE_CONV that enlarges an image, or keeps its size."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    batch, height, width, channels = draft.dims(x)
    kernel = random.choice(((2, 2), (3, 3), (3, 3), (4, 4), (1, 1), (2, 3)))
    strides = random.choice(((1, 1), (2, 2), (2, 2), (1, 2)))
    units, padding = size(random, 12), random.choice(("SAME", "VALID"))
    sides = [
        side * step if padding == "SAME" else (side - 1) * step + taps
        for side, taps, step in zip((height, width), kernel, strides, strict=True)
    ]
    made = (batch, *sides, units)
    if prod(made) > ELEMENTS or not draft.takes(batch * height * width * channels * units * prod(kernel)):
        return False
    weights, scales = filter_of(net, random, (units, *kernel, channels), FLOAT32 if dtype is FLOAT32 else INT8, 0)
    terms = sqrt(max(prod(kernel) * channels / prod(strides), 1))
    fused = random.choice(("NONE", "NONE", "NONE", "RELU"))
    y = output_like(net, random, made, x, scales, terms, fused=fused)
    inputs = [net.constant(made), weights, x, *_vector_or_nothing(bias(net, random, units, x, scales, wide=1))]
    draft.give(
        "TRANSPOSE_CONV",
        inputs,
        [y],
        growth=terms,
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        fused_activation_function=fused,
    )
    return True


def _dense(draft: Draft, x: int) -> bool:
    """FULLY_CONNECTED of any rank, rarely with int4 weights or weights with a zero point."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    dims, units = draft.dims(x), size(random, 30)
    keep = len(dims) > 2 or random.random() < 0.2
    made = (*dims[:-1], units) if keep else (prod(dims[:-1]), units)
    if prod(made) > ELEMENTS or not draft.takes(prod(dims) * units):
        return False
    weights_type = FLOAT32 if dtype is FLOAT32 else INT4 if dtype is INT8 and random.random() < 0.06 else INT8
    if weights_type is INT8 and dtype is INT8 and random.random() < 0.05:
        scales: tuple[float, ...] = (1 / 128,)
        weights = constant(net, random, (units, dims[-1]), INT8, scales=scales, zero=random.randint(-128, 127))
    else:
        per_channel = 0.3 if weights_type is INT8 and dtype is INT8 else 0
        weights, scales = filter_of(net, random, (units, dims[-1]), weights_type, 0, per_channel=per_channel)
    values = bias(net, random, units, x, scales, weights_type, wide=1) or (-1,)
    fused = _activation_option(draft)
    y = output_like(net, random, made, x, scales, sqrt(dims[-1]), weights_type, fused)
    draft.give(
        "FULLY_CONNECTED",
        [x, weights, *values],
        [y],
        growth=sqrt(dims[-1]),
        keep_num_dims=keep,
        fused_activation_function=fused,
    )
    return True


def _matmul(draft: Draft, x: int) -> bool:
    """BATCH_MATMUL with another value, itself, or a constant."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    *front, rows, depth = draft.dims(x)
    scales: tuple[float, ...]
    # (other, whether it is transposed, columns)
    found = [
        (other, False, draft.dims(other)[-1])
        for other in draft.values
        if _batches_of(draft, other) == front and draft.dtype(other) is dtype and draft.dims(other)[-2] == depth
    ]
    found.append((x, True, rows))
    other, adjoint, columns = random.choice(found)
    made = (*front, rows, columns)
    if random.random() < 0.4:
        columns, adjoint = size(random, 16), random.random() < 0.5
        made = (*front, rows, columns)
        if prod(front) * depth * columns > ELEMENTS:
            return False
        right = (*front, columns, depth) if adjoint else (*front, depth, columns)
        scales = () if dtype is FLOAT32 else (scale(random) / (256 if dtype is INT16 else 1),)
        zero = zero_point(random, dtype) if dtype is INT8 else 0
        if prod(made) > ELEMENTS or not draft.takes(prod(made) * depth):
            return False
        other = constant(net, random, right, dtype, scales=scales, zero=zero)
    elif prod(made) > ELEMENTS or not draft.takes(prod(made) * depth):
        return False
    quantization = net.tensors[other].quantization
    scales = () if quantization is None else quantization.scales
    y = output_like(net, random, made, x, scales, sqrt(depth) * (1 if dtype is INT8 else 250))
    growth = sqrt(depth) * draft.sizes.get(other, 1.0)
    draft.give("BATCH_MATMUL", [x, other], [y], growth=growth, adj_y=adjoint)
    return True


def _batches_of(draft: Draft, x: int) -> list[int] | None:
    """Return the batches of a matrix; None if the value has fewer than two axes."""
    dims = draft.dims(x)
    return list(dims[:-2]) if len(dims) > 1 else None


def _pool(draft: Draft, x: int) -> bool:
    """AVERAGE_POOL_2D and MAX_POOL_2D, also of the whole image."""
    random, dims = draft.random, draft.dims(x)
    batch, height, width, channels = dims
    window = random.choice(((2, 2), (2, 2), (3, 3), (height, width), (1, 2)))
    strides = random.choice((window, window, (1, 1), (2, 2)))
    padding = random.choice(("SAME", "VALID"))
    sides = [
        outputs(side, taps, step, 1, padding) for side, taps, step in zip((height, width), window, strides, strict=True)
    ]
    if min(sides) < 1:
        return False
    y = quantized_like(draft.net, x, (batch, *sides, channels))
    draft.give(
        random.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D")),
        [x],
        [y],
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        filter_height=window[0],
        filter_width=window[1],
        fused_activation_function=_activation_option(draft),
    )
    return True


def _pad(draft: Draft, x: int) -> bool:
    """PAD, PADV2 or MIRROR_PAD."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    if len(dims) > 4:
        return False
    code = random.choice(("PAD", "PAD", "PADV2", "MIRROR_PAD"))
    most = [side - 1 if code == "MIRROR_PAD" else 2 for side in dims]
    pads = [
        (0, 0) if random.random() < 0.5 else (random.randint(0, min(2, side)), random.randint(0, min(2, side)))
        for side in most
    ]
    made = [side + sum(pair) for side, pair in zip(dims, pads, strict=True)]
    if prod(made) > ELEMENTS or (code == "MIRROR_PAD" and dtype is INT16):
        return False
    inputs = [x, net.constant([amount for pair in pads for amount in pair], len(dims), 2)]
    if code == "PADV2":
        own = net.tensors[x].quantization
        scales, zero = ((), 0) if own is None else (own.scales, own.zero_points[0])
        inputs.append(constant(net, random, (1,), dtype, scales=scales, zero=zero))
    options: dict[str, Any] = {"mode": "REFLECT"} if code == "MIRROR_PAD" else {}
    draft.give(code, inputs, [quantized_like(net, x, made)], **options)
    return True


def _reshape(draft: Draft, x: int) -> bool:
    """RESHAPE: to a matrix or a sequence, of an image; back to an image otherwise."""
    net, random, dims = draft.net, draft.random, draft.dims(x)
    count = prod(dims)
    channels = random.choice([side for side in range(1, min(count, 48) + 1) if count % side == 0])
    rest = count // channels
    height = random.choice([side for side in range(1, min(rest, 16) + 1) if rest % side == 0])
    made = random.choice(((1, count), (rest, channels), (1, rest, channels), (1, height, rest // height, channels)))
    draft.give("RESHAPE", [x, net.constant(made)], [quantized_like(net, x, made)], new_shape=made)
    return True


def _sizes_of_one(draft: Draft, x: int) -> bool:
    """EXPAND_DIMS or SQUEEZE."""
    net, random, dims = draft.net, draft.random, draft.dims(x)
    ones = [axis for axis, side in enumerate(dims) if side == 1]
    if ones and len(dims) > 2:
        gone = random.choice(ones)
        made = [side for axis, side in enumerate(dims) if axis != gone]
        draft.give("SQUEEZE", [x], [quantized_like(net, x, made)], squeeze_dims=(gone,))
        return True
    if len(dims) > 3:
        return False
    axis = random.randint(0, len(dims))
    y = quantized_like(net, x, (*dims[:axis], 1, *dims[axis:]))
    draft.give("EXPAND_DIMS", [x, axis_input(net, random, axis)], [y])
    return True


def _reduce(draft: Draft, x: int) -> bool:
    """MEAN, SUM or REDUCE_MAX along the sides of an image or one axis."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    if len(dims) < 2:
        return False
    code = random.choice(("MEAN", "MEAN", "MEAN", "SUM", "REDUCE_MAX"))
    if code == "REDUCE_MAX" and dtype is INT16:
        return False
    axes = [1, 2] if len(dims) == 4 and random.random() < 0.7 else [random.randrange(len(dims))]
    keep = random.random() < 0.6
    made = [1 if axis in axes else side for axis, side in enumerate(dims) if keep or axis not in axes]
    count = prod(dims[axis] for axis in axes)
    if code == "REDUCE_MAX":
        y = quantized_like(net, x, made)
    else:
        y = rescaled(net, random, x, made, count**-0.5 if code == "MEAN" else count**0.5)
    draft.give(code, [x, net.constant(axes)], [y], growth=count if code == "SUM" else 1, keep_dims=keep)
    return True


def _resize(draft: Draft, x: int) -> bool:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR, up and down."""
    net, random, (batch, height, width, channels) = draft.net, draft.random, draft.dims(x)
    code = random.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    made = random.choice(((2 * height, 2 * width), (-(-height // 2), -(-width // 2)), (height, width + 1)))
    if batch * prod(made) * channels > ELEMENTS or (code == "RESIZE_BILINEAR" and draft.dtype(x) is INT16):
        return False
    mode = random.choice(((), ("align_corners",), ("half_pixel_centers",)))
    y = quantized_like(net, x, (batch, *made, channels))
    draft.give(code, [x, net.constant(made)], [y], **dict.fromkeys(mode, True))
    return True


def _bounded(draft: Draft, x: int) -> bool:
    """LOGISTIC, TANH or SOFTMAX, whose results have a fixed scale."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    code = random.choice(("LOGISTIC", "TANH", "SOFTMAX"))
    if code == "SOFTMAX" and len(dims) > 4:
        return False
    fixed = {
        (INT8, True): (1 / 128, 0),
        (INT8, False): (1 / 256, -128),
        (INT16, True): (2.0**-15, 0),
        (INT16, False): (2.0**-15, 0),
    }
    own, zero = fixed.get((dtype, code == "TANH"), (None, 0))
    y = net.arena(*dims, dtype=dtype, scale=own, zero_point=zero)
    draft.give(code, [x], [y], **({"beta": 1.0} if code == "SOFTMAX" else {}))
    draft.sizes[y] = 1.0
    return True


def _elementwise(draft: Draft, x: int) -> bool:
    """RELU, RELU6, LEAKY_RELU, HARD_SWISH, ELU, PRELU or ABS."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    code = random.choice(("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ELU", "PRELU", "ABS"))
    if dtype is INT16 and code in ("HARD_SWISH", "ELU"):
        return False
    inputs = [x]
    if code == "PRELU":
        if len(dims) > 4:
            return False
        scales = () if dtype is FLOAT32 else (1 / 256,)
        inputs.append(constant(net, random, dims[-1:], FLOAT32 if dtype is FLOAT32 else INT8, scales=scales))
    same = code == "RELU6" or random.random() < 0.3
    y = quantized_like(net, x, dims) if same else rescaled(net, random, x, dims)
    draft.give(code, inputs, [y], **({"alpha": 0.125} if code == "LEAKY_RELU" else {}))
    return True


def _normalize(draft: Draft, x: int) -> bool:
    """L2_NORMALIZATION or LOG_SOFTMAX."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    if dtype is INT16 or len(dims) > 4:
        return False
    code = random.choice(("L2_NORMALIZATION", "LOG_SOFTMAX"))
    own, zero = (1 / 128, 0) if code == "L2_NORMALIZATION" else (16 / 256, 127)
    y = net.arena(*dims, dtype=dtype, scale=own if dtype is INT8 else None, zero_point=zero if dtype is INT8 else 0)
    draft.give(code, [x], [y])
    draft.sizes[y] = 2.0
    return True


def _binary(draft: Draft, x: int) -> bool:
    """ADD and other arithmetic with an earlier value of the same shape, a new input, itself or a constant."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    codes = ("ADD", "ADD", "ADD", "MUL", "SUB", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")
    code = random.choice(codes)
    if len(dims) > 4:
        return False
    same = code in ("MAXIMUM", "MINIMUM")
    others = [
        value for value in draft.values if value != x and draft.dims(value) == dims and draft.dtype(value) is dtype
    ]
    if same:
        others = [value for value in others if net.tensors[value].quantization == net.tensors[x].quantization]
    form = random.random()
    if others and form < 0.75:
        other = random.choice([value for value in others if value not in draft.read] or others)
    elif form < 0.8:
        other = x
    elif form < 0.9 and len(draft.inputs) < 4 and not same:
        other = draft.add_input(dims, dtype)
    else:
        small = random.choice((dims[-1:], dims[-1:], (1,), dims, (*[1] * (len(dims) - 1), dims[-1])))
        own = net.tensors[x].quantization
        scales, zero = ((), 0) if own is None else (own.scales, own.zero_points[0])
        if not same and own is not None:
            scales, zero = (scale(random) / (256 if dtype is INT16 else 1),), zero_point(random, dtype)
        other = constant(net, random, small, dtype, scales=scales, zero=zero)
    growth = {"MUL": draft.sizes.get(other, 1.0), "SQUARED_DIFFERENCE": draft.sizes[x]}.get(code, 1.0)
    if same:
        y = quantized_like(net, x, dims)
    elif dtype is FLOAT32:
        y = net.arena(*dims, dtype=dtype)
    else:
        a, b = (net.tensors[index].quantization.scales[0] for index in (x, other))  # type: ignore[union-attr]
        levels = 128 if dtype is INT8 else 32768
        factor = {"MUL": a * b * levels, "SQUARED_DIFFERENCE": max(a, b) ** 2 * levels}.get(code, a + b)
        made = factor * random.uniform(0.4, 1)
        y = net.arena(*dims, dtype=dtype, scale=made, zero_point=zero_point(random, dtype))
    fused = {"fused_activation_function": _activation_option(draft)} if code in ("ADD", "MUL", "SUB") else {}
    inputs = [x, other] if random.random() < 0.8 or code == "SUB" else [other, x]
    draft.give(code, inputs, [y], growth=growth, **fused)
    return True


def _requantized(draft: Draft, x: int, like: int) -> int:
    """Return the value with the quantization of another: itself, or the result of a QUANTIZE."""
    net = draft.net
    if net.tensors[x].quantization == net.tensors[like].quantization:
        return x
    y = quantized_like(net, like, draft.dims(x))
    draft.give("QUANTIZE", [x], [y])
    return y


def _concatenate(draft: Draft, x: int) -> bool:
    """CONCATENATION or PACK of values of one quantization, which other values get from QUANTIZE."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    axis = random.randrange(len(dims))
    others = [
        value
        for value in draft.values
        if value != x
        and draft.dtype(value) is dtype
        and len(draft.dims(value)) == len(dims)
        and all(at == axis or a == b for at, (a, b) in enumerate(zip(draft.dims(value), dims, strict=True)))
    ]
    unread = [value for value in others if value not in draft.read]
    chosen = random.sample(unread, min(len(unread), 3)) or random.sample(others, min(len(others), 1)) or [x]
    side = sum(draft.dims(value)[axis] for value in (x, *chosen))
    if side * prod(dims) // dims[axis] > ELEMENTS:
        return False
    inputs = [x, *(_requantized(draft, value, x) for value in chosen)]
    random.shuffle(inputs)
    if len(dims) < 4 and all(draft.dims(value) == dims for value in inputs) and random.random() < 0.3:
        y = quantized_like(net, x, (*dims[:axis], len(inputs), *dims[axis:]))
        draft.give("PACK", inputs, [y], values_count=len(inputs), axis=axis)
        return True
    y = quantized_like(net, x, (*dims[:axis], side, *dims[axis + 1 :]))
    draft.give("CONCATENATION", inputs, [y], axis=axis_of(random, axis, len(dims)))
    return True


def _split(draft: Draft, x: int) -> bool:
    """SPLIT, SPLIT_V or UNPACK into two to four parts."""
    net, random, dims = draft.net, draft.random, draft.dims(x)
    axes = [axis for axis, side in enumerate(dims) if side > 1]
    if not axes:
        return False
    axis = random.choice(axes)
    side = dims[axis]
    number = random.choice([parts for parts in (2, 3, 4) if side % parts == 0] or [0])
    if number == 0:
        first = random.randint(1, side - 1)
        parts = [first, side - first]
        made = [quantized_like(net, x, (*dims[:axis], part, *dims[axis + 1 :])) for part in parts]
        draft.give("SPLIT_V", [x, net.constant(parts), net.scalar(axis)], made, num_splits=2)
    elif number == side and len(dims) > 2:
        made = [quantized_like(net, x, (*dims[:axis], *dims[axis + 1 :])) for _ in range(number)]
        draft.give("UNPACK", [x], made, num=number, axis=axis)
    else:
        part = (*dims[:axis], side // number, *dims[axis + 1 :])
        made = [quantized_like(net, x, part) for _ in range(number)]
        draft.give("SPLIT", [net.scalar(axis), x], made, num_splits=number)
    return True


def _slice(draft: Draft, x: int) -> bool:
    """SLICE or STRIDED_SLICE of a part of some axes; GATHER of elements along one."""
    net, random, dims = draft.net, draft.random, draft.dims(x)
    code = random.choice(("SLICE", "STRIDED_SLICE", "GATHER"))
    if len(dims) > 4:
        return False
    if code == "GATHER":
        if draft.dtype(x) is INT16:
            return False
        axis = random.randrange(len(dims))
        where = [random.randrange(dims[axis]) for _ in range(random.randint(1, dims[axis]))]
        y = quantized_like(net, x, (*dims[:axis], len(where), *dims[axis + 1 :]))
        draft.give(code, [x, net.constant(where)], [y], axis=axis)
        return True
    begins = [random.choice((0, 0, random.randrange(side))) for side in dims]
    made = [random.randint(-(-(side - begin) // 2), side - begin) for side, begin in zip(dims, begins, strict=True)]
    if code == "SLICE":
        draft.give(code, [x, net.constant(begins), net.constant(made)], [quantized_like(net, x, made)])
        return True
    ends = [begin + count for begin, count in zip(begins, made, strict=True)]
    steps = [random.choice((1, 1, 1, 2)) for _ in dims]
    made = [-(-count // step) for count, step in zip(made, steps, strict=True)]
    bounds = [net.constant(values) for values in (begins, ends, steps)]
    draft.give(code, [x, *bounds], [quantized_like(net, x, made)])
    return True


def _transpose(draft: Draft, x: int) -> bool:
    net, random, dims = draft.net, draft.random, draft.dims(x)
    order = list(range(len(dims)))
    if len(order) > 1:
        while order == sorted(order):
            random.shuffle(order)
    y = quantized_like(net, x, [dims[axis] for axis in order])
    draft.give("TRANSPOSE", [x, net.constant(order)], [y])
    return True


def _blocks(draft: Draft, x: int) -> bool:
    """SPACE_TO_DEPTH or DEPTH_TO_SPACE; a dilated convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND."""
    net, random, (batch, height, width, channels) = draft.net, draft.random, draft.dims(x)
    if draft.dtype(x) is INT16 or batch > 1:
        return False
    if channels % 4 == 0 and random.random() < 0.5:
        y = quantized_like(net, x, (batch, 2 * height, 2 * width, channels // 4))
        draft.give("DEPTH_TO_SPACE", [x], [y], block_size=2)
        return True
    if height % 2 or width % 2:
        return False
    if random.random() < 0.4:
        y = quantized_like(net, x, (batch, height // 2, width // 2, channels * 4))
        draft.give("SPACE_TO_DEPTH", [x], [y], block_size=2)
        return True
    stack = quantized_like(net, x, (4 * batch, height // 2, width // 2, channels))
    blocks, border = net.constant([2, 2]), net.constant([0] * 4, 2, 2)
    draft.give("SPACE_TO_BATCH_ND", [x, blocks, border], [stack])
    if not _conv(draft, stack):
        return True
    inner = draft.values[-1]
    batches, *sides, units = draft.dims(inner)
    y = quantized_like(net, inner, (batches // 4, sides[0] * 2, sides[1] * 2, units))
    draft.give("BATCH_TO_SPACE_ND", [inner, blocks, border], [y])
    return True


def _convert(draft: Draft, x: int) -> bool:
    """QUANTIZE to another scale or type, or DEQUANTIZE."""
    net, random, dims, dtype = draft.net, draft.random, draft.dims(x), draft.dtype(x)
    if dtype is FLOAT32:
        target = random.choice((INT8, INT8, INT16))
        own = draft.sizes[x] * 3 / (128 if target is INT8 else 32768)
        y = net.arena(*dims, dtype=target, scale=own, zero_point=zero_point(random, target))
        draft.give("QUANTIZE", [x], [y])
        return True
    quantization = net.tensors[x].quantization
    assert quantization is not None
    own = quantization.scales[0]
    if random.random() < 0.3:
        y = net.arena(*dims, dtype=FLOAT32)
        draft.give("DEQUANTIZE", [x], [y])
        draft.sizes[y] = own * (128 if dtype is INT8 else 32768)
        return True
    target = random.choice((INT8, INT16) if dtype is INT8 else (INT8, INT8, INT16))
    factor = {(INT8, INT16): 1 / 256, (INT16, INT8): 256.0}.get((dtype, target), 1.0)
    made = own * factor * random.uniform(0.6, 1.2)
    y = net.arena(*dims, dtype=target, scale=made, zero_point=zero_point(random, target))
    draft.give("QUANTIZE", [x], [y])
    return True


def _svdf(draft: Draft, x: int) -> bool:
    """SVDF with a state of int16 or, rarely, of int8."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    batch, depth = draft.dims(x)
    rank, units, memory = random.choice((1, 1, 2)), size(random, 12), size(random, 12)
    filters = units * rank
    if dtype is INT16 or batch > 4 or not draft.takes(batch * filters * (depth + memory)):
        return False
    if dtype is FLOAT32:
        weights = [constant(net, random, dims, FLOAT32) for dims in ((filters, depth), (filters, memory), (units,))]
        state = net.arena(batch, memory * filters, dtype=FLOAT32, is_variable=True)
        y = net.arena(batch, units, dtype=FLOAT32)
    else:
        own = net.tensors[x].quantization
        assert own is not None
        inner = INT16 if random.random() < 0.8 else INT8
        feature = constant(net, random, (filters, depth), INT8, scales=(1 / 128,), lowest=-127)
        deviation = own.scales[0] / 128 * 74 * 73 * sqrt(depth)
        state_scale = deviation / (9000 if inner is INT16 else 45)
        time_scale = 1 / (32768 if inner is INT16 else 128)
        time = constant(net, random, (filters, memory), inner, scales=(time_scale,))
        limit = 3_000_000 if inner is INT16 else 3000
        values = constant(
            net, random, (units,), INT32, scales=(state_scale * time_scale,), lowest=-limit, highest=limit
        )
        weights = [feature, time, values]
        state = net.arena(batch, memory * filters, dtype=inner, scale=state_scale, is_variable=True)
        y = net.arena(batch, units, scale=deviation / 100 * sqrt(rank), zero_point=zero_point(random, INT8))
    fused = random.choice(("NONE", "RELU"))
    growth = sqrt(depth * rank)
    draft.give("SVDF", [x, *weights, state], [y], growth=growth, rank=rank, fused_activation_function=fused)
    return True


def _lstm(draft: Draft, x: int) -> bool:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    net, random, dtype = draft.net, draft.random, draft.dtype(x)
    *front, depth = draft.dims(x)
    major, units = random.random() < 0.3, size(random, 12)
    batch = front[1] if major else front[0]
    if not draft.takes(4 * prod(front) * units * (depth + units)):
        return False
    weights_type, bias_type, cell = {
        INT8: (INT8, INT32, INT16),
        INT16: (INT8, INT64, INT16),
        FLOAT32: (FLOAT32, FLOAT32, FLOAT32),
    }[dtype]
    own = net.tensors[x].quantization
    weight_scale = random.uniform(0.3, 1) / 128
    matrices = [
        constant(
            net,
            random,
            (units, columns),
            weights_type,
            scales=() if own is None else (weight_scale,),
            lowest=None if own is None else -127,
        )
        for columns in (*[depth] * 4, *[units] * 4)
    ]
    limit = 20_000 if dtype is INT8 else 2_000_000
    bias_scale = () if own is None else (own.scales[0] * weight_scale,)
    limits = {} if own is None else {"lowest": -limit, "highest": limit}
    biases = [constant(net, random, (units,), bias_type, scales=bias_scale, **limits) for _ in range(4)]
    hidden_scale = None if own is None else 1 / 128 if dtype is INT8 else 1 / 32768
    hidden = net.arena(batch, units, dtype=dtype, scale=hidden_scale, is_variable=True)
    state = net.arena(batch, units, dtype=cell, scale=None if own is None else 2.0**-12, is_variable=True)
    inputs = [x, *matrices, *[-1] * 3, *biases, *[-1] * 2, hidden, state, *[-1] * 4]
    y = quantized_like(net, hidden, (*front, units))
    draft.give(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [y],
        fused_activation_function="TANH",
        time_major=major,
        cell_clip=10.0,
        proj_clip=0.0,
    )
    draft.sizes[y] = 1.0
    return True


def _extreme(draft: Draft, x: int) -> bool:
    """ARG_MAX or ARG_MIN, whose result is an output of the network."""
    net, random, dims = draft.net, draft.random, draft.dims(x)
    if draft.dtype(x) is INT16 or len(dims) < 2:
        return False
    axis = random.randrange(len(dims))
    y = net.arena(*dims[:axis], *dims[axis + 1 :], dtype=INT32)
    code = random.choice(("ARG_MAX", "ARG_MIN"))
    draft.give(code, [x, axis_input(net, random, axis)], [y], output_type="INT32")
    return True


# Layers with their weights, by the ranks that they accept.
ANY_RANK, IMAGE, SEQUENCE, MATRIX = (1, 2, 3, 4, 5), (4,), (3,), (2,)
LAYERS: tuple[tuple[Layer, float, tuple[int, ...]], ...] = (
    (_conv, 10, IMAGE),
    (_depthwise, 6, IMAGE),
    (_transposed, 2, IMAGE),
    (_dense, 4, (1, 2, 3, 4)),
    (_matmul, 1.5, (2, 3, 4)),
    (_pool, 3, IMAGE),
    (_pad, 2, ANY_RANK),
    (_reshape, 2, ANY_RANK),
    (_sizes_of_one, 0.6, ANY_RANK),
    (_reduce, 1.5, ANY_RANK),
    (_resize, 1, IMAGE),
    (_bounded, 2, ANY_RANK),
    (_elementwise, 2, ANY_RANK),
    (_normalize, 0.5, (2, 3, 4)),
    (_binary, 7, ANY_RANK),
    (_concatenate, 3, (1, 2, 3, 4)),
    (_split, 2, ANY_RANK),
    (_slice, 1.5, ANY_RANK),
    (_transpose, 1.5, ANY_RANK),
    (_blocks, 1.5, IMAGE),
    (_convert, 1.5, ANY_RANK),
    (_svdf, 2, MATRIX),
    (_lstm, 1.5, SEQUENCE),
    (_extreme, 0.3, ANY_RANK),
)


def _source(draft: Draft) -> int:
    """Return the value that the next operator reads: usually the last one, sometimes an earlier one."""
    unread = draft.unread()
    known = [x for x in draft.values if draft.dtype(x) in (INT8, INT16, FLOAT32)]
    form = draft.random.random()
    if unread and form < 0.65:
        return unread[-1]
    return draft.random.choice(unread if unread and form < 0.85 else known)


def _next_layer(draft: Draft, x: int) -> Layer:
    if draft.dtype(x) is FLOAT32 and draft.sizes[x] > MAX_FLOAT:
        return _bounded
    if len(draft.unread()) > ENOUGH_VALUES and len(draft.dims(x)) < 5:
        return draft.random.choice((_concatenate, _binary))
    fitting = [(layer, weight) for layer, weight, ranks in LAYERS if len(draft.dims(x)) in ranks]
    return draft.random.choices([layer for layer, _ in fitting], [weight for _, weight in fitting])[0]


def random_network(random: Random) -> Model:
    """Return a network of 5 to 25 operators."""
    draft = Draft(random, net_of(random))
    form = random.random()
    if form < 0.65:
        batch = random.choice((1,) * 9 + (2,))
        dims: Shape = (batch, random.randint(3, 14), random.randint(3, 14), size(random, 16))
    elif form < 0.75:
        dims = (1, 1, random.randint(3, 40), size(random, 16))
    elif form < 0.88:
        dims = (1, random.randint(2, 8), size(random, 30))
    else:
        dims = (random.choice((1, 1, 2)), size(random, 80))
    draft.add_input(dims, random.choices((INT8, INT16, FLOAT32), (7, 1.5, 1.5))[0])
    count = random.randint(5, 24)
    for _ in range(MAX_ATTEMPTS):
        if len(draft.net.operators) >= count:
            break
        x = _source(draft)
        if len(draft.dims(x)) <= 5:
            _next_layer(draft, x)(draft, x)
    written = [x for x in draft.values if x not in draft.inputs]
    results = [x for x in written if x not in draft.read]
    if random.random() < 0.3:  # an output that is also read
        results += [x for x in [random.choice(written)] if x not in results]
    return draft.net.model([x for x in draft.inputs if x in draft.read], results)


# Most compute images row by row.
IMAGE_LAYERS = (
    *(_conv, _conv, _conv, _depthwise, _depthwise, _pool, _pad, _elementwise, _bounded, _binary, _concatenate),
    *(_transposed, _blocks),
)
CHAIN_SHARE = 0.85  # operators that read the last value


def random_image_network(random: Random) -> Model:
    """Return a network of 3 to 12 operators on one image, most of which read the result of the one before."""
    draft = Draft(random, net_of(random))
    dims = (1, random.randint(6, 30), random.randint(2, 10), size(random, 8))
    draft.add_input(dims, random.choices((INT8, INT16, FLOAT32), (7, 1.5, 1.5))[0])
    count = random.randint(3, 12)
    for _ in range(MAX_ATTEMPTS):
        if len(draft.net.operators) >= count:
            break
        x = draft.values[-1] if random.random() < CHAIN_SHARE else random.choice(draft.values)
        too_large = draft.dtype(x) is FLOAT32 and draft.sizes[x] > MAX_FLOAT
        (_bounded if too_large else random.choice(IMAGE_LAYERS))(draft, x)
    results = [x for x in draft.values if x not in draft.inputs and x not in draft.read]
    return draft.net.model([x for x in draft.inputs if x in draft.read], results)
