"""The TensorFlow function of each ONNX operator; in the child process only.

A handler takes the TensorFlow module and a node, and returns its results. Source of the semantics: the operator schemas
of ONNX (onnx.ai/onnx/operators).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from edgetool.convert.lowering.activations import approximate_erf
from edgetool.convert.onnx_graph import OTHER_FLOATS, Constant, Handler, Node, Operand, Value, first, last

# Elementwise


def _unary(function: Callable[[Any, Node, Any], Any]) -> Handler:
    def handle(tf: Any, node: Node) -> list[Value]:
        value = node.value(0)
        return [Value(function(tf, node, value.tensor), value.is_last)]

    return handle


def _broadcast(function: Callable[..., Any]) -> Handler:
    """Compute elementwise on all inputs, with channels last if any of them is so."""

    def handle(tf: Any, node: Node) -> list[Value]:
        tensors, is_last = _aligned(tf, node)
        return [Value(function(tf, *tensors), is_last)]

    return handle


def _reduced(function: Callable[[Any, Any, Any], Any]) -> Handler:
    """Compute elementwise on any number of inputs."""

    def handle(tf: Any, node: Node) -> list[Value]:
        tensors, is_last = _aligned(tf, node)
        result = tensors[0]
        for tensor in tensors[1:]:
            result = function(tf, result, tensor)
        return [Value(result, is_last)]

    return handle


def _aligned(tf: Any, node: Node) -> tuple[list[Any], bool]:
    """Return the inputs in one order of the axes, as far as they have as many."""
    values = [node.value(position) for position in range(len(node.inputs))]
    rank = max(value.rank for value in values)
    if not any(value.is_last and value.rank == rank for value in values):
        return [value.tensor if not value.is_last else first(tf, value) for value in values], False
    return [_aligned_last(tf, value, rank) for value in values], True


def _aligned_last(tf: Any, value: Value, rank: int) -> Any:
    """Return a tensor that broadcasts to one of this rank with its channels last."""
    if value.is_last and value.rank == rank:
        return value.tensor
    order = (0, *range(2, rank), 1)
    if isinstance(value.tensor, np.ndarray):
        if value.tensor.size == 1:
            return value.tensor.reshape(())
        return value.tensor.reshape((1,) * (rank - value.rank) + value.tensor.shape).transpose(order)
    tensor = first(tf, value)
    if value.rank < rank:
        tensor = tf.reshape(tensor, (1,) * (rank - value.rank) + value.shape)
    return tf.transpose(tensor, order)


def _clip(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    limits = []
    for name, position in (("min", 1), ("max", 2)):
        given = node.attributes.get(name)
        operand = node.operand(position)
        limits.append(given if operand is None else float(node.constant(position, name).reshape(-1)[0]))
    low, high = limits
    tensor = value.tensor
    if low == 0.0:
        tensor = tf.nn.relu6(tensor) if high == 6.0 else tf.nn.relu(tensor)
        low, high = None, None if high == 6.0 else high
    if low is not None:
        tensor = tf.maximum(tensor, np.asarray(low, tensor.dtype.as_numpy_dtype))
    if high is not None and np.isfinite(high):
        tensor = tf.minimum(tensor, np.asarray(high, tensor.dtype.as_numpy_dtype))
    return [Value(tensor, value.is_last)]


def _prelu(tf: Any, node: Node) -> list[Value]:
    (tensor, slope), is_last = _aligned(tf, node)
    return [Value(tf.maximum(tensor, 0.0) + slope * tf.minimum(tensor, 0.0), is_last)]


def _hard_sigmoid(tf: Any, node: Node, tensor: Any) -> Any:
    slope, offset = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
    if abs(slope - 1 / 6) < 1e-6 and offset == 0.5:  # as TensorFlow's converter recognizes it
        return tf.nn.relu6(tensor + 3.0) * (1 / 6)
    return tf.minimum(tf.nn.relu(tensor * slope + offset), 1.0)


def _gelu(tf: Any, node: Node, tensor: Any) -> Any:
    return tf.nn.gelu(tensor, approximate=node.attributes.get("approximate", "none") == "tanh")


def _cast(tf: Any, node: Node) -> list[Value]:
    import onnx

    value = node.value(0)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"])
    # TensorFlow Lite Micro computes indices in 32 bits.
    dtype = np.dtype(np.int32) if dtype == np.int64 else np.dtype(np.float32) if dtype in OTHER_FLOATS else dtype
    return [Value(tf.cast(value.tensor, dtype), value.is_last)]


def _same(tf: Any, node: Node) -> list[Value]:
    return [node.value(0)]


def _dropout(tf: Any, node: Node) -> list[Value]:
    training = node.operand(2)
    if isinstance(training, np.ndarray) and bool(training.reshape(-1)[0]):
        raise node.refuse("computes as in training", "export the model in evaluation mode")
    return [node.value(0)]


# Convolution and pooling


def _window(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], ...]:
    """Return strides, dilations, and the elements padded before and after each axis; sizes are those of the input."""
    count = len(kernel)
    strides = list(node.attributes.get("strides", [1] * count))
    dilations = list(node.attributes.get("dilations", [1] * count))
    pads = list(node.attributes.get("pads", [0] * 2 * count))
    before, after = pads[:count], pads[count:]
    how = node.attributes.get("auto_pad", "NOTSET")
    if how in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
            total = max((ceil(size / stride) - 1) * stride + (width - 1) * dilation + 1 - size, 0)
            smaller = total // 2
            before.append(smaller if how == "SAME_UPPER" else total - smaller)
            after.append(total - before[-1])
    elif how == "VALID":
        before, after = [0] * count, [0] * count
    return strides, dilations, before, after


def _is_same(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
) -> bool:
    """Return whether TensorFlow's padding SAME adds the same elements."""
    for size, width, stride, dilation, low, high in zip(sizes, kernel, strides, dilations, before, after, strict=True):
        total = max((ceil(size / stride) - 1) * stride + (width - 1) * dilation + 1 - size, 0)
        if (low, high) != (total // 2, total - total // 2):
            return False
    return True


def _two_axes(tf: Any, tensor: Any, count: int) -> Any:
    """Return an image with two axes of positions; that of a sequence is the second."""
    return tensor if count == 2 else tf.expand_dims(tensor, 1)


def _check_axes(node: Node, count: int) -> None:
    if count not in (1, 2):
        raise node.refuse(f"works along {count} axes", "use layers for sequences or images")


def _conv(tf: Any, node: Node) -> list[Value]:
    value, weights = node.value(0), node.constant(1, "weights")
    count = weights.ndim - 2
    _check_axes(node, count)
    sizes, kernel, groups = value.shape[2:], weights.shape[2:], node.attributes.get("group", 1)
    strides, dilations, before, after = _window(node, sizes, kernel)
    tensor = last(tf, value)
    padding = "VALID"
    if any((*before, *after)):
        padding = "SAME" if _is_same(sizes, kernel, strides, dilations, before, after) else "VALID"
        if padding == "VALID":
            tensor = tf.pad(tensor, [[0, 0], *([low, high] for low, high in zip(before, after, strict=True)), [0, 0]])
    tensor = _two_axes(tf, tensor, count)
    one = [1] * (2 - count)
    filters = weights.reshape(*weights.shape[:2], *one, *kernel).transpose(2, 3, 1, 0)
    strides, dilations = one + strides, one + dilations
    channels = value.shape[1]
    if groups == channels and channels > 1:
        shape = (*filters.shape[:2], channels, weights.shape[0] // channels)
        depthwise = filters.transpose(0, 1, 3, 2).reshape(shape)
        # Its kernel has one stride for both axes; the unused one of a sequence does not matter.
        step = max(strides) if count == 1 else None
        result = tf.nn.depthwise_conv2d(
            tensor, depthwise, [1, step or strides[0], step or strides[1], 1], padding, dilations=dilations
        )
    else:
        result = tf.nn.conv2d(tensor, filters, [1, *strides, 1], padding, dilations=dilations)
    bias = node.operand(2)
    if bias is not None:
        result = tf.nn.bias_add(result, node.constant(2, "bias"))
    return [Value(result if count == 2 else tf.squeeze(result, 1), is_last=True)]


def _conv_transpose(tf: Any, node: Node) -> list[Value]:
    value, weights = node.value(0), node.constant(1, "weights")
    count = weights.ndim - 2
    _check_axes(node, count)
    sizes, kernel, groups = value.shape[2:], weights.shape[2:], node.attributes.get("group", 1)
    strides, dilations, before, after = _window(node, sizes, kernel)
    extra = list(node.attributes.get("output_padding", [0] * count))
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse("is a dilated transposed convolution", "use a dilation of 1")
    full = [(size - 1) * stride + width for size, stride, width in zip(sizes, strides, kernel, strict=True)]
    if "output_shape" in node.attributes or node.attributes.get("auto_pad", "NOTSET").startswith("SAME"):
        default = [stride * size for stride, size in zip(strides, sizes, strict=True)]
        target = list(node.attributes.get("output_shape", default))[-count:]
        totals = [max(length + more - size, 0) for length, more, size in zip(full, extra, target, strict=True)]
        lower = node.attributes.get("auto_pad") != "SAME_UPPER"
        before = [total - total // 2 if lower else total // 2 for total in totals]
    else:
        target = [f - low - high + e for f, low, high, e in zip(full, before, after, extra, strict=True)]
    one = [1] * (2 - count)
    filters = weights.reshape(*weights.shape[:2], *one, *kernel).transpose(2, 3, 1, 0)
    strides2, full2, target2, before2 = (one + list(part) for part in (strides, full, target, before))
    before2[: 2 - count] = [0] * (2 - count)
    tensor = _two_axes(tf, last(tf, value), count)
    longer = [max(f, low + t) for f, low, t in zip(full2, before2, target2, strict=True)]
    results = []
    parts = [tensor] if groups == 1 else tf.split(tensor, groups, -1)
    for part, own in zip(parts, np.split(filters, groups, 3), strict=True):
        shape = (1, *full2, weights.shape[1])
        results.append(tf.nn.conv2d_transpose(part, own, shape, [1, *strides2, 1], "VALID"))
    result = results[0] if groups == 1 else tf.concat(results, -1)
    if longer != full2:
        more = [[0, one_longer - one_full] for one_longer, one_full in zip(longer, full2, strict=True)]
        result = tf.pad(result, [[0, 0], *more, [0, 0]])
    if target2 != longer:
        result = tf.slice(result, [0, *before2, 0], [1, *target2, int(result.shape[-1])])
    if node.operand(2) is not None:
        result = tf.nn.bias_add(result, node.constant(2, "bias"))
    return [Value(result if count == 2 else tf.squeeze(result, 1), is_last=True)]


def _pool(tf: Any, node: Node) -> list[Value]:
    value, kernel = node.value(0), list(node.attributes["kernel_shape"])
    count, sizes = len(kernel), list(value.shape[2:])
    _check_axes(node, count)
    if node.outputs > 1:
        raise node.refuse("returns indices", "use the pooled values only")
    strides, dilations, before, after = _window(node, sizes, kernel)
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse("is a dilated pooling", "use a dilation of 1")
    if node.attributes.get("ceil_mode", 0):
        steps = zip(sizes, kernel, strides, before, after, strict=True)
        if any((size + low + high - width) % stride for size, width, stride, low, high in steps):
            raise node.refuse("rounds its output's size up (ceil_mode)", "use ceil_mode=False")
    tensor, is_max = last(tf, value), node.kind == "MaxPool"
    padding, correction = "VALID", None
    if any((*before, *after)):
        counts_pads = not is_max and bool(node.attributes.get("count_include_pad", 0))
        if not counts_pads and _is_same(sizes, kernel, strides, dilations, before, after):
            padding = "SAME"
        else:
            pads = [[0, 0], *([low, high] for low, high in zip(before, after, strict=True)), [0, 0]]
            if is_max and any(2 * max(pair) > width for pair, width in zip(pads[1:-1], kernel, strict=True)):
                raise node.refuse("pads by more than half of its window", "pad by at most half of the window")
            # The repeated edge is in each window that reaches beyond it, so it does not change a maximum.
            tensor = tf.pad(tensor, pads, "SYMMETRIC" if is_max else "CONSTANT")
            if not is_max and not counts_pads:
                correction = _count_correction(sizes, kernel, strides, before, after)
    tensor = _two_axes(tf, tensor, count)
    one = [1] * (2 - count)
    pool = tf.nn.max_pool2d if is_max else tf.nn.avg_pool2d
    result = pool(tensor, one + kernel, one + strides, padding)
    result = result if count == 2 else tf.squeeze(result, 1)
    return [Value(result if correction is None else result * correction, is_last=True)]


def _count_correction(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], before: Sequence[int], after: Sequence[int]
) -> Constant:
    """Return the size of the window divided by its part inside the image, (1, positions, 1)."""
    factors = np.ones((1,), np.float64)
    for size, width, stride, low, high in zip(sizes, kernel, strides, before, after, strict=True):
        starts = np.arange((size + low + high - width) // stride + 1) * stride - low
        inside = np.minimum(starts + width, size) - np.maximum(starts, 0)
        factors = np.multiply.outer(factors, width / inside)
    return np.asarray(factors[..., None], np.float32)


def _global_pool(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    reduce = tf.reduce_max if node.kind == "GlobalMaxPool" else tf.reduce_mean
    return [Value(reduce(last(tf, value), list(range(1, value.rank - 1)), keepdims=True), is_last=True)]


# Normalization


def _batch_norm(tf: Any, node: Node) -> list[Value]:
    if node.attributes.get("training_mode", 0) or node.outputs > 1:
        raise node.refuse("computes as in training", "export the model in evaluation mode")
    scale, offset, mean, variance = (node.constant(position, "statistics") for position in range(1, 5))
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + node.attributes.get("epsilon", 1e-5))
    shift = offset - mean * factor
    value = node.value(0)
    is_image = value.rank > 2
    tensor = last(tf, value) if is_image else first(tf, value)
    return [Value(tensor * factor.astype(np.float32) + shift.astype(np.float32), is_image)]


def _normalized(tf: Any, tensor: Any, axes: Sequence[int], epsilon: float) -> Any:
    mean = tf.reduce_mean(tensor, axes, keepdims=True)
    centred = tensor - mean
    variance = tf.reduce_mean(centred * centred, axes, keepdims=True)
    return centred * tf.math.rsqrt(variance + epsilon)


def _layer_norm(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    tensor = first(tf, value)
    axes = list(range(node.attributes.get("axis", -1) % value.rank, value.rank))
    result = _normalized(tf, tensor, axes, node.attributes.get("epsilon", 1e-5)) * node.constant(1, "scale")
    return [Value(result if node.operand(2) is None else result + node.constant(2, "bias"))]


def _instance_norm(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    result = _normalized(tf, last(tf, value), list(range(1, value.rank - 1)), node.attributes.get("epsilon", 1e-5))
    return [Value(result * node.constant(1, "scale") + node.constant(2, "bias"), is_last=True)]


# Products


def _gemm(tf: Any, node: Node) -> list[Value]:
    a, b = first(tf, node.value(0)), node.value(1)
    a = tf.transpose(a) if node.attributes.get("transA", 0) else a
    second = b.tensor if isinstance(b.tensor, np.ndarray) else first(tf, b)
    if node.attributes.get("transB", 0):
        second = second.T if isinstance(second, np.ndarray) else tf.transpose(second)
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    second = second * np.float32(alpha) if alpha != 1.0 else second
    result = tf.linalg.matmul(a, second)
    bias = node.operand(2)
    if bias is None:
        return [Value(result)]
    added = bias if isinstance(bias, np.ndarray) else first(tf, node.value(2))
    return [Value(result + (added * np.float32(beta) if beta != 1.0 else added))]


def _matmul(tf: Any, node: Node) -> list[Value]:
    a, b = node.value(0), node.value(1)
    if isinstance(b.tensor, np.ndarray) and b.rank == 2:
        tensor, width = first(tf, a), b.tensor.shape[1]
        rows = tf.linalg.matmul(tf.reshape(tensor, (-1, b.tensor.shape[0])), b.tensor)
        return [Value(tf.reshape(rows, (*a.shape[:-1], width)))]
    return [Value(tf.linalg.matmul(first(tf, a), first(tf, b)))]


def _einsum(tf: Any, node: Node) -> list[Value]:
    tensors = (first(tf, node.value(position)) for position in range(len(node.inputs)))
    return [Value(tf.einsum(node.attributes["equation"].replace(" ", ""), *tensors))]


# Shapes


def _reshape(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    sizes = node.integers("shape", 1) or []
    if not node.attributes.get("allowzero", 0):
        sizes = [value.shape[place] if size == 0 else size for place, size in enumerate(sizes)]
    return [Value(tf.reshape(first(tf, value), sizes))]


def _flatten(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    axis = node.attributes.get("axis", 1)
    axis += value.rank if axis < 0 else 0
    return [Value(tf.reshape(first(tf, value), (prod(value.shape[:axis]), prod(value.shape[axis:]))))]


def _squeeze(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    axes = node.integers("axes", 1)
    dropped = {axis % value.rank for axis in axes} if axes else {i for i, size in enumerate(value.shape) if size == 1}
    return [Value(tf.reshape(first(tf, value), [size for i, size in enumerate(value.shape) if i not in dropped]))]


def _unsqueeze(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    axes = node.integers("axes", 1) or []
    rank = value.rank + len(axes)
    added = {axis % rank for axis in axes}
    sizes = iter(value.shape)
    return [Value(tf.reshape(first(tf, value), [1 if i in added else next(sizes) for i in range(rank)]))]


def _transpose(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    order = [int(axis) for axis in node.attributes.get("perm", range(value.rank)[::-1])]
    if value.is_last:  # one transpose instead of two
        order = [value.axis(axis) for axis in order]
    return [Value(value.tensor if order == list(range(value.rank)) else tf.transpose(value.tensor, order))]


def _concat(tf: Any, node: Node) -> list[Value]:
    tensors, is_last = _aligned(tf, node)
    value = Value(tensors[0], is_last) if not isinstance(tensors[0], np.ndarray) else Value(tensors[-1], is_last)
    return [Value(tf.concat(tensors, value.axis(node.attributes["axis"])), is_last)]


def _split(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    axis = node.attributes.get("axis", 0)
    sizes = node.integers("split", 1)
    if sizes is None:
        total, count = value.shape[axis % value.rank], node.outputs
        step = ceil(total / count)
        sizes = [min(step, total - step * place) for place in range(count)]
    parts = tf.split(value.tensor, len(sizes) if len(set(sizes)) == 1 else sizes, value.axis(axis))
    return [Value(part, value.is_last) for part in parts]


def _slice(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    starts, ends = node.integers("starts", 1) or [], node.integers("ends", 2) or []
    axes = node.integers("axes", 3) or list(range(len(starts)))
    steps = node.integers("steps", 4) or [1] * len(starts)
    slices = [slice(None)] * value.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = value.shape[axis % value.rank]
        low, high, by = slice(start, end, step).indices(size)
        slices[value.axis(axis)] = slice(low, high if high >= 0 else None, by)
    return [Value(value.tensor[tuple(slices)], value.is_last)]


def _gather(tf: Any, node: Node) -> list[Value]:
    value, axis = node.value(0), node.attributes.get("axis", 0)
    indices = node.value(1)
    if isinstance(indices.tensor, np.ndarray):
        size = value.shape[axis % value.rank]
        wrapped = (indices.tensor + size) % size
        if wrapped.ndim == 0:
            place = int(wrapped)
            slices: list[Any] = [slice(None)] * value.rank
            slices[axis % value.rank] = place
            return [Value(first(tf, value)[tuple(slices)])]
        return [Value(tf.gather(first(tf, value), wrapped.astype(np.int32), axis=axis))]
    return [Value(tf.gather(first(tf, value), tf.cast(first(tf, indices), "int32"), axis=axis))]


def _pad(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    pads = node.integers("pads", 1) or []
    axes = node.integers("axes", 3) or list(range(value.rank))
    fill = node.attributes.get("value", 0.0)
    if node.operand(2) is not None:
        fill = node.constant(2, "value").reshape(-1)[0]
    amounts = [[0, 0] for _ in range(value.rank)]
    for place, axis in enumerate(axes):
        amounts[value.axis(axis)] = [pads[place], pads[place + len(axes)]]
    tensor = value.tensor
    if any(amount < 0 for pair in amounts for amount in pair):
        sizes = [int(size) for size in tensor.shape]
        cuts = [slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(amounts, sizes, strict=True)]
        tensor = tensor[tuple(cuts)]
        amounts = [[max(low, 0), max(high, 0)] for low, high in amounts]
    mode = node.attributes.get("mode", "constant")
    if mode == "edge" and all(max(pair) <= 1 for pair in amounts):
        mode = "symmetric"
    if mode not in ("constant", "reflect", "symmetric"):
        raise node.refuse(f"pads in the mode {mode!r}", "pad with a constant, or by reflection")
    if mode == "constant":
        filled = np.asarray(fill, tensor.dtype.as_numpy_dtype)
        padded = tf.pad(tensor, amounts, constant_values=filled) if filled else tf.pad(tensor, amounts)
        return [Value(padded, value.is_last)]
    return [Value(tf.pad(tensor, amounts, mode.upper()), value.is_last)]


def _expand(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    shape = np.broadcast_shapes(value.shape, tuple(node.integers("shape", 1) or ()))
    return [value if shape == value.shape else Value(tf.broadcast_to(first(tf, value), shape))]


def _tile(tf: Any, node: Node) -> list[Value]:
    return [Value(tf.tile(first(tf, node.value(0)), node.integers("repeats", 1)))]


def _resize(tf: Any, node: Node) -> list[Value]:
    value = node.value(0)
    is_upsample = node.kind == "Upsample"
    position = 1 if is_upsample or node.opset < 11 else 2
    scales, sizes = node.operand(position), node.operand(3)
    if "scales" in node.attributes:
        scales = np.asarray(node.attributes["scales"])
    is_exact = True
    if isinstance(sizes, np.ndarray) and sizes.size:
        target = [int(size) for size in sizes]
    elif isinstance(scales, np.ndarray) and scales.size:
        exact = np.asarray(value.shape, np.float32) * scales.astype(np.float32)  # rounded as in ONNX Runtime
        target = [int(size) for size in exact]
        is_exact = np.allclose(exact, target)
    else:
        raise node.refuse("computes its size, which must be constant", "use a fixed size")
    if value.rank not in (3, 4) or target[:2] != list(value.shape[:2]):
        raise node.refuse("resizes other axes than those of positions", "resize sequences or images")
    mode = node.attributes.get("mode", "nearest")
    if node.attributes.get("antialias", 0):
        raise node.refuse("filters before it resizes (antialias)", "resize without antialias")
    where = node.attributes.get("coordinate_transformation_mode", "asymmetric" if node.opset < 11 else "half_pixel")
    rounding = node.attributes.get("nearest_mode", "floor" if node.opset < 11 else "round_prefer_floor")
    whole = all(new % old == 0 for new, old in zip(target, value.shape, strict=True))
    # For whole factors, all of these choose the same elements.
    is_plain = whole and (where, rounding) in {
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("pytorch_half_pixel", "round_prefer_floor"),
        ("half_pixel_symmetric", "round_prefer_floor"),
    }
    if not is_exact and where != "align_corners":
        # ONNX then maps positions by the scale, and TensorFlow by the ratio of the sizes.
        raise node.refuse("resizes to a size that it rounds", "state the size instead of the scale")
    count = value.rank - 2
    tensor = _two_axes(tf, last(tf, value), count)
    size = [1] * (2 - count) + target[2:]
    if mode == "nearest" and (is_plain or (where, rounding) == ("asymmetric", "floor")):
        result = tf.compat.v1.image.resize_nearest_neighbor(tensor, size)
    elif mode == "linear" and where in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        corners = where == "align_corners"
        half = where.endswith("half_pixel")
        result = tf.compat.v1.image.resize_bilinear(tensor, size, align_corners=corners, half_pixel_centers=half)
    else:
        raise node.refuse(
            f"resizes in the mode {mode!r} with {where!r} coordinates",
            "use nearest with a whole factor, or bilinear",
        )
    return [Value(result if count == 2 else tf.squeeze(result, 1), is_last=True)]


def _depth_to_space(tf: Any, node: Node) -> list[Value]:
    value, block = node.value(0), node.attributes["blocksize"]
    tensor = last(tf, value)
    if node.attributes.get("mode", "DCR") == "CRD":
        depth = value.shape[1] // (block * block)
        tensor = tf.gather(tensor, np.arange(value.shape[1]).reshape(depth, block * block).T.reshape(-1), axis=-1)
    return [Value(tf.nn.depth_to_space(tensor, block), is_last=True)]


def _space_to_depth(tf: Any, node: Node) -> list[Value]:
    return [Value(tf.nn.space_to_depth(last(tf, node.value(0)), node.attributes["blocksize"]), is_last=True)]


# Reductions


def _reduce(function: Callable[[Any, Any, Any, bool], Any]) -> Handler:
    def handle(tf: Any, node: Node) -> list[Value]:
        value = node.value(0)
        axes = node.integers("axes", 1)
        keep = bool(node.attributes.get("keepdims", 1))
        if not axes:
            if node.attributes.get("noop_with_empty_axes", 0):
                return [value]
            axes = list(range(value.rank))
        if keep:
            return [Value(function(tf, value.tensor, [value.axis(axis) for axis in axes], True), value.is_last)]
        kept = [axis for axis in range(value.rank) if axis not in {other % value.rank for other in axes}]
        places = [value.axis(axis) for axis in kept]
        if places == sorted(places):
            return [Value(function(tf, value.tensor, [value.axis(axis) for axis in axes], False))]
        if len(kept) > 2 and kept[:2] == [0, 1]:
            return [Value(function(tf, value.tensor, [value.axis(axis) for axis in axes], False), is_last=True)]
        return [Value(function(tf, first(tf, value), axes, False))]

    return handle


def _arg(tf: Any, node: Node) -> list[Value]:
    value, axis = node.value(0), node.attributes.get("axis", 0)
    if node.attributes.get("select_last_index", 0):
        raise node.refuse("selects the last of equal values", "select the first")
    find = tf.argmax if node.kind == "ArgMax" else tf.argmin
    result = find(first(tf, value), axis % value.rank, output_type="int32")
    return [Value(tf.expand_dims(result, axis % value.rank) if node.attributes.get("keepdims", 1) else result)]


def _softmax(tf: Any, node: Node) -> list[Value]:
    function = tf.nn.log_softmax if node.kind == "LogSoftmax" else tf.nn.softmax
    value = node.value(0)
    if node.opset < 13 and (axis := node.attributes.get("axis", 1) % value.rank) != value.rank - 1:
        flat = tf.reshape(first(tf, value), (prod(value.shape[:axis]), prod(value.shape[axis:])))
        return [Value(tf.reshape(function(flat), value.shape))]
    place = value.axis(node.attributes.get("axis", -1 if node.opset >= 13 else 1))
    if place == value.rank - 1:
        return [Value(function(value.tensor), value.is_last)]
    tensor = first(tf, value)
    order = list(range(value.rank))
    axis = node.attributes.get("axis", -1) % value.rank
    order[axis], order[-1] = order[-1], order[axis]
    return [Value(tf.transpose(function(tf.transpose(tensor, order)), order))]


# Recurrent layers, one copy per time step


def _recurrent(step: Callable[..., tuple[Any, ...]], gates: int, states: int) -> Handler:
    def handle(tf: Any, node: Node) -> list[Value]:
        value = node.value(0)
        time, batch, _ = value.shape
        hidden = int(node.attributes["hidden_size"])
        direction = node.attributes.get("direction", "forward")
        if node.attributes.get("layout", 0) or node.attributes.get("clip"):
            raise node.refuse("uses the attributes layout or clip", "export it without them")
        if node.operand(4) is not None and not _is_full(node.operand(4), time):
            raise node.refuse("has sequences of different lengths", "use sequences of one length")
        if node.kind == "LSTM" and node.operand(7) is not None and np.any(node.constant(7, "peepholes")):
            raise node.refuse("has peepholes", "use an LSTM without them")
        _check_activations(node)
        weights, recurrent = node.constant(1, "weights"), node.constant(2, "weights")
        directions = weights.shape[0]
        bias = np.zeros((directions, 2 * gates * hidden), np.float32)
        bias = bias if node.operand(3) is None else node.constant(3, "bias")
        inputs = first(tf, value)
        sequences, finals = [], []
        for place in range(directions):
            own_bias, other_bias = np.split(bias[place], 2)
            flat = tf.reshape(inputs, (time * batch, -1))
            given = tf.reshape(tf.linalg.matmul(flat, weights[place].T) + own_bias, (time, batch, gates * hidden))
            state = [_initial(tf, node, 5 + number, place, (batch, hidden)) for number in range(states)]
            results: list[Any] = [None] * time
            is_reversed = direction == "reverse" or place == 1
            for instant in range(time)[::-1] if is_reversed else range(time):
                state = list(step(tf, node, given[instant], state, recurrent[place], other_bias, hidden))
                results[instant] = state[0]
            sequences.append(results)
            finals.append(state)
        whole = tf.stack([tf.stack(list(steps), 0) for steps in zip(*sequences, strict=True)], 0)
        lasts = [tf.stack([final[number] for final in finals], 0) for number in range(states)]
        return [Value(tensor) for tensor in (whole, *lasts)]

    return handle


def _is_full(lengths: Operand, time: int) -> bool:
    return isinstance(lengths, np.ndarray) and bool(np.all(lengths == time))


def _check_activations(node: Node) -> None:
    default = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[node.kind]
    given = [item.decode() if isinstance(item, bytes) else item for item in node.attributes.get("activations", [])]
    if given and given != default * (len(given) // len(default)):
        raise node.refuse(f"has the activations {', '.join(given)}", f"use {', '.join(default)}")


def _initial(tf: Any, node: Node, position: int, place: int, shape: tuple[int, int]) -> Any:
    """Return the state before the first step; None if it is zero."""
    operand = node.operand(position)
    if operand is None or (isinstance(operand, np.ndarray) and not operand.any()):
        return None
    return operand[place] if isinstance(operand, np.ndarray) else first(tf, operand)[place]


def _product(tf: Any, state: Any, weights: Constant, bias: Constant) -> Any:
    """Return state @ weights.T + bias; only the bias if the state is zero."""
    return bias[None] if state is None else tf.linalg.matmul(state, weights.T) + bias


def _lstm_step(
    tf: Any, node: Node, given: Any, state: Sequence[Any], recurrent: Constant, bias: Constant, hidden: int
) -> tuple[Any, ...]:
    before, cell = state
    i, o, f, c = tf.split(given + _product(tf, before, recurrent, bias), 4, 1)
    new = tf.sigmoid(i) * tf.tanh(c)
    new = new if cell is None else tf.sigmoid(f) * cell + new
    return tf.sigmoid(o) * tf.tanh(new), new


def _gru_step(
    tf: Any, node: Node, given: Any, state: Sequence[Any], recurrent: Constant, bias: Constant, hidden: int
) -> tuple[Any, ...]:
    (before,) = state
    both, rest = 2 * hidden, given[:, 2 * hidden :]
    z, r = tf.split(tf.sigmoid(given[:, :both] + _product(tf, before, recurrent[:both], bias[:both])), 2, 1)
    if node.attributes.get("linear_before_reset", 0):
        candidate = tf.tanh(rest + r * _product(tf, before, recurrent[both:], bias[both:]))
    else:
        reset = None if before is None else r * before
        candidate = tf.tanh(rest + _product(tf, reset, recurrent[both:], bias[both:]))
    new = (1.0 - z) * candidate
    return (new if before is None else new + z * before,)


def _rnn_step(
    tf: Any, node: Node, given: Any, state: Sequence[Any], recurrent: Constant, bias: Constant, hidden: int
) -> tuple[Any, ...]:
    return (tf.tanh(given + _product(tf, state[0], recurrent, bias)),)


UNARY: Mapping[str, Callable[[Any, Node, Any], Any]] = {
    "Abs": lambda tf, node, x: tf.abs(x),
    "Ceil": lambda tf, node, x: tf.math.ceil(x),
    "Celu": lambda tf, node, x: (
        tf.nn.relu(x)
        + tf.minimum(0.0, tf.nn.elu(x / node.attributes.get("alpha", 1.0))) * node.attributes.get("alpha", 1.0)
    ),
    "Cos": lambda tf, node, x: tf.cos(x),
    "Elu": lambda tf, node, x: (
        tf.nn.elu(x)
        if node.attributes.get("alpha", 1.0) == 1.0
        else tf.nn.relu(x) + node.attributes["alpha"] * (tf.exp(tf.minimum(x, 0.0)) - 1.0)
    ),
    "Erf": lambda tf, node, x: approximate_erf(tf, x),
    "Exp": lambda tf, node, x: tf.exp(x),
    "Floor": lambda tf, node, x: tf.floor(x),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda tf, node, x: x * tf.nn.relu6(x + 3.0) * (1 / 6),
    "LeakyRelu": lambda tf, node, x: tf.nn.leaky_relu(x, node.attributes.get("alpha", 0.01)),
    "Log": lambda tf, node, x: tf.math.log(x),
    "Mish": lambda tf, node, x: x * tf.tanh(tf.math.softplus(x)),
    "Neg": lambda tf, node, x: -x,
    "Not": lambda tf, node, x: tf.logical_not(x),
    "Reciprocal": lambda tf, node, x: 1.0 / x,
    "Relu": lambda tf, node, x: tf.nn.relu(x),
    "Round": lambda tf, node, x: tf.round(x),
    "Selu": lambda tf, node, x: tf.nn.selu(x),
    "Sigmoid": lambda tf, node, x: tf.sigmoid(x),
    "Sign": lambda tf, node, x: tf.sign(x),
    "Sin": lambda tf, node, x: tf.sin(x),
    "Softplus": lambda tf, node, x: tf.math.softplus(x),
    "Softsign": lambda tf, node, x: tf.nn.softsign(x),
    "Sqrt": lambda tf, node, x: tf.sqrt(x),
    "Tanh": lambda tf, node, x: tf.tanh(x),
    "ThresholdedRelu": lambda tf, node, x: tf.where(x > node.attributes.get("alpha", 1.0), x, tf.zeros_like(x)),
}
BROADCAST: Mapping[str, Callable[..., Any]] = {
    "Add": lambda tf, a, b: a + b,
    "And": lambda tf, a, b: tf.logical_and(a, b),
    "Div": lambda tf, a, b: _quotients(tf, a, b) if _is_integer(a) else a / b,
    "Equal": lambda tf, a, b: tf.equal(a, b),
    "Greater": lambda tf, a, b: tf.greater(a, b),
    "GreaterOrEqual": lambda tf, a, b: tf.greater_equal(a, b),
    "Less": lambda tf, a, b: tf.less(a, b),
    "LessOrEqual": lambda tf, a, b: tf.less_equal(a, b),
    "Mul": lambda tf, a, b: a * b,
    "Or": lambda tf, a, b: tf.logical_or(a, b),
    "Pow": lambda tf, a, b: tf.square(a) if isinstance(b, np.ndarray) and np.all(b == 2) else tf.pow(a, b),
    "Sub": lambda tf, a, b: a - b,
    "Where": lambda tf, condition, a, b: tf.where(condition, a, b),
}
REPEATED: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "Max": lambda tf, a, b: tf.maximum(a, b),
    "Min": lambda tf, a, b: tf.minimum(a, b),
    "Sum": lambda tf, a, b: a + b,
}
REDUCTIONS: Mapping[str, Callable[[Any, Any, Any, bool], Any]] = {
    "ReduceL1": lambda tf, x, axes, keep: tf.reduce_sum(tf.abs(x), axes, keepdims=keep),
    "ReduceL2": lambda tf, x, axes, keep: tf.sqrt(tf.reduce_sum(x * x, axes, keepdims=keep)),
    "ReduceMax": lambda tf, x, axes, keep: tf.reduce_max(x, axes, keepdims=keep),
    "ReduceMean": lambda tf, x, axes, keep: tf.reduce_mean(x, axes, keepdims=keep),
    "ReduceMin": lambda tf, x, axes, keep: tf.reduce_min(x, axes, keepdims=keep),
    "ReduceProd": lambda tf, x, axes, keep: tf.reduce_prod(x, axes, keepdims=keep),
    "ReduceSum": lambda tf, x, axes, keep: tf.reduce_sum(x, axes, keepdims=keep),
    "ReduceSumSquare": lambda tf, x, axes, keep: tf.reduce_sum(x * x, axes, keepdims=keep),
}


def _quotients(tf: Any, a: Any, b: Any) -> Any:
    """Return the quotients of integers, rounded towards zero as ONNX does; TensorFlow rounds down."""
    return tf.sign(a) * tf.sign(b) * (tf.abs(a) // tf.abs(b))


def _is_integer(tensor: Any) -> bool:
    return bool(np.dtype(getattr(tensor.dtype, "as_numpy_dtype", tensor.dtype)).kind in "iu")


HANDLERS: Mapping[str, Handler] = {
    **{name: _unary(function) for name, function in UNARY.items()},
    **{name: _broadcast(function) for name, function in BROADCAST.items()},
    **{name: _reduced(function) for name, function in REPEATED.items()},
    **{name: _reduce(function) for name, function in REDUCTIONS.items()},
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "Dropout": _dropout,
    "Einsum": _einsum,
    "Expand": _expand,
    "Flatten": _flatten,
    "GRU": _recurrent(_gru_step, 3, 1),
    "Gather": _gather,
    "Gemm": _gemm,
    "Identity": _same,
    "InstanceNormalization": _instance_norm,
    "LSTM": _recurrent(_lstm_step, 4, 2),
    "LayerNormalization": _layer_norm,
    "MatMul": _matmul,
    "PRelu": _prelu,
    "Pad": _pad,
    "RNN": _recurrent(_rnn_step, 1, 1),
    "Reshape": _reshape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
