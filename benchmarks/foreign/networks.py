"""The networks, small enough to convert each in seconds. Sources of the architectures are named where they are public.

The four of MLPerf Tiny have the padding of their Keras originals (more at the end of an image), so that a port of their
weights computes the same; all others have PyTorch's padding, which is the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.foreign.layers import Layers

Kind = Literal["image", "sequence", "frames", "features"]


@dataclass(frozen=True, slots=True)
class Network:
    """A network and its input without batch, in the order of Keras.

    convolutional: it needs no transposition, as it neither attends nor shuffles channels, and has no recurrent layers.
    """

    name: str
    about: str
    kind: Kind
    shape: tuple[int, ...]
    build: Callable[[Layers, Any], Any]
    convolutional: bool = True
    mlperf: bool = False


NETWORKS: dict[str, Network] = {}


def network(kind: Kind, *shape: int, **details: bool) -> Callable[[Callable[[Layers, Any], Any]], Any]:
    def add(build: Callable[[Layers, Any], Any]) -> Any:
        name = build.__name__
        about = (build.__doc__ or "").strip().rstrip(".")
        NETWORKS[name] = Network(name, about, kind, shape, build, **details)
        return build

    return add


def _residual(b: Layers, x: Any, channels: int, stride: int = 1, **options: Any) -> Any:
    y = b.block(b.block(x, channels, 3, stride, **options), channels, act=None, **options)
    if stride > 1 or b.channels(x) != channels:
        x = b.block(x, channels, 1, stride, act=None, **options)
    return b.act(b.add(x, y), "relu")


def _inverted(b: Layers, x: Any, expansion: int, channels: int, stride: int, kernel: int = 3, **options: Any) -> Any:
    """An inverted residual block, with squeeze and excitation if `gate`."""
    act, gate = options.get("act", "relu6"), options.get("gate", False)
    inner = b.channels(x) * expansion
    y = b.block(x, inner, 1, act=act) if expansion > 1 else x
    y = b.depthwise_block(y, kernel, stride, act=act)
    if gate:
        scale = b.act(b.conv(b.mean(y, keep=True), max(inner // 4, 8)), "relu")
        y = b.multiply(y, b.act(b.conv(scale, inner), "hard_sigmoid"))
    y = b.block(y, channels, 1, act=None)
    return b.add(x, y) if stride == 1 and b.channels(x) == channels else y


def _mobilenet(b: Layers, x: Any, **options: Any) -> Any:
    x = b.block(x, 8, 3, 2, **options)
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    widths = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    for stride, width in zip(strides, widths, strict=True):
        x = b.separable(x, width, stride, **options)
    return x


@network("image", 32, 32, 3, mlperf=True)
def mlperf_resnet8(b: Layers, x: Any) -> Any:
    """Image classification of MLPerf Tiny: ResNet-8"""
    x = b.block(x, 16, padding="same")
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        x = _residual(b, x, width, stride, padding="same")
    return b.classify(x, 10)


@network("image", 49, 10, 1, mlperf=True)
def mlperf_ds_cnn(b: Layers, x: Any) -> Any:
    """Keyword spotting of MLPerf Tiny: DS-CNN"""
    x = b.block(x, 64, (10, 4), 2, padding="same")
    for _ in range(4):
        x = b.separable(x, 64)
    return b.classify(x, 12)


@network("image", 96, 96, 3, mlperf=True)
def mlperf_mobilenet(b: Layers, x: Any) -> Any:
    """Visual wake words of MLPerf Tiny: MobileNet v1, width 0.25"""
    return b.classify(_mobilenet(b, x, padding="same"), 2)


@network("features", 640, mlperf=True)
def mlperf_autoencoder(b: Layers, x: Any) -> Any:
    """Anomaly detection of MLPerf Tiny: dense autoencoder"""
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = b.act(b.norm(b.dense(x, width)), "relu")
    return b.dense(x, 640)


@network("image", 64, 64, 3)
def mobilenet_v1(b: Layers, x: Any) -> Any:
    """MobileNet v1, width 0.25 (Howard et al., 2017), with ReLU6"""
    return b.classify(_mobilenet(b, x, act="relu6"), 10)


@network("image", 64, 64, 3)
def mobilenet_v2(b: Layers, x: Any) -> Any:
    """MobileNet v2, narrow (Sandler et al., 2018)"""
    x = b.block(x, 16, 3, 2, act="relu6")
    for expansion, width, stride in (
        (1, 8, 1), (6, 12, 2), (6, 12, 1), (6, 16, 2), (6, 16, 1), (6, 32, 2), (6, 32, 1), (6, 48, 1), (6, 64, 2),
    ):  # fmt: skip
        x = _inverted(b, x, expansion, width, stride)
    return b.classify(b.block(x, 128, 1, act="relu6"), 10)


@network("image", 64, 64, 3)
def mobilenet_v3(b: Layers, x: Any) -> Any:
    """MobileNet v3 with hard swish, squeeze and excitation (Howard et al., 2019)"""
    x = b.block(x, 16, 3, 2, act="hard_swish")
    x = _inverted(b, x, 1, 16, 2, act="relu", gate=True)
    x = _inverted(b, x, 4, 24, 2, act="relu")
    x = _inverted(b, x, 4, 24, 1, act="relu")
    x = _inverted(b, x, 4, 40, 2, 5, act="hard_swish", gate=True)
    x = _inverted(b, x, 4, 40, 1, 5, act="hard_swish", gate=True)
    x = b.mean(b.block(x, 96, 1, act="hard_swish"))
    return b.act(b.dense(b.act(b.dense(x, 128), "hard_swish"), 10), "softmax")


@network("image", 64, 64, 3)
def efficientnet_lite(b: Layers, x: Any) -> Any:
    """EfficientNet-Lite, shallow (Tan and Le, 2019; without squeeze and excitation)"""
    x = b.block(x, 16, 3, 2, act="relu6")
    for expansion, width, stride, kernel in (
        (1, 8, 1, 3), (6, 12, 2, 3), (6, 12, 1, 3), (6, 20, 2, 5), (6, 20, 1, 5), (6, 40, 2, 3), (6, 40, 1, 3),
        (6, 56, 1, 5), (6, 56, 1, 5), (6, 96, 2, 5), (6, 96, 1, 5), (6, 160, 1, 3),
    ):  # fmt: skip
        x = _inverted(b, x, expansion, width, stride, kernel)
    return b.classify(b.block(x, 320, 1, act="relu6"), 20)


@network("image", 64, 64, 3)
def resnet18(b: Layers, x: Any) -> Any:
    """ResNet-18, narrow, with a padded max pooling (He et al., 2015)"""
    x = b.pool(b.block(x, 8, 7, 2), "max", 3, 2)
    for width, stride in ((8, 1), (16, 2), (32, 2), (64, 2)):
        x = _residual(b, _residual(b, x, width, stride), width)
    return b.classify(x, 10)


@network("image", 32, 32, 3)
def resnet_preactivation(b: Layers, x: Any) -> Any:
    """ResNet with batch normalizations before the convolutions (He et al., 2016)"""
    x = b.conv(x, 16, 3, bias=False)
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        y = b.act(b.norm(x), "relu")
        shortcut = x if stride == 1 else b.conv(y, width, 1, stride)
        y = b.conv(b.act(b.norm(b.conv(y, width, 3, stride, bias=False)), "relu"), width, 3)
        x = b.add(shortcut, y)
    return b.classify(b.act(b.norm(x), "relu"), 10)


@network("image", 32, 32, 3)
def resnet_bottleneck(b: Layers, x: Any) -> Any:
    """ResNeXt: bottlenecks with grouped convolutions (Xie et al., 2016)"""
    x = b.block(x, 16)
    for width, stride in ((32, 1), (32, 1), (64, 2), (64, 1)):
        y = b.block(b.block(x, width // 2, 1), width // 2, 3, stride, groups=4)
        y = b.block(y, width, 1, act=None)
        if b.channels(x) != width:
            x = b.block(x, width, 1, stride, act=None)
        x = b.act(b.add(x, y), "relu")
    return b.classify(x, 10)


@network("image", 32, 32, 3)
def vgg(b: Layers, x: Any) -> Any:
    """Plain convolutions, max pooling and dense layers on all pixels (Simonyan and Zisserman, 2014)"""
    for width in (8, 16, 32):
        x = b.pool(b.act(b.conv(b.act(b.conv(x, width, 3), "relu"), width, 3), "relu"), "max")
    return b.act(b.dense(b.act(b.flat_dense(x, 32), "relu"), 10), "softmax")


@network("image", 28, 28, 1)
def lenet(b: Layers, x: Any) -> Any:
    """LeNet-5 with tanh and average pooling (LeCun et al., 1998)"""
    x = b.pool(b.act(b.conv(x, 6, 5), "tanh"), "average")
    x = b.pool(b.act(b.conv(x, 16, 5, padding="valid"), "tanh"), "average")
    x = b.act(b.flat_dense(x, 60), "tanh")
    return b.act(b.dense(b.act(b.dense(x, 42), "tanh"), 10), "softmax")


@network("image", 48, 48, 3)
def squeezenet(b: Layers, x: Any) -> Any:
    """SqueezeNet, narrow (Iandola et al., 2016)"""
    x = b.pool(b.act(b.conv(x, 16, 3, 2), "relu"), "max", 3, 2)
    for squeeze, expand in ((4, 16), (8, 32), (8, 32), (12, 48)):
        y = b.act(b.conv(x, squeeze), "relu")
        x = b.concat([b.act(b.conv(y, expand), "relu"), b.act(b.conv(y, expand, 3), "relu")])
    return b.act(b.mean(b.conv(x, 10)), "softmax")


@network("image", 32, 32, 3)
def densenet(b: Layers, x: Any) -> Any:
    """DenseNet, shallow (Huang et al., 2017)"""
    x = b.block(x, 16, 3, 2)
    for number in range(2):
        for _ in range(3):
            y = b.conv(b.act(b.norm(x), "relu"), 24, bias=False)
            x = b.concat([x, b.conv(b.act(b.norm(y), "relu"), 8, 3, bias=False)])
        if number == 0:
            x = b.pool(b.conv(b.act(b.norm(x), "relu"), 20, bias=False), "average")
    return b.classify(b.act(b.norm(x), "relu"), 10)


@network("image", 48, 48, 3)
def inception(b: Layers, x: Any) -> Any:
    """Parallel branches with factored convolutions and padded max pooling (Szegedy et al., 2016)"""
    x = b.block(b.block(x, 8, 3, 2), 16, 3, 2)
    for width in (8, 12):
        factored = b.block(b.block(b.block(x, width, 1), width, (1, 7)), width, (7, 1))
        pooled = b.block(b.pool(x, "max", 3, 1), width, 1)
        x = b.concat([b.block(x, width, 1), b.block(b.block(x, width, 1), width, 5), factored, pooled])
    return b.classify(x, 10)


@network("image", 32, 32, 3, convolutional=False)
def shufflenet(b: Layers, x: Any) -> Any:
    """ShuffleNet v2 (Ma et al., 2018)"""
    x = b.block(x, 16, 3, 2)
    for width in (32, 64):
        left = b.block(b.norm(b.depthwise(x, 3, 2)), width // 2, 1)
        right = b.block(b.norm(b.depthwise(b.block(x, width // 2, 1), 3, 2)), width // 2, 1)
        x = b.shuffle(b.concat([left, right]), 2)
        left, right = b.halves(x)
        right = b.block(b.norm(b.depthwise(b.block(right, width // 2, 1))), width // 2, 1)
        x = b.shuffle(b.concat([left, right]), 2)
    return b.classify(x, 10)


@network("image", 32, 32, 3)
def convnext(b: Layers, x: Any) -> Any:
    """Large depthwise kernels, SiLU and GELU, with batch normalization (after Liu et al., 2022)"""
    x = b.act(b.norm(b.conv(x, 24, 4, 4, padding="valid")), "silu")
    for _ in range(2):
        y = b.conv(b.act(b.conv(b.norm(b.depthwise(x, 7)), 48), "gelu"), 24)
        x = b.add(x, y)
    return b.classify(x, 10)


@network("image", 49, 10, 1)
def ds_cnn_large(b: Layers, x: Any) -> Any:
    """DS-CNN with symmetric padding and average pooling (Zhang et al., 2017)"""
    x = b.block(x, 32, 3, 2, act="leaky_relu")
    for width in (32, 48, 48, 64, 64):
        x = b.separable(x, width)
    return b.classify(b.pool(x, "average"), 12)


@network("image", 32, 32, 3)
def unet(b: Layers, x: Any) -> Any:
    """U-Net with repeated pixels (Ronneberger et al., 2015)"""
    skips = []
    for width in (8, 16):
        x = b.block(b.block(x, width), width)
        skips.append(x)
        x = b.pool(x, "max")
    x = b.block(x, 32)
    for skip, width in zip(reversed(skips), (16, 8), strict=True):
        x = b.block(b.concat([b.upsample(x), skip]), width)
    return b.act(b.conv(x, 1), "sigmoid")


@network("image", 32, 32, 3)
def unet_transposed(b: Layers, x: Any) -> Any:
    """U-Net with transposed convolutions and no batch normalization"""
    first = b.act(b.conv(x, 8, 3), "elu")
    second = b.act(b.conv(b.pool(first, "max"), 16, 3), "elu")
    x = b.act(b.conv(b.pool(second, "max"), 32, 3), "elu")
    x = b.act(b.conv(b.concat([b.conv_transpose(x, 16), second]), 16, 3), "elu")
    x = b.act(b.conv(b.concat([b.conv_transpose(x, 8), first]), 8, 3), "elu")
    return b.conv(x, 3)


@network("image", 32, 32, 1)
def image_autoencoder(b: Layers, x: Any) -> Any:
    """Autoencoder of images: strided and transposed convolutions"""
    for width in (8, 16):
        x = b.act(b.conv(x, width, 3, 2), "relu")
    for width in (16, 8):
        x = b.act(b.conv_transpose(x, width), "relu")
    return b.act(b.conv(x, 1, 3), "sigmoid")


@network("image", 64, 64, 3)
def detector(b: Layers, x: Any) -> Any:
    """Detector with two outputs, scores and boxes, for each cell"""
    x = b.block(x, 16, 3, 2, act="relu6")
    for width, stride in ((24, 2), (32, 1), (48, 2), (64, 1)):
        x = b.separable(x, width, stride, act="relu6")
    return b.act(b.conv(x, 6), "sigmoid"), b.conv(x, 12)


@network("sequence", 64, 20)
def tcn(b: Layers, x: Any) -> Any:
    """Temporal convolutional network: dilated, causal (Bai et al., 2018)"""
    x = b.act(b.causal_conv(x, 24, 1), "relu")
    for dilation in (1, 2, 4):
        y = b.act(b.causal_conv(x, 24, 3, dilation), "relu")
        x = b.add(x, b.act(b.causal_conv(y, 24, 3, dilation), "relu"))
    return b.act(b.dense(b.mean_steps(x), 12), "softmax")


@network("sequence", 128, 2)
def heartbeat(b: Layers, x: Any) -> Any:
    """ResNet of one-dimensional convolutions with strides, for an electrocardiogram"""
    x = b.act(b.norm(b.conv_1d(x, 16, 7, 2)), "relu")
    for width in (16, 32):
        y = b.act(b.norm(b.conv_1d(x, width, 5, 2)), "relu")
        y = b.norm(b.conv_1d(y, width, 5))
        x = b.act(b.add(b.norm(b.conv_1d(x, width, 1, 2)), y), "relu")
    return b.act(b.dense(b.mean_steps(x), 5), "softmax")


@network("frames", 20, 10, convolutional=False)
def gru_spotter(b: Layers, x: Any) -> Any:
    """Keyword spotter with a GRU"""
    return b.act(b.dense(b.recurrent(x, "gru", 24), 8), "softmax")


@network("frames", 20, 10, convolutional=False)
def lstm_spotter(b: Layers, x: Any) -> Any:
    """Keyword spotter with an LSTM"""
    return b.act(b.dense(b.recurrent(x, "lstm", 24), 8), "softmax")


@network("image", 24, 10, 1, convolutional=False)
def crnn(b: Layers, x: Any) -> Any:
    """Keyword spotter with convolutions and a GRU (after Arik et al., 2017)"""
    x = b.block(b.block(x, 8, 3, 2), 8)
    return b.act(b.dense(b.recurrent(b.frames(x), "gru", 16), 8), "softmax")


def _encoder(b: Layers, x: Any, heads: int) -> Any:
    """A transformer's encoder layer that normalizes first."""
    width = x.shape[-1]
    x = b.add(x, b.attention(b.layer_norm(x), heads))
    return b.add(x, b.dense(b.act(b.dense(b.layer_norm(x), 2 * width), "gelu"), width))


@network("frames", 24, 10, convolutional=False)
def transformer(b: Layers, x: Any) -> Any:
    """Keyword transformer with one encoder layer (after Berg et al., 2021)"""
    x = b.layer_norm(_encoder(b, b.embed(x, 16), 2))
    return b.act(b.dense(b.mean_frames(x), 8), "softmax")


@network("image", 32, 32, 3, convolutional=False)
def vision_transformer(b: Layers, x: Any) -> Any:
    """Transformer on patches of an image (after Dosovitskiy et al., 2020)"""
    x = b.embed(b.tokens(b.conv(x, 24, 8, 8, padding="valid")), 24)
    x = b.layer_norm(_encoder(b, _encoder(b, x, 2), 2))
    return b.act(b.dense(b.mean_frames(x), 10), "softmax")
