"""Float32 graphs in the form that TensorFlow's converter gives to Keras models, before they are quantized.

Importers spell out what a Keras model has as one operator. Quantization then rounds between the parts, and the runtime
takes longer. Here

- constants are computed, and arithmetic on the channels of a convolution becomes part of its weights and bias;
- padding becomes that of the convolution, and clamps become fused activations;
- a depthwise convolution of one channel becomes CONV_2D;
- elementwise operators that compute a known activation function, or a multiple of one, become that function;
- factors become part of the weights or the SOFTMAX behind them;
- weights that are quantized and dequantized are constants in the order of the operator that reads them;
- reductions drop axes themselves, and read images before these are flattened;
- products with a constant matrix become FULLY_CONNECTED.

Results differ only as float32 rounds the new constants and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from edgetool.model.draft import Array, Draft
from edgetool.model.types import DType, Model, Operator, OptionValue
from edgetool.passes.elementwise import Reals, apply, closed_regions, evaluate, remove_unread
from edgetool.passes.folding import FOLDED, FUSABLE, fold, fuse
from edgetool.passes.layout import REDUCTIONS, axis_groups, merge_moves, move_transposes
from edgetool.passes.rewrite import OperatorBuilder, fused_activation
from edgetool.passes.validation import is_consistent, is_in_order

FloatRule = Callable[[Draft, Operator], object]
ACTIVATION = "fused_activation_function"

# The operators with weights: the positions of the weights and the bias, and the axis of the output channels.
WEIGHTED: Mapping[str, tuple[int, int, int]] = {
    "CONV_2D": (1, 2, 0),
    "DEPTHWISE_CONV_2D": (1, 2, 3),
    "FULLY_CONNECTED": (1, 2, 0),
    "TRANSPOSE_CONV": (1, 3, 0),
}
# The position of the input that the weights multiply, if it is not the first.
DATA: Mapping[str, int] = {"TRANSPOSE_CONV": 2}
ARITHMETIC = frozenset({"ADD", "DIV", "MUL", "SUB"})


def tidy_float(model: Model) -> Model:
    """Return the model with its float32 operators in the form of Keras models; itself if nothing changes.

    Inputs and outputs keep their names, shapes and types. Subgraphs whose operators are not in order do not change.
    """
    for subgraph in range(len(model.subgraphs)):
        if not is_in_order(Draft(model, subgraph)):
            continue
        before = None
        while before is not model:
            before = model
            draft = Draft(model, subgraph)
            if _apply_rules(draft):
                model = draft.finish()
            model = move_transposes(model, subgraph)
    return model


def _apply_rules(draft: Draft) -> bool:
    """Apply the rules to each operator until none applies; return whether any did."""
    changed, progress = False, True
    while progress:
        progress = merge_moves(draft)
        for index in tuple(operator.index for operator in draft.operators):
            operator = draft.operator(index)
            if operator is not None and is_consistent(draft, operator):
                progress = any(rule(draft, operator) for rule in _rules(operator.code)) or progress
        changed = changed or progress
    return changed


def _option(operator: Operator, name: str) -> Any:
    return dict(operator.options.fields).get(name) if operator.options is not None else None


def _with_options(operator: Operator, **new: OptionValue) -> Operator:
    assert operator.options is not None
    fields = tuple((name, new.get(name, value)) for name, value in operator.options.fields)
    return replace(operator, options=replace(operator.options, fields=fields))


def _is_float(draft: Draft, *tensors: int) -> bool:
    return all(draft.tensors[tensor].dtype is DType.FLOAT32 for tensor in tensors)


def _only_producer(draft: Draft, operator: Operator, tensor: int) -> Operator | None:
    """Return the operator that computes a tensor for this one alone."""
    if tensor in draft.outputs or len(draft.consumers(tensor)) != 1 or operator.inputs.count(tensor) != 1:
        return None
    producer = draft.producer(tensor)
    return producer if producer is not None and is_consistent(draft, producer) else None


# Weights


def _into_weights(draft: Draft, operator: Operator) -> bool:
    """Apply arithmetic with a constant for each channel to the weights and the bias of the operator before it.

    Between them may be operators that move elements without changing their channels.
    """
    position = 0 if draft.values(operator.inputs[0]) is not None else 1
    constant, computed = draft.values(operator.inputs[position]), operator.inputs[1 - position]
    nearest, before = _before_moves(draft, operator, computed)
    if (
        constant is None
        or before is None
        or nearest is None
        or before.code not in WEIGHTED
        or fused_activation(before) != "NONE"
    ):
        return False
    weights_at, bias_at, axis = WEIGHTED[before.code]
    weights = draft.values(before.inputs[weights_at])
    bias_index = before.inputs[bias_at] if len(before.inputs) > bias_at else -1
    bias = draft.values(bias_index)
    output = draft.tensors[operator.outputs[0]]
    if weights is None or (bias is None and bias_index >= 0) or draft.tensors[computed].shape != output.shape:
        return False
    if not _is_float(draft, before.inputs[weights_at], operator.inputs[position], computed):
        return False
    channels = output.shape[-1] if output.shape else 0
    if weights.shape[axis] != channels or not _is_for_each_channel(constant, channels):
        return False
    if before.code not in FUSABLE and fused_activation(operator) != "NONE":
        return False
    factor, offset = _as_affine(operator, np.broadcast_to(constant.reshape(-1), channels), position)
    if not np.isfinite(factor).all():
        return False
    by_channel = [1] * weights.ndim
    by_channel[axis] = -1
    scaled = weights * factor.reshape(by_channel)
    shifted = (np.zeros(channels, np.float32) if bias is None else bias) * factor + offset
    new = [*before.inputs, *[-1] * (bias_at + 1 - len(before.inputs))]
    new[weights_at] = draft.constant(draft.tensors[new[weights_at]].name, scaled.astype(np.float32))
    name = output.name if bias is None else draft.tensors[bias_index].name
    new[bias_at] = draft.constant(f"{name}/bias" if bias is None else name, shifted.astype(np.float32))
    version = max(before.version, TRANSPOSE_CONV_WITH_BIAS) if before.code == "TRANSPOSE_CONV" else before.version
    changed = replace(before, inputs=tuple(new), version=version)
    draft.replace(before, _with_options(changed, **{ACTIVATION: fused_activation(operator)}))
    last = draft.operator(nearest.index)
    assert last is not None
    draft.replace(last, replace(last, outputs=operator.outputs))
    draft.replace(operator)
    return True


TRANSPOSE_CONV_WITH_BIAS = 3  # the version


def _before_moves(draft: Draft, operator: Operator, tensor: int) -> tuple[Operator | None, Operator | None]:
    """Return the operator that computes a tensor for this one alone, and the nearest that does not only move elements.

    The channels stay the last axis between them.
    """
    before = nearest = _only_producer(draft, operator, tensor)
    while before is not None and _keeps_channels(draft, before):
        before = _only_producer(draft, before, before.inputs[0])
    return nearest, before


def _fuse_before_moves(draft: Draft, operator: Operator) -> bool:
    """Fuse a rectifier into an operator whose results are moved in between."""
    nearest, before = _before_moves(draft, operator, operator.inputs[0])
    if nearest is None or before is None or before is nearest or not _is_float(draft, *operator.outputs):
        return False
    if before.code not in FUSABLE or fused_activation(before) != "NONE":
        return False
    draft.replace(before, _with_options(before, **{ACTIVATION: operator.code}))
    draft.replace(nearest, replace(nearest, outputs=operator.outputs))
    draft.replace(operator)
    return True


def _keeps_channels(draft: Draft, operator: Operator) -> bool:
    """Return whether an operator only moves elements along axes other than the last."""
    if operator.code not in ("BATCH_TO_SPACE_ND", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"):
        return False
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    return source.shape[-1:] == output.shape[-1:] != ()


def _is_for_each_channel(constant: Array, channels: int) -> bool:
    """Return whether a constant has one value, or one for each channel, along its last axis."""
    return constant.size == 1 or (constant.size == channels and constant.shape[-1] == channels)


def _as_affine(operator: Operator, constant: Array, position: int) -> tuple[Array, Array]:
    """Return arithmetic with a constant as a factor and an offset."""
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    if operator.code == "MUL":
        return constant, zero
    if operator.code == "ADD":
        return one, constant
    if operator.code == "SUB":
        return (one, -constant) if position == 1 else (-one, constant)
    with np.errstate(divide="ignore"):
        return (one / constant, zero) if position == 1 else (np.full_like(constant, np.inf), zero)


@dataclass(frozen=True, slots=True)
class Affine:
    """Operators that compute source * factor + offset, with constants for each channel (of the last axis).

    operators: from the first to the last, none of which another operator reads.
    """

    source: int
    factor: Array
    offset: Array
    operators: tuple[Operator, ...]


def channel_affine(draft: Draft, last: Operator) -> Affine | None:
    """Return the longest chain of arithmetic with constants for each channel that ends at this operator."""
    shape, tensor = draft.tensors[last.outputs[0]].shape, last.outputs[0]
    chain: list[Operator] = []
    channels = shape[-1] if shape else 1
    factor, offset = np.ones(channels), np.zeros(channels)
    operator: Operator | None = last
    while operator is not None and operator.code in ARITHMETIC and is_consistent(draft, operator):
        position = 0 if draft.values(operator.inputs[0]) is not None else 1
        constant, computed = draft.values(operator.inputs[position]), operator.inputs[1 - position]
        if constant is None or draft.tensors[computed].shape != shape or not _is_float(draft, *operator.inputs):
            break
        if not _is_for_each_channel(constant, channels):
            break
        if chain and fused_activation(operator) != "NONE":
            break
        values = np.broadcast_to(constant.reshape(-1).astype(np.float64), channels)
        first_factor, first_offset = _as_affine(operator, values, position)
        if not np.isfinite(first_factor).all():
            break
        factor, offset = first_factor * factor, first_offset * factor + offset
        chain.append(operator)
        tensor = computed
        operator = _only_producer(draft, operator, computed)
    if not chain or not (np.isfinite(factor).all() and np.isfinite(offset).all()):
        return None
    return Affine(tensor, factor.astype(np.float32), offset.astype(np.float32), tuple(reversed(chain)))


def _merge_affine(draft: Draft, operator: Operator) -> bool:
    """Replace a longer chain by one MUL and one ADD."""
    affine = channel_affine(draft, operator)
    if affine is None:
        return False
    steps = [("MUL", affine.factor)] if (affine.factor != 1).any() else []
    steps += [("ADD", affine.offset)] if (affine.offset != 0).any() or not steps else []
    if len(steps) >= len(affine.operators):
        return False
    builder, result = OperatorBuilder(draft, operator), affine.source
    shape = draft.tensors[operator.outputs[0]].shape
    for place, (code, values) in enumerate(steps):
        activation = fused_activation(operator) if place == len(steps) - 1 else "NONE"
        inputs = [result, builder.constant(values)]
        result = builder.add(code, inputs, shape, like=affine.source, fused_activation_function=activation)
    builder.finish("merge-affine", result)
    for old in affine.operators[:-1]:
        draft.replace(old)
    return True


def _from_before(draft: Draft, operator: Operator) -> bool:
    """Apply arithmetic with a constant for each input of a dense layer, before it, to its weights and its bias.

    Between them may be operators that move elements without changing their channels. If several operators read the
    result, all must be dense layers, each of which then computes from the source.
    """
    move, tensor = None, operator.inputs[0]
    before = draft.producer(tensor)
    while before is not None and _keeps_channels(draft, before) and _only_reader(draft, tensor) is not None:
        move, tensor = before, before.inputs[0]
        before = draft.producer(tensor)
    weights = draft.values(operator.inputs[1])
    if before is None or weights is None or not _is_float(draft, *(index for index in operator.inputs if index >= 0)):
        return False
    if before.code not in ARITHMETIC or fused_activation(before) != "NONE" or not is_consistent(draft, before):
        return False
    if not _is_read_by_dense_layers(draft, tensor):
        return False
    affine = channel_affine(draft, before)
    bias_index = operator.inputs[2] if len(operator.inputs) > 2 else -1
    bias = draft.values(bias_index) if bias_index >= 0 else np.zeros(len(weights), np.float32)
    if affine is None or bias is None or draft.tensors[affine.source].shape[-1:] != weights.shape[1:]:
        return False
    scaled, shifted = weights * affine.factor, bias + weights @ affine.offset
    if not (np.isfinite(scaled).all() and np.isfinite(shifted).all()):
        return False
    name = draft.tensors[operator.outputs[0]].name
    if move is not None:
        draft.replace(move, replace(move, inputs=(affine.source, *move.inputs[1:])))
    inputs = (
        affine.source if move is None else operator.inputs[0],
        draft.constant(draft.tensors[operator.inputs[1]].name, scaled.astype(np.float32)),
        draft.constant(
            f"{name}/bias" if bias_index < 0 else draft.tensors[bias_index].name, shifted.astype(np.float32)
        ),
    )
    draft.replace(operator, replace(operator, inputs=(*inputs, *operator.inputs[3:])))
    if not draft.consumers(tensor):
        for old in affine.operators:
            draft.replace(old)
    return True


def _is_read_by_dense_layers(draft: Draft, tensor: int) -> bool:
    """Return whether only dense layers with constant weights read a tensor, also over moves that keep its channels."""
    if tensor in draft.outputs:
        return False
    for reader in draft.consumers(tensor):
        last: Operator | None = reader
        read = tensor
        while last is not None and _keeps_channels(draft, last):
            read = last.outputs[0]
            last = _only_reader(draft, read)
        if last is None or last.code != "FULLY_CONNECTED" or last.inputs.count(read) != 1 or last.inputs[0] != read:
            return False
        if draft.values(last.inputs[1]) is None or not is_consistent(draft, last):
            return False
    return True


# Operators whose result is multiplied by a factor if one of their inputs is.
LINEAR = frozenset({"BATCH_MATMUL", "RESHAPE", "TRANSPOSE"})


def _into_reader(draft: Draft, operator: Operator) -> bool:
    """Let the weights or the SOFTMAX that read the product with one number multiply by it, over moves and products."""
    position = 0 if draft.values(operator.inputs[0]) is not None else 1
    constant, computed = draft.values(operator.inputs[position]), operator.inputs[1 - position]
    tensor = operator.outputs[0]
    if constant is None or constant.size == 0 or operator.code not in ("MUL", "DIV"):
        return False
    if fused_activation(operator) != "NONE" or not _is_float(draft, *operator.inputs):
        return False
    factors, _ = _as_affine(operator, constant.reshape(-1), position)
    factor = float(factors[0])
    if (factors != factor).any() or not np.isfinite(factor) or not factor:
        return False
    if draft.tensors[computed].shape != draft.tensors[tensor].shape:
        return False
    reader = _only_reader(draft, tensor)
    while reader is not None and reader.code in LINEAR:
        tensor = reader.outputs[0]
        reader = _only_reader(draft, tensor)
    if reader is None or reader.options is None or reader.inputs[DATA.get(reader.code, 0)] != tensor:
        return False
    if reader.code == "SOFTMAX" and factor > 0:
        draft.replace(reader, _with_options(reader, beta=_option(reader, "beta") * factor))
    elif reader.code in WEIGHTED:
        place = WEIGHTED[reader.code][0]
        weights, stored = draft.values(reader.inputs[place]), draft.tensors[reader.inputs[place]]
        if weights is None or not _is_float(draft, stored.index) or not np.isfinite(weights * factor).all():
            return False
        inputs = list(reader.inputs)
        inputs[place] = draft.constant(stored.name, (weights * np.float32(factor)).astype(np.float32))
        draft.replace(reader, replace(reader, inputs=tuple(inputs)))
    else:
        return False
    draft.redirect(operator.outputs[0], computed)
    draft.replace(operator)
    return True


def _only_reader(draft: Draft, tensor: int) -> Operator | None:
    """Return the operator that alone reads a tensor, once."""
    readers = draft.consumers(tensor)
    if tensor in draft.outputs or len(readers) != 1 or readers[0].inputs.count(tensor) != 1:
        return None
    return readers[0] if is_consistent(draft, readers[0]) else None


def _as_dense(draft: Draft, operator: Operator) -> bool:
    """Replace the product with a constant matrix by FULLY_CONNECTED."""
    left, right = operator.inputs
    matrix, source, output = draft.values(right), draft.tensors[left], draft.tensors[operator.outputs[0]]
    if matrix is None or _option(operator, "adj_x") or not _is_float(draft, left, right):
        return False
    if any(size != 1 for size in matrix.shape[:-2]) or len(source.shape) < 2 or len(output.shape) != len(source.shape):
        return False
    columns = matrix.reshape(matrix.shape[-2:])
    weights = columns if _option(operator, "adj_y") else columns.T
    builder = OperatorBuilder(draft, operator)
    inputs = [left, builder.constant(np.ascontiguousarray(weights)), -1]
    keeps = len(output.shape) > 2
    result = builder.add("FULLY_CONNECTED", inputs, output.shape, like=left, keep_num_dims=keeps)
    builder.finish("as-dense", result)
    return True


# Windows


def _pad_same(draft: Draft, operator: Operator) -> bool:
    """Let a convolution pad its input itself if its SAME padding adds the same zeros."""
    pad = _only_producer(draft, operator, operator.inputs[0])
    if pad is None or pad.code != "PAD" or _option(operator, "padding") != "VALID":
        return False
    paddings, weights = draft.values(pad.inputs[1]), draft.tensors[operator.inputs[1]]
    source, output = draft.tensors[pad.inputs[0]], draft.tensors[operator.outputs[0]]
    if paddings is None or len(source.shape) != 4 or paddings[[0, 3]].any() or source.is_variable:
        return False
    for axis, letter in ((1, "h"), (2, "w")):
        stride, dilation = _option(operator, f"stride_{letter}"), _option(operator, f"dilation_{letter}_factor")
        window = (weights.shape[axis] - 1) * dilation + 1
        total = max(0, (output.shape[axis] - 1) * stride + window - source.shape[axis])
        if output.shape[axis] != -(-source.shape[axis] // stride):
            return False
        if paddings[axis].tolist() != [total // 2, total - total // 2]:
            return False
    changed = replace(operator, inputs=(pad.inputs[0], *operator.inputs[1:]))
    draft.replace(operator, _with_options(changed, padding="SAME"))
    draft.replace(pad)
    return True


def _from_one_channel(draft: Draft, operator: Operator) -> bool:
    """Replace a depthwise convolution of one channel, as some importers write any convolution of one, by CONV_2D."""
    source, constant = operator.inputs[:2]
    weights = draft.values(constant)
    if weights is None or operator.options is None or draft.tensors[source].shape[-1:] != (1,):
        return False
    if not _is_float(draft, source, constant):
        return False
    filters = draft.constant(draft.tensors[constant].name, np.ascontiguousarray(weights.transpose(3, 1, 2, 0)))
    options: dict[str, Any] = {name: value for name, value in operator.options.fields if name != "depth_multiplier"}
    bias = [tensor for tensor in operator.inputs[2:] if tensor >= 0]
    if not bias:  # which the kernel needs
        name = draft.tensors[operator.outputs[0]].name
        bias = [draft.constant(f"{name}/bias", np.zeros(len(weights[0, 0, 0]), np.float32))]
    draft.replace(operator, draft.make("CONV_2D", [source, filters, *bias], operator.outputs, **options))
    return True


LOWEST = -1e38  # PyTorch pads with the smallest float32, which has no scale


def _repeat_edge(draft: Draft, operator: Operator) -> bool:
    """Pad an image for its maxima with a mirror image, which repeats values of each window, not with the smallest."""
    pad = _only_producer(draft, operator, operator.inputs[0])
    if pad is None or pad.code != "PADV2" or _option(operator, "padding") != "VALID":
        return False
    paddings, value, shape = (
        draft.values(pad.inputs[1]),
        draft.values(pad.inputs[2]),
        draft.tensors[pad.inputs[0]].shape,
    )
    if (
        paddings is None
        or value is None
        or value.size != 1
        or value.dtype != np.float32
        or value.reshape(-1)[0] > LOWEST
    ):
        return False
    limits = (0, _option(operator, "filter_height") // 2, _option(operator, "filter_width") // 2, 0)
    if any(max(row) > min(limit, size) for row, limit, size in zip(paddings, limits, shape, strict=True)):
        return False
    draft.replace(pad, draft.make("MIRROR_PAD", pad.inputs[:2], pad.outputs, mode="SYMMETRIC"))
    return True


# Functions

# Values at which two functions are compared, and the difference that rounding explains.
POINTS: Reals = np.concatenate([np.linspace(-12.0, 12.0, 4001), [-1e4, -100.0, -30.0, 30.0, 100.0, 1e4]])
TOLERANCE = 2e-6


def _known_functions(values: Reals) -> list[tuple[str, dict[str, Any]]]:
    """Return the operators that may compute these values at POINTS."""
    slope = float(np.float32(values[0] / POINTS[0]))
    functions: list[tuple[str, dict[str, Any]]] = [
        ("RELU", {}),
        ("RELU6", {}),
        ("RELU_N1_TO_1", {}),
        ("HARD_SWISH", {}),
        ("GELU", {"approximate": False}),
        ("GELU", {"approximate": True}),
        ("ELU", {}),
        ("LOGISTIC", {}),
        ("TANH", {}),
    ]
    return [*functions, ("LEAKY_RELU", {"alpha": slope})] if 0 < slope < 1 else functions


def _known(draft: Draft, operator: Operator) -> bool:
    """Replace the longest chain of elementwise operators that computes a known activation function by its operator.

    If it computes a multiple of the function, followed by MUL: converters move factors into the weights behind.
    """
    for region in closed_regions(draft, operator):
        source, result = draft.tensors[region.source], draft.tensors[region.result]
        if not _is_float(draft, region.source, region.result) or source.shape != result.shape:
            continue
        values = evaluate(draft, region, POINTS)
        for code, options in _known_functions(values):
            candidate = draft.make(code, [region.source], [region.result], **options)
            function = apply(candidate, POINTS)
            codes = [one.code for one in region.operators]
            if codes != [code] and np.allclose(function, values, rtol=TOLERANCE, atol=TOLERANCE):
                draft.replace(operator, candidate)
                remove_unread(draft, region)
                return True
            factor = _factor(function, values)
            if factor is not None and len(codes) > 1 and codes != [code, "MUL"]:
                builder = OperatorBuilder(draft, operator)
                plain = builder.add(code, [region.source], source.shape, like=region.source, **options)
                inputs = [plain, builder.constant(np.float32(factor))]
                builder.finish("known-function", builder.add("MUL", inputs, source.shape, like=region.source))
                remove_unread(draft, region)
                return True
    return False


def _factor(function: Reals, values: Reals) -> float | None:
    """Return the factor that makes the values of a function these values; None if there is none."""
    largest = int(np.argmax(np.abs(function)))
    factor = float(values[largest] / function[largest])
    if not 0 < abs(factor) <= float(np.finfo(np.float32).max):
        return None
    tolerance = TOLERANCE * abs(factor)
    return factor if np.allclose(function * factor, values, rtol=TOLERANCE, atol=tolerance) else None


def _softplus(draft: Draft, operator: Operator) -> bool:
    """Replace a softplus that selects x for large x by log(exp(x) + 1), as for Keras.

    The kernels that select require one scale of both values: the negative values of x would be lost in int8.
    """
    for region in closed_regions(draft, operator):
        source = draft.tensors[region.source]
        if not _is_float(draft, region.source, region.result) or source.shape != draft.tensors[region.result].shape:
            continue
        if np.allclose(evaluate(draft, region, POINTS), np.logaddexp(0, POINTS), rtol=TOLERANCE, atol=TOLERANCE):
            builder = OperatorBuilder(draft, operator)
            power = builder.add("EXP", [region.source], source.shape, like=region.source)
            one = builder.constant(np.float32(1))
            result = builder.add("ADD", [power, one], source.shape, like=region.source)
            builder.finish("softplus", builder.add("LOG", [result], source.shape, like=region.source))
            remove_unread(draft, region)
            return True
    return False


# Reductions


def _drop_axes(draft: Draft, operator: Operator) -> bool:
    """Let a reduction before a RESHAPE drop its axes."""
    before = _only_producer(draft, operator, operator.inputs[0])
    if before is None or before.code not in REDUCTIONS or not _option(before, "keep_dims"):
        return False
    axes, shape = draft.values(before.inputs[1]), draft.tensors[before.inputs[0]].shape
    if axes is None:
        return False
    dropped = {int(axis) % len(shape) for axis in axes.reshape(-1)}
    if draft.tensors[operator.outputs[0]].shape != tuple(n for axis, n in enumerate(shape) if axis not in dropped):
        return False
    draft.replace(before, replace(_with_options(before, keep_dims=False), outputs=operator.outputs))
    draft.replace(operator)
    return True


def _reduce_image(draft: Draft, operator: Operator) -> bool:
    """Let a reduction of flattened axes read the tensor before it is flattened."""
    before = _only_producer(draft, operator, operator.inputs[0])
    axes = draft.values(operator.inputs[1])
    if before is None or before.code != "RESHAPE" or axes is None:
        return False
    source, flat = draft.tensors[before.inputs[0]], draft.tensors[operator.inputs[0]]
    if source.is_variable or not source.element_count or not _is_float(draft, source.index):
        return False
    reduced = {int(axis) % len(flat.shape) for axis in axes.reshape(-1)}
    new: list[int] = []
    for old_axes, flat_axes in axis_groups(source.shape, flat.shape):
        if reduced.isdisjoint(flat_axes):
            continue
        if not reduced.issuperset(flat_axes):
            return False
        new += old_axes
    kept = tuple(n for axis, n in enumerate(source.shape) if axis not in new)
    if not new or draft.tensors[operator.outputs[0]].shape != kept:
        return False
    constant = draft.constant("axes", np.array(sorted(new), np.int32))
    changed = replace(operator, inputs=(source.index, constant))
    draft.replace(operator, _with_options(changed, keep_dims=False))
    draft.replace(before)
    return True


# Slices


def _keep_axes(draft: Draft, operator: Operator) -> bool:
    """Let a slice keep the axes that it drops before a RESHAPE, so that transposes move over it."""
    reader = _only_reader(draft, operator.outputs[0])
    dropped = _option(operator, "shrink_axis_mask")
    if reader is None or reader.code != "RESHAPE" or not dropped or _option(operator, "new_axis_mask"):
        return False
    begin, end = draft.values(operator.inputs[1]), draft.values(operator.inputs[2])
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if begin is None or end is None or len(begin) != len(source.shape) or _option(operator, "ellipsis_mask"):
        return False
    begin, end, shape = begin.copy(), end.copy(), list(output.shape)
    for axis, size in enumerate(source.shape):
        if dropped >> axis & 1:
            begin[axis] %= size
            end[axis] = begin[axis] + 1
            shape.insert(axis, 1)
    masks = {name: _option(operator, name) & ~dropped for name in ("begin_mask", "end_mask", "shrink_axis_mask")}
    bounds = [draft.constant(f"{output.name}/{name}", values) for name, values in (("begin", begin), ("end", end))]
    kept = draft.tensor(f"{output.name}/strided_slice", shape, output.dtype, output.quantization)
    inputs = (source.index, *bounds, *operator.inputs[3:])
    draft.replace(operator, replace(_with_options(operator, **masks), inputs=inputs, outputs=(kept,)))
    draft.redirect(output.index, kept)
    return True


def _move_quantized(draft: Draft, operator: Operator) -> bool:
    """Move a constant before it is quantized and dequantized, instead of the result; its scales stay.

    The quantizer then finds constant weights.
    """
    dequantize = draft.producer(operator.inputs[0])
    quantize = draft.producer(dequantize.inputs[0]) if dequantize and dequantize.code == "DEQUANTIZE" else None
    if dequantize is None or quantize is None or quantize.code != "QUANTIZE" or operator.outputs[0] in draft.outputs:
        return False
    values = draft.values(quantize.inputs[0])
    quantized, moved = draft.tensors[quantize.outputs[0]], draft.tensors[operator.outputs[0]]
    order = draft.values(operator.inputs[1]) if operator.code == "TRANSPOSE" else None
    scales = quantized.quantization
    if values is None or scales is None or (operator.code == "TRANSPOSE" and order is None):
        return False
    if scales.per_channel:
        axis = _moved_axis(quantized.shape, moved.shape, scales.axis, None if order is None else order.tolist())
        if axis is None:
            return False
        scales = replace(scales, axis=axis)
    reals = values.reshape(moved.shape) if order is None else values.transpose(order)
    constant = draft.constant(draft.tensors[quantize.inputs[0]].name, reals)
    codes = draft.tensor(quantized.name, moved.shape, quantized.dtype, scales)
    draft.replace(
        operator, draft.copy(quantize, [constant], [codes]), draft.copy(dequantize, [codes], operator.outputs)
    )
    for old in (dequantize, quantize):
        if not draft.consumers(old.outputs[0]) and old.outputs[0] not in draft.outputs:
            draft.replace(old)
    return True


def _moved_axis(before: tuple[int, ...], after: tuple[int, ...], axis: int, order: list[int] | None) -> int | None:
    """Return where an axis is after a TRANSPOSE in this order, or after a RESHAPE; None if it is split or merged."""
    if order is not None:
        return order.index(axis)
    outer = prod(before[:axis])
    places = (place for place, size in enumerate(after) if size == before[axis] and prod(after[:place]) == outer)
    return next(places, None)


RULES: Mapping[str, tuple[FloatRule, ...]] = {
    **dict.fromkeys(ARITHMETIC, (_into_weights, _known, _into_reader, _merge_affine)),
    **dict.fromkeys(["MAXIMUM", "MINIMUM", "PRELU"], (_known,)),
    **dict.fromkeys(["RELU", "RELU6"], (_known, _fuse_before_moves)),
    **dict.fromkeys(["SELECT", "SELECT_V2"], (_known, _softplus)),
    **dict.fromkeys(REDUCTIONS, (_reduce_image,)),
    "CONV_2D": (_pad_same,),
    "DEPTHWISE_CONV_2D": (_pad_same, _from_one_channel),
    "MAX_POOL_2D": (_repeat_edge,),
    "BATCH_MATMUL": (_as_dense,),
    "FULLY_CONNECTED": (_from_before,),
    "RESHAPE": (_move_quantized, _drop_axes),
    "STRIDED_SLICE": (_keep_axes,),
    "TRANSPOSE": (_move_quantized,),
}
FUSED = frozenset({"RELU", "RELU6"})


def _rules(code: str) -> tuple[FloatRule, ...]:
    """Return the rules for an operator, in the order in which they are tried."""
    return (*([fold] if code in FOLDED else []), *([fuse] if code in FUSED else []), *RULES.get(code, ()))
