"""What a pruned network is compared with."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgetool.train.pruning import Pruned, prune
from tests.train.pruning.networks import keras, layers


def randomised(model: Any, seed: int = 0) -> Any:
    """The model with weights that make every channel count: nothing at its initial value."""
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        shape = tuple(weight.shape)
        if weight.name in ("gamma", "moving_variance"):
            values = generator.uniform(0.5, 1.5, shape)
        elif len(shape) > 1:
            fan_in = int(np.prod(shape[:-1]))
            values = generator.normal(0, 1.5 / np.sqrt(fan_in), shape)
        else:
            values = generator.normal(0.1, 0.3, shape)
        weight.assign(values.astype(np.float32))
    return model


def samples(model: Any, count: int = 10, seed: int = 1) -> list[Any]:
    """Random inputs, one array per input of the model; small and large ones, so that no activation is always flat."""
    generator = np.random.default_rng(seed)
    scales = np.geomspace(0.05, 4, count)
    return [
        (generator.normal(0, 1, (count, *tensor.shape[1:])).T * scales).T.astype(np.float32)
        for tensor in graph(model).inputs
    ]


def graph(model: Any) -> Any:
    return getattr(model, "_functional", None) or model


def outputs(model: Any, inputs: Sequence[Any]) -> list[Any]:
    """What the model says, as arrays."""
    found = graph(model)._run_through_graph([keras.ops.convert_to_tensor(array) for array in inputs])
    return [keras.ops.convert_to_numpy(tensor) for tensor in keras.tree.flatten(found)]


def zeroed_outputs(model: Any, removed: Mapping[str, Sequence[int]], inputs: Sequence[Any]) -> list[Any]:
    """What the model says with all parameters of the removed channels set to zero.

    Which parameters those are is found by running, not by looking at the graph. Every sample goes in twice. Where a
    layer makes removed channels, its kernel and bias are set to zero, and the twin gets noise in place of them. What
    differs between the twins at the input of a layer with parameters per channel is what the removed channels are
    there: those parameters are set to zero as well. A kernel that sums over channels gets equal twins, so that the
    noise goes no further. A layer of a nested model that shares its name is called model/layer.
    """
    copy = keras.models.clone_model(model, recursive=True)
    copy.set_weights(model.get_weights())
    found = set()
    noise = np.random.default_rng(5)

    def with_noise(tensor: Any, channels: Sequence[int]) -> Any:
        values = keras.ops.convert_to_numpy(tensor).copy()
        twin = values[len(values) // 2 :]
        twin[..., channels] = noise.uniform(1, 5, twin[..., channels].shape)
        return keras.ops.convert_to_tensor(values)

    def called(path: tuple[str, ...], layer: Any, *args: Any, **named: Any) -> Any:
        here = (*path, layer.name)
        if hasattr(layer, "_run_through_graph") or hasattr(layer, "_functional"):
            return run(layer, keras.tree.flatten(args), here)
        touched: Sequence[int] = ()
        kind = type(layer).__name__
        if kind == "BatchNormalization" or kind.startswith(("DepthwiseConv", "SeparableConv")):
            first, twin = np.split(keras.ops.convert_to_numpy(args[0]), 2)
            differ = np.abs(first - twin).reshape(-1, first.shape[-1]).max(axis=0) > 0.01
            touched = _erase_per_channel(layer, np.flatnonzero(differ))
        if any(hasattr(layer, name) for name in ("kernel", "pointwise_kernel", "cell")) and "Depthwise" not in kind:
            args = keras.tree.map_structure(_with_equal_twins, args)
        labels = {layer.name, "/".join(here)} & set(removed)
        for label in labels:
            found.add(label)
            _erase(layer, list(removed[label]))
            touched = removed[label]
        result = layer(*args, **named)
        return with_noise(result, list(touched)) if len(touched) else result

    def run(current: Any, arguments: Sequence[Any], path: tuple[str, ...]) -> Any:
        return graph(current)._run_through_graph(list(arguments), call_fn=functools.partial(called, path))

    result = run(copy, [keras.ops.convert_to_tensor(np.concatenate([array, array])) for array in inputs], ())
    assert found == set(removed)
    return [keras.ops.convert_to_numpy(tensor)[: len(inputs[0])] for tensor in keras.tree.flatten(result)]


def _with_equal_twins(tensor: Any) -> Any:
    first = keras.ops.split(tensor, 2)[0]
    return keras.ops.concatenate([first, first])


def _erase(layer: Any, channels: list[int]) -> None:
    kernel = layer.pointwise_kernel if hasattr(layer, "pointwise_kernel") else layer.weights[0]
    _zero(kernel, -2 if "Transpose" in type(layer).__name__ else -1, channels)
    if getattr(layer, "bias", None) is not None:
        _zero(layer.bias, -1, channels)


def _erase_per_channel(layer: Any, channels: Any) -> Sequence[int]:
    """Zero what belongs to these input channels; the output channels that are theirs alone."""
    kind = type(layer).__name__
    if kind == "BatchNormalization":
        for weight in layer.weights:
            _zero(weight, -1, channels)
        return list(channels)
    _zero(layer.weights[0], -2, channels)
    if kind.startswith("SeparableConv"):
        return []
    count = layer.depth_multiplier
    spread = [channel * count + index for channel in channels for index in range(count)]
    if layer.bias is not None:
        _zero(layer.bias, -1, spread)
    return spread


def _zero(weight: Any, axis: int, channels: Any) -> None:
    values = keras.ops.convert_to_numpy(weight).copy()
    np.moveaxis(values, axis, 0)[channels] = 0
    weight.assign(values)


def assert_same(found: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-5) -> None:
    """Within a share of the largest value."""
    assert [array.shape for array in found] == [array.shape for array in expected]
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one - other).max() <= tolerance * max(1e-3, float(np.abs(other).max()))


def picture(channels: int = 3) -> Any:
    return keras.Input((6, 6, channels), name="picture")


def ended(inputs: Any, x: Any) -> Any:
    """A model with a head."""
    return keras.Model(inputs, layers.Dense(2, name="head")(layers.Flatten()(x)))


def checked(model: Any, level: float = 0.5, **options: Any) -> Pruned:
    """Pruned, and compared with the original without the same channels."""
    randomised(model)
    pruned = prune(keras, model, level, **options)
    inputs = samples(model)
    assert_same(outputs(pruned.model, inputs), zeroed_outputs(model, pruned.removed, inputs))
    return pruned


def reasons(pruned: Pruned) -> dict[str, str]:
    return {left.layer: left.reason for left in pruned.left_alone if left.layer != "head"}


def sizes(pruned: Pruned) -> dict[str, int]:
    return {layer: len(channels) for layer, channels in pruned.removed.items()}
