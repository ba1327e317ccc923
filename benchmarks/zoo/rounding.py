"""What the step from float to int8 costs by itself: the model's own graph with every value held in eight bits.

The graph that Keras traces is run operation by operation in float. Then it is run again, and what an int8 model keeps
as int8 is rounded: inputs, results and constants, each with the range that the samples give it, as the specification of
TensorFlow Lite's 8-bit quantization has it. No converter and no rewriting takes part, so that neither can hide its own
losses in the bound. What the specification lets through unrounded is not rounded here: accumulators, and so biases and
factors behind a matrix product; weights have a scale per channel; operations that only move values keep them.

The signal-to-noise ratio of the outputs is what int8 allows; a real conversion may fall short of it by MARGIN_DB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.zoo.files import Built

Array = npt.NDArray[Any]
# Half a bit. The real kernels round in fixed point and between operations that are one here, and 40 samples of a few
# outputs tell a ratio only to a decibel or two.
MARGIN_DB = 3.0

PRODUCTS = {"MatMul", "BatchMatMulV2", "Einsum", "Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv3D"}
AFFINE = {"BiasAdd", "AddV2", "Add", "Sub", "Mul", "FusedBatchNormV3"}
RECTIFIERS = {"Relu", "Relu6"}
RESHAPES = {"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "Cast", "PreventGradient", "EnsureShape"}
MOVES = RESHAPES | set(
    "Transpose StridedSlice Slice Pack Unpack Split SplitV Tile GatherV2 Pad PadV2 MirrorPad MaxPool ReverseV2 Select "
    "SelectV2 BroadcastTo DepthToSpace SpaceToDepth SpaceToBatchND BatchToSpaceND Roll Max Min ZerosLike "
    "ResizeNearestNeighbor ReadVariableOp ResourceGather IdentityN TensorListGetItem TensorListStack TopKV2".split()
)
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
LOOPS = {"While", "StatelessWhile"}
CHOICES = {"If", "StatelessIf"}
# Operation -> the range of its result, whatever the samples say.
FIXED = {
    "Sigmoid": (0.0, 255 / 256),
    "Tanh": (-1.0, 127 / 128),
    "Softmax": (0.0, 255 / 256),
    "LogSoftmax": (-15.9375, 0.0),
}
# Its result has the scale of its input.
LIKE_INPUT = {"AvgPool", "AvgPool3D", "ResizeBilinear"}
# Where the axis of a filter's outputs is not the last.
FILTER_AXES = {"DepthwiseConv2dNative": (2, 3), "Conv2DBackpropInput": (2,)}


@dataclass
class _Values:
    """Ranges seen, and the tensors that depend on no input, by place in the graph."""

    rounding: bool = False
    ranges: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    constant: set[tuple[str, str]] = field(default_factory=set)


def rounded_sqnr(built: Built) -> dict[str, float | None]:
    """Output -> the dB that int8 allows before the margin; None where rounding changes nothing."""
    from edgetool.convert.quality import compare_outputs

    run, reset = _runner(built)
    values = _Values()
    exact = run(values)
    values.rounding = True
    reset()
    rounded = run(values)
    qualities = compare_outputs(list(exact.values()), list(rounded.values()))
    return {name: quality.sqnr_db for name, quality in zip(exact, qualities, strict=True)}


def exact_outputs(built: Built) -> dict[str, Array]:
    """What the graph gives for the samples, nothing rounded: what Keras gives, if the graph is run rightly."""
    run, reset = _runner(built)
    outputs = run(_Values())
    reset()
    return outputs


def _runner(built: Built) -> tuple[Callable[[_Values], dict[str, Array]], Callable[[], None]]:
    """What runs all samples through the traced graph, and what makes a stateful model forget."""
    import tensorflow as tf

    declared = getattr(built.model, "inputs", None)
    size = (declared[0].shape[0] if declared else None) or len(built.samples[0])
    names: list[str] = []

    def serve(*tensors: Any) -> list[Any]:
        outputs = built.call(tensors)
        names[:] = [name for name, _ in outputs]
        return [tensor for _, tensor in outputs]

    specs = [tf.TensorSpec((size, *array.shape[1:]), array.dtype) for array in built.samples]
    graph = tf.function(serve, autograph=False).get_concrete_function(*specs).graph
    captured = [outside for outside, _ in graph.captures]

    def run(values: _Values) -> dict[str, Array]:
        results = []
        for start in range(0, len(built.samples[0]), size):
            given = [tf.constant(array[start : start + size]) for array in built.samples]
            results.append(_run(graph, [*given, *captured], len(given), values, "", rounded=True))
        return {name: np.concatenate([np.asarray(r[i], np.float64) for r in results]) for i, name in enumerate(names)}

    def reset() -> None:
        if built.entry.stateful:
            built.model.reset_states() if built.entry.keras2 else [
                layer.reset_state() for layer in built.model.layers if getattr(layer, "stateful", False)
            ]

    return run, reset


def _run(
    graph: Any, given: Sequence[Any], variables: int, values: _Values, place: str, *, rounded: bool = False
) -> list[Any]:
    """The graph's results for `given`, of which all behind the first `variables` are constant unless assigned to."""
    found: dict[str, Any] = {}
    assigned = {op.inputs[0].name for op in graph.get_operations() if op.type == "AssignVariableOp"}
    for position, (tensor, value) in enumerate(zip(graph.inputs, given, strict=True)):
        key = (place, tensor.name)
        if position >= variables and tensor.name not in assigned:
            values.constant.add(key)
        elif rounded and tensor.dtype.is_floating:
            value = _held(value, key, values, None)
        found[tensor.name] = value
    for op in graph.get_operations():
        if op.type == "Placeholder":
            continue
        results = _results(op, [found[tensor.name] for tensor in op.inputs], values, place)
        for tensor, value in zip(op.outputs, results, strict=True):
            found[tensor.name] = value
    return [found[tensor.name] for tensor in graph.outputs]


def _results(op: Any, inputs: list[Any], values: _Values, place: str) -> list[Any]:
    """What one operation gives, rounded where an int8 model rounds it."""
    keys = [(place, tensor.name) for tensor in op.inputs]
    fixed = op.type not in CALLS | LOOPS | CHOICES and all(key in values.constant for key in keys)
    if fixed or op.type == "Const":
        values.constant.update((place, tensor.name) for tensor in op.outputs)
        return _executed(op, inputs)
    if op.type in CALLS | LOOPS | CHOICES:
        return _nested(op, inputs, keys, values, place)
    if values.rounding and not _behind_product(op, values, place):
        inputs = [
            _constant(value, op, index) if key in values.constant else value
            for index, (key, value) in enumerate(zip(keys, inputs, strict=True))
        ]
    results = _executed(op, inputs)
    if op.type in MOVES or (values.rounding and _goes_on(op, values, place)):
        return results
    like = inputs[0] if op.type in LIKE_INPUT else None
    return [
        _held(value, (place, tensor.name), values, FIXED.get(op.type), like) if tensor.dtype.is_floating else value
        for tensor, value in zip(op.outputs, results, strict=True)
    ]


def _held(
    value: Any, key: tuple[str, str], values: _Values, fixed: tuple[float, float] | None, like: Any = None
) -> Any:
    """The value in eight bits of its range; while ranges are being found, as it is."""
    import tensorflow as tf

    if not values.rounding:
        array = np.asarray(value if like is None else like, np.float64)
        if array.size:
            low, high = values.ranges.get(key, (0.0, 0.0))
            values.ranges[key] = (min(low, float(array.min())), max(high, float(array.max())))
        return value
    low, high = fixed or values.ranges.get(key, (0.0, 0.0))
    return tf.constant(in_eight_bits(np.asarray(value, np.float64), low, high), value.dtype)


def in_eight_bits(value: Array, low: float, high: float) -> Array:
    """The nearest of 256 evenly spaced numbers from low to high, of which 0 is one."""
    if high <= low:
        return value
    scale = (high - low) / 255
    zero = np.clip(np.round(-128 - low / scale), -128, 127)
    return np.asarray((np.clip(np.round(value / scale + zero), -128, 127) - zero) * scale)


def _constant(value: Any, op: Any, index: int) -> Any:
    """A weight with a scale per channel, another constant with one scale; both symmetric."""
    import tensorflow as tf

    if not getattr(value, "dtype", tf.int32).is_floating:
        return value
    array = np.asarray(value, np.float64)
    if not array.size:
        return value
    axes = FILTER_AXES.get(op.type, (array.ndim - 1,)) if op.type in PRODUCTS else ()
    others = tuple(axis for axis in range(array.ndim) if axis not in axes)
    scale = np.maximum(np.abs(array).max(axis=others, keepdims=True), 1e-30) / 127
    return tf.constant(np.round(array / scale) * scale, value.dtype)


def _goes_on(op: Any, values: _Values, place: str) -> bool:
    """Whether the result stays in the accumulator: a product, or what was added to it, with more to come."""
    if op.type not in PRODUCTS and not _behind_product(op, values, place):
        return False
    tensor = op.outputs[0]
    while True:
        readers = tensor.consumers()
        if len(readers) != 1 or any(tensor is output for output in tensor.graph.outputs):
            return False
        reader = readers[0]
        if reader.type in RECTIFIERS:
            return True
        if reader.type in AFFINE:
            return any((place, other.name) in values.constant for other in reader.inputs)
        if reader.type not in RESHAPES:
            return False
        tensor = reader.outputs[0]


def _behind_product(op: Any, values: _Values, place: str) -> bool:
    """Whether it adds or multiplies a constant to an accumulator."""
    if op.type not in AFFINE:
        return False
    changing = [tensor for tensor in op.inputs if (place, tensor.name) not in values.constant]
    if len(changing) != 1:
        return False
    source = changing[0]
    while source.op.type in RESHAPES and len(source.consumers()) == 1:
        source = source.op.inputs[0]
    return len(source.consumers()) == 1 and (source.op.type in PRODUCTS or _behind_product(source.op, values, place))


def _nested(op: Any, inputs: list[Any], keys: list[tuple[str, str]], values: _Values, place: str) -> list[Any]:
    """A call, a loop or a choice, by running the graphs that it names."""
    inner = f"{place}/{op.name}"

    def enter(attribute: str, given: list[Any], steady: Iterable[int]) -> list[Any]:
        graph = _function(op, attribute)
        where = f"{inner}.{attribute}"
        values.constant.update((where, graph.inputs[position].name) for position in steady)
        return _run(graph, given, len(given), values, where)

    fixed = [position for position, key in enumerate(keys) if key in values.constant]
    if op.type in CALLS:
        return enter("f", inputs, fixed)
    if op.type in CHOICES:
        chosen = "then_branch" if bool(inputs[0]) else "else_branch"
        return enter(chosen, inputs[1:], [position - 1 for position in fixed if position])
    body = _function(op, "body")
    steady = [position for position in fixed if body.outputs[position] is body.inputs[position]]
    while bool(enter("cond", inputs, steady)[0]):
        inputs = enter("body", inputs, steady)
    return inputs


_FUNCTIONS: dict[tuple[int, str], Any] = {}


def _function(op: Any, attribute: str) -> Any:
    """The graph of a function that the operation names, made once: its tensors are compared by identity."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    name = op.get_attr(attribute).name
    key = (id(op.graph), name)
    if key not in _FUNCTIONS:
        held = op.graph._functions.get(name)
        definition = context.context().get_function_def(name) if held is None else held.cached_definition
        made = function_def_to_graph(definition)
        _FUNCTIONS[key] = (made, op.graph)  # keeping the graph keeps its id its own
    return _FUNCTIONS[key][0]


def _executed(op: Any, inputs: list[Any]) -> list[Any]:
    """The operation's results, run at once."""
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.eager.execute import execute

    if op.type == "Const":
        return [tf.constant(tf.make_ndarray(op.get_attr("value")), op.outputs[0].dtype)]
    if op.type in ("NoOp", "Assert"):
        return []
    attributes: list[Any] = []
    for attribute in op.op_def.attr:
        attributes += [attribute.name, _plain(op.get_attr(attribute.name))]
    return list(execute(op.type, len(op.outputs), inputs, tuple(attributes), context.context()))


def _plain(value: Any) -> Any:
    """An attribute as eager execution takes it: types by their number."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return getattr(value, "as_datatype_enum", value)
