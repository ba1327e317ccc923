"""Layers of Keras, channels last."""

from __future__ import annotations

from typing import Any, Literal

import keras
from benchmarks.foreign.layers import Layers, Padding, Pair, pads, pair
from keras import layers

ACTIVATIONS = {"hard_swish": "hard_silu", "silu": "silu"}


class KerasLayers(Layers):
    """Each layer has its name in the model, under which PyTorch's finds its weights."""

    def channels(self, x: Any) -> int:
        return int(x.shape[-1])

    def _padded(self, x: Any, padding: Padding, kernel: Pair, stride: int) -> tuple[Any, str]:
        """Return the padding of the layer, and the image, padded if that is none of TensorFlow's."""
        sizes = (x.shape[1], x.shape[2])
        added = pads(padding, sizes, kernel, stride)
        if added == pads("same", sizes, kernel, stride):
            return x, "same"
        return (x, "valid") if not any(map(any, added)) else (layers.ZeroPadding2D(added)(x), "valid")

    def conv(
        self,
        x: Any,
        channels: int,
        kernel: int | Pair = 1,
        stride: int = 1,
        *,
        padding: Padding = "even",
        groups: int = 1,
        bias: bool = True,
    ) -> Any:
        x, how = self._padded(x, padding, pair(kernel), stride)
        options: dict[str, Any] = {"groups": groups, "use_bias": bias, "name": self.name("conv")}
        return layers.Conv2D(channels, kernel, stride, padding=how, **options)(x)

    def depthwise(
        self, x: Any, kernel: int = 3, stride: int = 1, *, padding: Padding = "even", bias: bool = False
    ) -> Any:
        x, how = self._padded(x, padding, pair(kernel), stride)
        name = self.name("depthwise")
        return layers.DepthwiseConv2D(kernel, stride, padding=how, use_bias=bias, name=name)(x)

    def conv_transpose(self, x: Any, channels: int) -> Any:
        return layers.Conv2DTranspose(channels, 2, 2, name=self.name("conv_transpose"))(x)

    def causal_conv(self, x: Any, channels: int, kernel: int, dilation: int = 1) -> Any:
        name = self.name("causal_conv")
        return layers.Conv1D(channels, kernel, padding="causal", dilation_rate=dilation, name=name)(x)

    def conv_1d(self, x: Any, channels: int, kernel: int, stride: int = 1) -> Any:
        if stride > 1:
            x = layers.ZeroPadding1D(kernel // 2)(x)
        padding = "valid" if stride > 1 else "same"
        return layers.Conv1D(channels, kernel, stride, padding=padding, name=self.name("conv_1d"))(x)

    def norm(self, x: Any) -> Any:
        return layers.BatchNormalization(epsilon=1e-3, name=self.name("norm"))(x)

    def layer_norm(self, x: Any) -> Any:
        return layers.LayerNormalization(epsilon=1e-5, name=self.name("layer_norm"))(x)

    def act(self, x: Any, kind: str) -> Any:
        if kind == "leaky_relu":
            return layers.LeakyReLU(0.125)(x)
        return layers.Activation(ACTIVATIONS.get(kind, kind))(x)

    def dense(self, x: Any, units: int) -> Any:
        return layers.Dense(units, name=self.name("dense"))(x)

    def flat_dense(self, x: Any, units: int) -> Any:
        return layers.Dense(units, name=self.name("flat_dense"))(layers.Flatten()(x))

    def pool(self, x: Any, kind: Literal["max", "average"], size: int = 2, stride: int | None = None) -> Any:
        layer = layers.MaxPooling2D if kind == "max" else layers.AveragePooling2D
        x, padding = self._padded(x, "even" if size == 3 else "valid", pair(size), stride or size)
        return layer(size, stride or size, padding=padding)(x)

    def mean(self, x: Any, *, keep: bool = False) -> Any:
        return layers.GlobalAveragePooling2D(keepdims=keep)(x)

    def mean_steps(self, x: Any) -> Any:
        return layers.GlobalAveragePooling1D()(x)

    def mean_frames(self, x: Any) -> Any:
        return layers.GlobalAveragePooling1D()(x)

    def concat(self, parts: list[Any]) -> Any:
        return layers.Concatenate()(parts)

    def halves(self, x: Any) -> tuple[Any, Any]:
        first, second = keras.ops.split(x, 2, axis=-1)
        return first, second

    def shuffle(self, x: Any, groups: int) -> Any:
        height, width, channels = x.shape[1:]
        x = layers.Reshape((height, width, groups, channels // groups))(x)
        return layers.Reshape((height, width, channels))(layers.Permute((1, 2, 4, 3))(x))

    def upsample(self, x: Any) -> Any:
        return layers.UpSampling2D(2)(x)

    def frames(self, x: Any) -> Any:
        height, width, channels = x.shape[1:]
        return layers.Reshape((height, width * channels))(x)

    def tokens(self, x: Any) -> Any:
        height, width, channels = x.shape[1:]
        return layers.Reshape((height * width, channels))(x)

    def swap(self, x: Any) -> Any:
        return layers.Permute((2, 1))(x)

    def embed(self, x: Any, width: int) -> Any:
        name = self.name("embed")
        return layers.EinsumDense("btf,fw->btw", (x.shape[1], width), bias_axes="tw", name=name)(x)

    def attention(self, x: Any, heads: int) -> Any:
        name = self.name("attention")
        return layers.MultiHeadAttention(heads, x.shape[-1] // heads, name=name)(x, x)

    def recurrent(self, x: Any, kind: Literal["gru", "lstm"], units: int) -> Any:
        layer = layers.GRU if kind == "gru" else layers.LSTM
        return layer(units, name=self.name(kind))(x)
