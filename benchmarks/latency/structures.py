"""Models whose layers are published and whose files are not here: their structure alone, which is all that time needs.

A structure is a line of layers, each its kind and its numbers:
`in:96x96x1 conv:8:3x3:2 dw:3x3:1 max:2 mean flat fc:10 softmax`. Convolutions and pools pad to SAME unless a
convolution ends with `:VALID`; `dw` takes a fourth number, the channels per input channel; `global` is an average pool
of the whole image, `mean` a MEAN, `pixel` a MEAN that keeps the dimensions. `bneck` is a block of MobileNetV3, with the
columns of its table; `add` and `mul` combine a tensor with itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

# The depthwise separable blocks of MobileNet v1 at width 0.25: channels of the 1x1 convolution and stride.
PERSON = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))


def _separable(*blocks: tuple[int, int]) -> str:
    return " ".join(f"dw:3x3:{stride} conv:{channels}:1x1:1" for channels, stride in blocks)


def _keyword(first: int, *channels: int) -> str:
    """MicroNets for keyword spotting (Banbury et al., arXiv 2010.11267, table 5): only the first block strides."""
    blocks = _separable(*((c, 2 if i == 0 else 1) for i, c in enumerate(channels)))
    return f"in:49x10x1 conv:{first}:10x4:1 {blocks} global flat fc:12 softmax"


def _anomaly(first: int, *blocks: tuple[int, int]) -> str:
    """MicroNets for anomaly detection (same table)."""
    return f"in:32x32x1 conv:{first}:3x3:1 {_separable(*blocks)} global flat fc:4 softmax"


def _dense(inputs: int, *units: int, last: str = "") -> str:
    return f"in:{inputs} {' '.join(f'fc:{n}' for n in units)}{last}"


STRUCTURES: dict[str, str] = {
    # TFLM's person_detect.tflite: tensorflow/lite/micro/models.
    "person_detect": f"in:96x96x1 dw:3x3:2:8 {_separable(*PERSON)} global conv:2:1x1:1 flat softmax",
    # Its first layers, as torchvision has them.
    "mobilenet_v2": "in:224x224x3 conv:32:3x3:2 dw:3x3:1 conv:16:1x1:1 conv:96:1x1:1 dw:3x3:2 conv:24:1x1:1"
    " conv:144:1x1:1 dw:3x3:1",
    "micronet-kws-l": _keyword(276, 248, 276, 276, 248, 248, 248, 248),
    "micronet-kws-m": _keyword(140, 140, 140, 140, 112, 196),
    "micronet-kws-s": _keyword(84, 112, 84, 84, 84, 196),
    "micronet-ad-l": _anomaly(276, (248, 2), (276, 1), (276, 1), (248, 2), (248, 2)),
    "micronet-ad-m": _anomaly(192, (276, 2), (276, 1), (276, 1), (276, 2), (276, 2)),
    "micronet-ad-s": _anomaly(72, (164, 2), (220, 1), (276, 2), (276, 2)),
    # EdgeMark (github.com/Black3rror/EdgeMark, target_models): networks of a comparison of runtimes.
    # Howard et al., Searching for MobileNetV3, arXiv 1905.02244, table 2.
    "mobilenet_v3_small": "in:224x224x3 conv:16:3x3:2 hs bneck:3x3:16:16:se:re:2 bneck:3x3:72:24:no:re:2"
    " bneck:3x3:88:24:no:re:1 bneck:5x5:96:40:se:hs:2 bneck:5x5:240:40:se:hs:1 bneck:5x5:240:40:se:hs:1"
    " bneck:5x5:120:48:se:hs:1 bneck:5x5:144:48:se:hs:1 bneck:5x5:288:96:se:hs:2 bneck:5x5:576:96:se:hs:1"
    " bneck:5x5:576:96:se:hs:1 conv:576:1x1:1 hs pixel conv:1024:1x1:1 hs conv:1000:1x1:1 flat softmax",
    # The kernels that ESP-NN (github.com/espressif/esp-nn, README.md) timed in external memory, by its data info.
    "elementwise_add size = 1615": "in:1615 add",
    "elementwise_mul size = 1615": "in:1615 mul",
    "convolution input(10,10), filter(64x1x1x64), pad(0,0), stride(1,1)": "in:10x10x64 conv:64:1x1:1",
    "convolution input(8,8), filter(16x1x1x16), pad(0,0), stride(1,1)": "in:8x8x16 conv:16:1x1:1",
    "convolution input(10,10), filter(64x3x3x3), pad(0,0), stride(1,1)": "in:10x10x3 conv:64:3x3:1:VALID",
    "convolution input(8,8), filter(64x3x3x3), pad(0,0), stride(1,1)": "in:8x8x3 conv:64:3x3:1:VALID",
    "depthwise conv input (16, 16), pad(0,0), stride(1,1) filter: 1x3x3x16": "in:16x16x16 dw:3x3:1:1:VALID",
    "depthwise conv input(18,18), pad(0,0), stride(1,1), filter: 1x3x3x16": "in:18x18x16 dw:3x3:1:1:VALID",
    "depthwise conv input (12, 12), pad(1,1), stride(1,1)  filter: 8x5x5x4": "in:12x12x8 dw:5x5:1:4",
    "depthwise conv input(12,12), pad(1,1), stride(1,1), filter: 8x5x5x4": "in:12x12x8 dw:5x5:1:4",
    "hard_swish size: 12544": "in:12544 hs",
    "edgemark-cnn-1": "in:28x28x1 conv:4:3x3:2 conv:6:3x3:2 conv:8:3x3:2 mean fc:10 softmax",
    "edgemark-cnn-2": "in:28x28x1 conv:6:3x3:2 conv:8:3x3:2 conv:8:3x3:2 conv:10:3x3:2 flat fc:10 softmax",
    "edgemark-cnn-3": "in:28x28x1 conv:4:3x3:1 conv:8:3x3:2 conv:12:3x3:2 conv:16:3x3:2 conv:20:3x3:2 flat fc:10"
    " softmax",
    "edgemark-cnn-4": "in:28x28x1 conv:8:3x3:1 conv:8:3x3:2 conv:16:3x3:1 conv:16:3x3:2 conv:32:3x3:1 mean"
    " fc:64 fc:16 fc:10 softmax",
    "edgemark-cnn-5": "in:32x32x3 conv:16:3x3:1 conv:16:3x3:1 max:2 conv:32:3x3:2 conv:32:3x3:1 mean"
    " fc:64 fc:32 fc:10 softmax",
    "edgemark-cnn-6": "in:32x32x3 conv:16:3x3:1 conv:16:3x3:1 max:2 conv:32:3x3:1 conv:32:3x3:1 max:2 conv:64:3x3:1"
    " mean fc:100 fc:50 fc:10 softmax",
    "edgemark-cnn-7": "in:32x32x3 conv:16:3x3:1 conv:16:3x3:1 max:2 conv:32:3x3:1 conv:32:3x3:1 max:2 conv:64:3x3:1"
    " conv:64:3x3:1 max:2 conv:128:3x3:1 mean fc:128 fc:64 fc:10 softmax",
    "edgemark-fc-2": _dense(1, 10, 10, 1),
    "edgemark-fc-3": _dense(50, 16, 8, 10, last=" softmax"),
    "edgemark-fc-4": _dense(50, 32, 16, 10, last=" softmax"),
    "edgemark-fc-5": _dense(13, 64, 32, 16, 1),
    "edgemark-fc-6": _dense(13, 64, 64, 64, 1),
    "edgemark-fc-7": _dense(128, 64, 32, 16, 10, last=" softmax"),
    "edgemark-fc-8": _dense(13, 128, 128, 128, 1),
    "edgemark-fc-9": _dense(784, 60, 32, 16, 10, last=" softmax"),
    "edgemark-fc-10": _dense(3072, 64, 32, 16, 10, last=" softmax"),
}


@cache
def built(name: str, dtype: DType = DType.INT8) -> Model:
    """The model of that name with weights of noise. Raises KeyError for a name that STRUCTURES lacks."""
    first, *layers = STRUCTURES[name].split()
    net = Net(seed=1)
    x = start = net.arena(1, *_numbers(first.split(":")[1]), dtype=dtype)
    for layer in layers:
        kind, *values = layer.split(":")
        x = LAYERS[kind](net, x, *values)
    return net.model([start], [x])


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split("x")]


def _shape(net: Net, x: int) -> tuple[int, ...]:
    return net.tensors[x].shape


def _image(net: Net, x: int, kernel: str, step: int, padding: str) -> list[int]:
    """The rows and columns of the output of a convolution."""
    _, *image, _ = _shape(net, x)
    less = [0, 0] if padding == "SAME" else [size - 1 for size in _numbers(kernel)]
    return [-(-(size - lost) // step) for size, lost in zip(image, less, strict=True)]


def _conv(net: Net, x: int, channels: str, kernel: str, stride: str, padding: str = "SAME") -> int:
    step, number, depth = int(stride), int(channels), _shape(net, x)[-1]
    inputs = [x, net.filter(number, *_numbers(kernel), depth, like=x), net.biases(number, like=x)]
    given: dict[str, Any] = {
        "padding": padding,
        "stride_h": step,
        "stride_w": step,
        "fused_activation_function": "RELU",
    }
    return net.op("CONV_2D", inputs, 1, *_image(net, x, kernel, step, padding), number, **given)


def _depthwise(net: Net, x: int, kernel: str, stride: str, multiplier: str = "1", padding: str = "SAME") -> int:
    step, number = int(stride), _shape(net, x)[-1] * int(multiplier)
    inputs = [x, net.filter(1, *_numbers(kernel), number, like=x, axis=3), net.biases(number, like=x)]
    given: dict[str, Any] = {
        "padding": padding,
        "stride_h": step,
        "stride_w": step,
        "depth_multiplier": int(multiplier),
    }
    return net.op("DEPTHWISE_CONV_2D", inputs, 1, *_image(net, x, kernel, step, padding), number, **given)


def _bneck(net: Net, x: int, kernel: str, expanded: str, channels: str, se: str, activation: str, stride: str) -> int:
    """A block of MobileNetV3; the scaling of the gate, with one element per channel, is left out."""

    def active(y: int) -> int:
        return _hard_swish(net, y) if activation == "hs" else y

    depth, y = _shape(net, x)[-1], x
    if int(expanded) != depth:
        y = active(_conv(net, y, expanded, "1x1", "1"))
    y = active(_depthwise(net, y, kernel, stride))
    if se == "se":
        quarter = str(max(8, (int(expanded) // 4 + 4) // 8 * 8))
        gate = _conv(net, _conv(net, _pixel(net, y), quarter, "1x1", "1"), expanded, "1x1", "1")
        y = net.op("MUL", [y, gate], *_shape(net, y))
    y = _conv(net, y, channels, "1x1", "1")
    return net.op("ADD", [x, y], *_shape(net, y)) if stride == "1" and int(channels) == depth else y


def _hard_swish(net: Net, x: int) -> int:
    return net.op("HARD_SWISH", [x], *_shape(net, x))


def _pixel(net: Net, x: int) -> int:
    return net.op("MEAN", [x, net.constant([1, 2])], 1, 1, 1, _shape(net, x)[3], keep_dims=True)


def _twice(operator: str) -> Callable[[Net, int], int]:
    return lambda net, x: net.op(operator, [x, x], *_shape(net, x))


def _pool(net: Net, x: int, size: str) -> int:
    _, height, width, depth = _shape(net, x)
    step = int(size)
    given: dict[str, Any] = {
        "padding": "SAME",
        "stride_h": step,
        "stride_w": step,
        "filter_height": step,
        "filter_width": step,
    }
    return net.op("MAX_POOL_2D", [x], 1, -(-height // step), -(-width // step), depth, **given)


def _global(net: Net, x: int) -> int:
    _, height, width, depth = _shape(net, x)
    given: dict[str, Any] = {
        "padding": "VALID",
        "stride_h": height,
        "stride_w": width,
        "filter_height": height,
        "filter_width": width,
    }
    return net.op("AVERAGE_POOL_2D", [x], 1, 1, 1, depth, **given)


def _mean(net: Net, x: int) -> int:
    return net.op("MEAN", [x, net.constant([1, 2])], 1, _shape(net, x)[3], keep_dims=False)


def _flat(net: Net, x: int) -> int:
    size = 1
    for dimension in _shape(net, x):
        size *= dimension
    return net.op("RESHAPE", [x, net.constant([1, size])], 1, size, new_shape=(1, size))


def _full(net: Net, x: int, units: str) -> int:
    number = int(units)
    inputs = [x, net.filter(number, _shape(net, x)[-1], like=x, axis=None), net.biases(number, like=x)]
    return net.op("FULLY_CONNECTED", inputs, 1, number)


def _softmax(net: Net, x: int) -> int:
    dtype = net.tensors[x].dtype
    scale, zero_point = {DType.INT8: (1 / 256, -128), DType.INT16: (1 / 32768, 0)}.get(dtype, (None, 0))
    return net.op("SOFTMAX", [x], scale=scale, zero_point=zero_point, beta=1.0)


LAYERS: dict[str, Callable[..., int]] = {
    "conv": _conv,
    "dw": _depthwise,
    "bneck": _bneck,
    "hs": _hard_swish,
    "pixel": _pixel,
    "add": _twice("ADD"),
    "mul": _twice("MUL"),
    "max": _pool,
    "global": _global,
    "mean": _mean,
    "flat": _flat,
    "fc": _full,
    "softmax": _softmax,
}
