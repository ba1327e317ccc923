"""Volumes: TFLM has neither CONV_3D nor a STRIDED_SLICE of five dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction


def _conv_3d(context: FunctionContext) -> Callable[..., Any]:
    """The depth unfolded into the channels of one CONV_2D."""
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
        # 4-D: TFLM's STRIDED_SLICE has no more.
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
    """One value per axis of a volume, as Keras takes them."""
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
    """SLICE, which takes five dimensions."""
    tf = context.tf

    def call(inputs: Any) -> Any:
        if not inputs.shape.is_fully_defined():
            return context.original(inputs)
        crop = [(0, 0), *layer.cropping]
        crop.insert(1 if layer.data_format == "channels_first" else 4, (0, 0))
        sizes = [length - before - after for length, (before, after) in zip(inputs.shape, crop, strict=True)]
        return tf.slice(inputs, [before for before, _ in crop], sizes)

    return call


RULES: dict[str, Lower] = {"Cropping3D": _cropping_3d}
FUNCTIONS: dict[str, LowerFunction] = {"nn.conv": _conv_3d, "nn.conv_transpose": _conv_transpose_3d}
