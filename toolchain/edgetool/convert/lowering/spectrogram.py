"""The short-time Fourier transform as one convolution with windowed sines: TFLM has no RFFT2D."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction

# What of the transform has no wider range than its input; all else squares or divides, and loses most of it in int8.
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
            found: tuple[Any, Any] = context.original(
                x, sequence_length, sequence_stride, fft_length, window=window, center=center
            )
            return found
        with tf.init_scope():
            # What the original makes of each single sample of one frame.
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


def _powers(context: LowerContext, layer: Any) -> None:
    if context.options.quantize == "int8" and getattr(layer, "mode", "log") not in LINEAR:
        context.note(
            f"layer {context.scope!r} ({context.layer_class}) has a dynamic range far larger than int8's 256 steps: "
            f"keep it in float32 with --keep-float {context.scope}, or compute it outside the model"
        )


RULES: dict[str, Lower] = {"MelSpectrogram": _powers, "STFTSpectrogram": _powers}
FUNCTIONS: dict[str, LowerFunction] = {"math.stft": _stft}
