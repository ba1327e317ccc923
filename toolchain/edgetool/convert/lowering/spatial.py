"""Lower pooling, volumes, resizing, copies along axes and the short-time Fourier transform to operators that TFLM has.

TFLM has no CONV_3D, no STRIDED_SLICE of five dimensions, and no pooling of volumes or to a given size (adaptive). It
has no TILE, but BROADCAST_TO for every type, and RESIZE_NEAREST_NEIGHBOR for images. A resize with another
interpolation becomes two matrix products, along the height and along the width. TFLM has no RFFT2D: the transform
becomes one convolution with windowed sines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction


def _conv_3d(context: FunctionContext) -> Callable[..., Any]:
    """Lower CONV_3D to one CONV_2D, with the depth unfolded into its channels."""
    tf = context.tf

    def conv(
        inputs: Any,
        kernel: Any,
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
    ) -> Any:
        shape = inputs.shape
        if shape.rank != 5 or not shape.is_fully_defined():
            return context.original(inputs, kernel, strides, padding, data_format, dilation_rate)
        if data_format == "channels_first" or shape[-1] != kernel.shape[3]:
            context.refuse(
                "is a grouped or channels-first 3D convolution, for which TFLM has no operator",
                "use groups=1 and data_format='channels_last'",
            )
        stride, dilation = triple(strides), triple(dilation_rate)
        batch, depth, height, width, channels = shape.as_list()
        taps, rows, columns, _, filters = kernel.shape.as_list()
        # 4-D, because TFLM's STRIDED_SLICE supports no more dimensions.
        x = tf.reshape(inputs, (batch, depth, height * width, channels))
        reach = (taps - 1) * dilation[0] + 1
        if padding.lower() == "same":
            planes = -(-depth // stride[0])
            missing = max((planes - 1) * stride[0] + reach - depth, 0)
            x = tf.pad(x, ((0, 0), (missing // 2, missing - missing // 2), (0, 0), (0, 0)))
        else:
            planes = (depth - reach) // stride[0] + 1
        last = (planes - 1) * stride[0] + 1
        starts = [tap * dilation[0] for tap in range(taps)]
        unfolded = tf.concat([x[:, start : start + last : stride[0]] for start in starts], -1)
        x = tf.reshape(unfolded, (batch * planes, height, width, taps * channels))
        weights = tf.transpose(tf.convert_to_tensor(kernel), (1, 2, 0, 3, 4))
        weights = tf.reshape(weights, (rows, columns, taps * channels, filters))
        x = tf.nn.conv2d(x, weights, stride[1:], padding.upper(), dilations=dilation[1:])
        return tf.reshape(x, (batch, planes, *x.shape[1:]))

    return conv


def triple(value: int | Sequence[int]) -> tuple[int, ...]:
    """Return one value per axis of a volume, from one or three values as in Keras."""
    return (value,) * 3 if isinstance(value, int) else tuple(value)


def _conv_transpose_3d(context: FunctionContext) -> Callable[..., Any]:
    def conv_transpose(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if inputs.shape.rank == 5:
            context.refuse(
                "is a transposed 3D convolution, for which TFLM has no operator",
                "use UpSampling3D followed by Conv3D",
            )
        return context.original(inputs, *args, **kwargs)

    return conv_transpose


def _cropping_3d(context: LowerContext, layer: Any) -> Callable[..., Any]:
    """Lower to SLICE, which supports five dimensions."""
    tf = context.tf

    def call(inputs: Any) -> Any:
        if not inputs.shape.is_fully_defined():
            return context.original(inputs)
        crop = [(0, 0), *layer.cropping]
        crop.insert(1 if layer.data_format == "channels_first" else 4, (0, 0))
        sizes = [length - before - after for length, (before, after) in zip(inputs.shape, crop, strict=True)]
        return tf.slice(inputs, [before for before, _ in crop], sizes)

    return call


VOLUME_RULES: dict[str, Lower] = {"Cropping3D": _cropping_3d}
VOLUME_FUNCTIONS: dict[str, LowerFunction] = {"nn.conv": _conv_3d, "nn.conv_transpose": _conv_transpose_3d}


def _pool_3d(name: str) -> LowerFunction:
    """Lower pooling of a volume to a pool over height and width, and one over depth."""

    def lower(context: FunctionContext) -> Callable[..., Any]:
        tf = context.tf
        pool = getattr(tf.nn, "max_pool2d" if name == "max" else "avg_pool2d")

        def pooled(
            inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
        ) -> Any:
            shape = inputs.shape
            if shape.rank != 5 or not shape.is_fully_defined() or data_format == "channels_first":
                return context.original(inputs, pool_size, strides, padding, data_format)
            size = triple(pool_size)
            stride = size if strides is None else triple(strides)
            batch, depth, height, width, channels = shape.as_list()
            x = tf.reshape(inputs, (batch * depth, height, width, channels))
            x = pool(x, size[1:], stride[1:], padding.upper())
            _, height, width, _ = x.shape.as_list()
            x = tf.reshape(x, (batch, depth, height * width, channels))
            x = pool(x, (size[0], 1), (stride[0], 1), padding.upper())
            return tf.reshape(x, (batch, x.shape[1], height, width, channels))

        return pooled

    return lower


def _adaptive(name: str) -> LowerFunction:
    """Lower pooling to a given size, one axis after the other; Keras would gather from two pools of every position."""

    def lower(context: FunctionContext) -> Callable[..., Any]:
        tf = context.tf

        def reduced(x: Any, length: int) -> Any:
            """Pool every `length` consecutive indices along the second of three axes."""
            if name == "max":  # MAX_POOL_2D supports int16, unlike REDUCE_MAX
                return tf.squeeze(tf.nn.max_pool2d(tf.expand_dims(x, 2), (length, 1), (length, 1), "VALID"), 2)
            before, size, after = x.shape.as_list()
            means = tf.reduce_mean(tf.reshape(x, (before * size // length, length, after)), 1)
            return tf.reshape(means, (before, size // length, after))

        def along(x: Any, axis: int, count: int) -> Any:
            shape = x.shape.as_list()
            size = shape[axis]
            if count == size:
                return x
            before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
            x = tf.reshape(x, (before, size, after))
            if size % count == 0:  # equal windows
                x = reduced(x, size // count)
            else:
                windows = [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]
                x = tf.concat([reduced(x[:, start:stop], stop - start) for start, stop in windows], 1)
            return tf.reshape(x, (*shape[:axis], count, *shape[axis + 1 :]))

        def pooled(inputs: Any, output_size: int | Sequence[int], data_format: str | None = None) -> Any:
            if not inputs.shape.is_fully_defined():
                return context.original(inputs, output_size, data_format)
            first = 2 if data_format == "channels_first" else 1
            axes = range(first, first + inputs.shape.rank - 2)
            counts = (output_size,) * len(axes) if isinstance(output_size, int) else output_size
            for axis, count in zip(axes, counts, strict=True):
                inputs = along(inputs, axis, count)
            return inputs

        return pooled

    return lower


def _global_max(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if context.options.quantize != "int16x8" or layer.data_format == "channels_first":
        return None
    tf = context.tf

    def call(inputs: Any) -> Any:
        if not inputs.shape.is_fully_defined():
            return context.original(inputs)
        batch, *sizes, channels = inputs.shape.as_list()
        count = math.prod(sizes)
        x = tf.nn.max_pool2d(tf.reshape(inputs, (batch, count, 1, channels)), (count, 1), 1, "VALID")
        return tf.reshape(x, (batch, *([1] * len(sizes) if layer.keepdims else []), channels))

    return call


POOL_RULES: dict[str, Lower] = dict.fromkeys([f"GlobalMaxPooling{rank}D" for rank in (1, 2, 3)], _global_max)
POOL_FUNCTIONS: dict[str, LowerFunction] = {
    "nn.adaptive_average_pool": _adaptive("average"),
    "nn.adaptive_max_pool": _adaptive("max"),
    "nn.average_pool": _pool_3d("average"),
    "nn.max_pool": _pool_3d("max"),
}


def _resize(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def resize(
        images: Any, size: Any, interpolation: str = "bilinear", antialias: bool = False, *args: Any, **options: Any
    ) -> Any:
        method = {"interpolation": interpolation, "antialias": antialias}
        native = {"nearest"} if context.options.quantize == "int16x8" else {"nearest", "bilinear"}
        if interpolation in native and not antialias:
            return context.original(images, size, interpolation, antialias, *args, **options)
        channels_first = options.get("data_format") == "channels_first"
        keeps_aspect_ratio = args or any(value for name, value in options.items() if name.endswith("_to_aspect_ratio"))
        images = tf.convert_to_tensor(images)
        if (
            channels_first
            or keeps_aspect_ratio
            or not images.shape.is_fully_defined()
            or images.shape.rank not in (3, 4)
        ):
            context.refuse(
                f"resizes with {interpolation!r} interpolation, for which TFLM has no operator",
                "use interpolation='bilinear' or 'nearest' without antialias, and data_format='channels_last'",
            )

        def matrix(old: int, new: int) -> npt.NDArray[np.float32]:
            """Return the resize of a column as a matrix (old, new), from the original's results for single pixels."""
            with tf.init_scope():
                ones = tf.reshape(tf.eye(old), (1, old, 1, old))
                resized: Any = context.original(ones, (new, 1), **method, data_format="channels_last")
                return np.transpose(np.asarray(resized).reshape(new, old)).astype(np.float32)

        x = tf.cast(images if images.shape.rank == 4 else images[None], "float32")
        batch, height, width, channels = x.shape.as_list()
        rows, columns = (int(length) for length in size)
        x = tf.reshape(tf.transpose(x, (0, 2, 3, 1)), (-1, height)) @ matrix(height, rows)
        x = tf.transpose(tf.reshape(x, (batch, width, channels, rows)), (0, 3, 2, 1))
        x = tf.reshape(x, (-1, width)) @ matrix(width, columns)
        x = tf.transpose(tf.reshape(x, (batch, rows, channels, columns)), (0, 1, 3, 2))
        return tf.cast(x if images.shape.rank == 4 else x[0], images.dtype)

    return resize


RESIZE_FUNCTIONS: dict[str, LowerFunction] = {"image.resize": _resize}


def copied(tf: Any, x: Any, axis: int, times: int, *, each: bool) -> Any:
    """Repeat `x`, of a static shape, `times` times along an axis: each index (`each`), or all of them in order."""
    shape = x.shape.as_list()
    if times == 1:
        return x
    split = axis + 1 if each else axis
    before, after = math.prod(shape[:split]), math.prod(shape[split:])
    spread = tf.broadcast_to(tf.reshape(x, (before, 1, after)), (before, times, after))
    return tf.reshape(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def _repeat(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
        x = tf.convert_to_tensor(x)
        if not isinstance(repeats, int) or not x.shape.is_fully_defined():
            return context.original(x, repeats, axis=axis)
        if axis is None:
            x, axis = tf.reshape(x, (-1,)), 0
        return copied(tf, x, axis % x.shape.rank, repeats, each=True)

    return repeat


def _tile(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def tile(x: Any, repeats: int | Sequence[int]) -> Any:
        x = tf.convert_to_tensor(x)
        times = [repeats] if isinstance(repeats, int) else list(repeats)
        if not all(isinstance(count, int) for count in times) or not x.shape.is_fully_defined():
            return context.original(x, repeats)
        rank = max(len(times), x.shape.rank)
        times = [1] * (rank - len(times)) + times
        x = tf.reshape(x, [1] * (rank - x.shape.rank) + x.shape.as_list())
        for axis, count in enumerate(times):
            x = copied(tf, x, axis, count, each=False)
        return x

    return tile


def _up_sampling_2d(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if layer.interpolation != "nearest":
        return None
    tf = context.tf

    def call(inputs: Any) -> Any:
        channels_first = layer.data_format == "channels_first"
        x = tf.transpose(inputs, (0, 2, 3, 1)) if channels_first else inputs
        size = [old * factor for old, factor in zip(x.shape[1:3], layer.size, strict=True)]
        # With half-pixel centres, no coordinate is close to an integer, so rounding errors cannot select a neighbour.
        x = tf.image.resize(x, size, method="nearest")
        return tf.transpose(x, (0, 3, 1, 2)) if channels_first else x

    return call


COPY_RULES: dict[str, Lower] = {"UpSampling2D": _up_sampling_2d}
COPY_FUNCTIONS: dict[str, LowerFunction] = {"numpy.repeat": _repeat, "numpy.tile": _tile}


# Modes whose range is not wider than the input's; the others square or divide, and lose most of it in int8.
LINEAR = frozenset(["imag", "real", "stft"])


def _stft(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def stft(
        x: Any,
        sequence_length: int,
        sequence_stride: int,
        fft_length: int,
        window: Any = "hann",
        center: bool = True,
    ) -> tuple[Any, Any]:
        x = tf.convert_to_tensor(x)
        if not x.shape.is_fully_defined():
            transform: tuple[Any, Any] = context.original(
                x, sequence_length, sequence_stride, fft_length, window=window, center=center
            )
            return transform
        with tf.init_scope():
            # The results of the original for single samples of one frame are the kernel.
            ones = tf.eye(fft_length, dtype=x.dtype)
            parts = context.original(ones, sequence_length, fft_length, fft_length, window=window, center=False)
            kernel = np.concatenate([np.asarray(part)[:, 0] for part in parts], -1)
        bins = kernel.shape[-1] // 2
        if center:
            x = tf.pad(x, [(0, 0)] * (x.shape.rank - 1) + [(fft_length // 2, fft_length // 2)], mode="REFLECT")
        *outer, length = x.shape.as_list()
        frames = tf.nn.conv1d(tf.reshape(x, (-1, length, 1)), kernel[:, None], sequence_stride, "VALID")
        frames = tf.reshape(frames, (*outer, *frames.shape[1:]))
        return frames[..., :bins], frames[..., bins:]

    return stft


def _note_range(context: LowerContext, layer: Any) -> None:
    """Add a note for a spectrogram whose range is too large for int8."""
    if context.options.quantize == "int8" and getattr(layer, "mode", "log") not in LINEAR:
        context.note(
            f"layer {context.scope!r} ({context.layer_class}) has a dynamic range far larger than int8's 256 steps: "
            f"keep it in float32 with --keep-float {context.scope}, or compute it outside the model"
        )


SPECTROGRAM_RULES: dict[str, Lower] = {"MelSpectrogram": _note_range, "STFTSpectrogram": _note_range}
SPECTROGRAM_FUNCTIONS: dict[str, LowerFunction] = {"math.stft": _stft}
