"""Networks that stream over time: a causal keyword spotter, a TCN as Keras converts it, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from edgetool.model.types import Model
from tests.memory.account_net import Net

CAUSAL = 2  # taps of a causal convolution minus one


def spotter(frames: int = 30, width: int = 6, channels: int = 8, *, padding: str = "VALID") -> Model:
    """Return a DS-CNN without padding in time: a strided convolution, two separable ones, a mean, and a softmax."""
    layers = Layers(Net(seed=4), frames, width, 1)
    layers.conv(channels, 5, 3, stride=2, padding=padding)
    for _ in range(2):
        layers.pad(0, 1)
        layers.depthwise(3, 3, padding=padding)
        layers.conv(channels, 1, 1)
    layers.mean()
    layers.dense(4)
    layers.append("SOFTMAX", scale=1 / 256, zero_point=-128, beta=1.0)
    return layers.model()


def tcn(frames: int = 40, channels: int = 8, dilations: Sequence[int] = (1, 2, 4)) -> Model:
    """Return residual blocks of causal, dilated 1-D convolutions, with the reshapes of Keras, and a dense layer."""
    net = Net(seed=5)
    source = x = net.arena(1, frames, 3, zero_point=2)
    for dilation in dilations:
        x = residual_1d(net, x, channels, dilation)
    net.end_graph([source], [dense_1d(net, last_1d(net, x), 3)])
    return net.whole()


def residual_1d(net: Net, x: int, channels: int, dilation: int) -> int:
    """Add a block of two causal convolutions, and its input."""
    y = causal_1d(net, causal_1d(net, x, channels, dilation), channels, dilation)
    if net.tensors[x].shape[2] != channels:
        x = conv_1d(net, x, channels, 1)
    return net.op("ADD", [x, y], scale=1 / 4, zero_point=-3, fused_activation_function="RELU")


def last_1d(net: Net, x: int) -> int:
    """Return the last row."""
    channels = net.tensors[x].shape[2]
    numbers = [net.constant(values) for values in ([0, -1, 0], [0, 0, 0], [1, 1, 1])]
    return net.op("STRIDED_SLICE", [x, *numbers], 1, channels, begin_mask=5, end_mask=5, shrink_axis_mask=2,
                  scale=1 / 4, zero_point=-3)  # fmt: skip


def dense_1d(net: Net, x: int, units: int) -> int:
    """Add a dense layer over everything."""
    count = net.tensors[x].element_count
    weights = [net.filter(units, count, like=x, axis=None), net.biases(units, like=x)]
    return net.op("FULLY_CONNECTED", [x, *weights], 1, units, scale=1.0)


def causal_1d(net: Net, x: int, channels: int, dilation: int) -> int:
    """Add a 1-D convolution that pads in front, as Keras converts it."""
    frames, depth = net.tensors[x].shape[1:]
    own = net.tensors[x].quantization
    assert own is not None
    before = net.constant([0, 0, CAUSAL * dilation, 0, 0, 0], 3, 2)
    x = net.op("PAD", [x, before], 1, frames + CAUSAL * dilation, depth, scale=own.scales[0],
               zero_point=own.zero_points[0])  # fmt: skip
    return conv_1d(net, x, channels, CAUSAL + 1, dilation)


def conv_1d(net: Net, x: int, channels: int, taps: int, dilation: int = 1, stride: int = 1) -> int:
    """Add a 1-D convolution of an image with one row, between two reshapes."""
    _, frames, depth = net.tensors[x].shape
    rows = (frames - (taps - 1) * dilation - 1) // stride + 1
    own = net.tensors[x].quantization
    assert own is not None
    x = net.op("RESHAPE", [x, net.constant([1, 1, frames, depth])], 1, 1, frames, depth, scale=own.scales[0],
               zero_point=own.zero_points[0])  # fmt: skip
    weights = [net.filter(channels, 1, taps, depth, like=x), net.biases(channels, like=x)]
    values: dict[str, Any] = {"padding": "VALID", "stride_w": stride, "dilation_w_factor": dilation}
    values |= {"stride_h": 1, "dilation_h_factor": 1, "fused_activation_function": "RELU"}
    x = net.op("CONV_2D", [x, *weights], 1, 1, rows, channels, scale=1 / 4, zero_point=-3, **values)
    return net.op("RESHAPE", [x, net.constant([1, rows, channels])], 1, rows, channels, scale=1 / 4, zero_point=-3)


class Layers:
    """A network of images whose height is time. x: the tensor of the last layer. hop: the smallest one so far."""

    def __init__(self, net: Net, frames: int, width: int, channels: int) -> None:
        self.net, self.hop = net, 1
        self.source = self.x = net.arena(1, frames, width, channels, zero_point=3)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the last layer's output."""
        return self.net.tensors[self.x].shape

    @property
    def scaling(self) -> dict[str, Any]:
        """Its scale and zero point."""
        own = self.net.tensors[self.x].quantization
        assert own is not None
        return {"scale": own.scales[0], "zero_point": own.zero_points[0]}

    def append(self, code: str, others: Sequence[int] = (), *shape: int, **values: Any) -> int:
        """Add an operator that reads the last output, and others."""
        self.x = self.net.op(code, [self.x, *others], *shape, **values)
        return self.x

    def window(self, height: int, width: int, channels: int, stride: int, dilation: int, padding: str) -> list[int]:
        """Return the shape after a window."""
        rows, columns = self.shape[1:3]
        sizes = ((rows, height, stride, dilation), (columns, width, 1, 1))
        if padding == "SAME":
            return [1, *(-(-size // step) for size, _, step, _ in sizes), channels]
        return [1, *((size - (taps - 1) * apart - 1) // step + 1 for size, taps, step, apart in sizes), channels]

    def conv(
        self, channels: int, height: int, width: int, *, stride: int = 1, dilation: int = 1, padding: str = "VALID"
    ) -> None:
        """Add a convolution with a RELU."""
        net, depth = self.net, self.shape[3]
        shape = self.window(height, width, channels, stride, dilation, padding)
        others = [net.filter(channels, height, width, depth, like=self.x), net.biases(channels, like=self.x)]
        self._windowed("CONV_2D", others, shape, stride, dilation, padding)

    def depthwise(self, height: int, width: int, *, stride: int = 1, dilation: int = 1, padding: str = "VALID") -> None:
        """Add a depthwise convolution with a RELU."""
        net, depth = self.net, self.shape[3]
        shape = self.window(height, width, depth, stride, dilation, padding)
        others = [net.filter(1, height, width, depth, like=self.x, axis=3), net.biases(depth, like=self.x)]
        self._windowed("DEPTHWISE_CONV_2D", others, shape, stride, dilation, padding, depth_multiplier=1)

    def _windowed(
        self, code: str, others: list[int], shape: list[int], stride: int, dilation: int, padding: str, **values: Any
    ) -> None:
        self.hop *= stride
        values |= {"padding": padding, "stride_h": stride, "stride_w": 1, "dilation_h_factor": dilation}
        values |= {"dilation_w_factor": 1, "fused_activation_function": "RELU"}
        self.append(code, others, *shape, scale=1 / 4, zero_point=-5, **values)

    def pool(self, code: str, height: int, stride: int) -> None:
        """Add pooling along time."""
        shape = self.window(height, 1, self.shape[3], stride, 1, "VALID")
        self.hop *= stride
        values = {"padding": "VALID", "stride_h": stride, "stride_w": 1, "filter_height": height, "filter_width": 1}
        self.append(code, [], *shape, **values, **self.scaling)

    def pad(self, rows: int, columns: int) -> None:
        """Add padding in front in time, and on both sides of the width."""
        height, width, channels = self.shape[1:]
        amounts = self.net.constant([0, 0, rows, 0, columns, columns, 0, 0], 4, 2)
        self.append("PAD", [amounts], 1, height + rows, width + 2 * columns, channels, **self.scaling)

    def crop(self, x: int, first: int, rows: int) -> int:
        """Return some of the rows of a tensor."""
        width, channels = self.net.tensors[x].shape[2:]
        own = self.net.tensors[x].quantization
        assert own is not None
        numbers = [self.net.constant(values) for values in ([0, first, 0, 0], [0, first + rows, 0, 0], [1, 1, 1, 1])]
        return self.net.op("STRIDED_SLICE", [x, *numbers], 1, rows, width, channels, begin_mask=13, end_mask=13,
                           scale=own.scales[0], zero_point=own.zero_points[0])  # fmt: skip

    def residual(self, height: int, dilation: int, first: int) -> None:
        """Add a convolution, and the rows of its input from `first` on to it."""
        before = self.x
        self.conv(self.shape[3], height, 1, dilation=dilation)
        self.append("ADD", [self.crop(before, first, self.shape[1])], scale=1 / 3, zero_point=1)

    def join(self, height: int, first: int) -> None:
        """Join a convolution with rows of its input."""
        before = self.x
        self.conv(3, height, 1)
        other = self.crop(before, first, self.shape[1])
        channels = self.shape[3] + self.net.tensors[other].shape[3]
        same = self.net.op("QUANTIZE", [other], scale=1 / 4, zero_point=-5)
        self.append("CONCATENATION", [same], *self.shape[:3], channels, axis=3, **self.scaling)

    def mean(self) -> None:
        """Add the mean of all pixels."""
        axes = self.net.constant([1, 2])
        self.append("MEAN", [axes], 1, self.shape[3], keep_dims=False, scale=1 / 32, zero_point=-128)

    def dense(self, units: int) -> None:
        """Add a dense layer over everything."""
        net, count = self.net, self.net.tensors[self.x].element_count
        if len(self.shape) > 2:
            self.append("RESHAPE", [net.constant([1, count])], 1, count, **self.scaling)
        weights = [net.filter(units, count, like=self.x, axis=None), net.biases(units, like=self.x)]
        self.append("FULLY_CONNECTED", weights, 1, units, scale=1 / 16)

    def model(self) -> Model:
        """Return the network."""
        self.net.end_graph([self.source], [self.x])
        return self.net.whole()


def random_stream(random: Random) -> tuple[Model, int]:
    """Return a random network and a hop. Some do not stream: the outputs may need rows that read padding."""
    return random_1d(random) if random.random() < 0.3 else random_2d(random)


def random_1d(random: Random) -> tuple[Model, int]:
    """Return a random 1-D network as Keras converts it."""
    net = Net(seed=random.randrange(1000))
    source = x = net.arena(1, random.randrange(30, 60), random.choice([1, 4]), zero_point=2)
    hop, is_causal = 1, random.random() < 0.5
    for _ in range(random.randrange(1, 4)):
        dilation, channels = random.choice([1, 2, 3]), random.choice([2, 4])
        if is_causal:
            x = residual_1d(net, x, channels, dilation)
        else:
            stride = random.choice([1, 1, 2])
            x = conv_1d(net, x, channels, random.randrange(1, 4), dilation, stride)
            hop *= stride
    if is_causal or random.random() < 0.3:
        x = last_1d(net, x)
    elif random.random() < 0.5:
        x = net.op("MEAN", [x, net.constant([1])], 1, net.tensors[x].shape[2], keep_dims=False, scale=1 / 16)
    else:
        x = net.op("LOGISTIC", [x], scale=1 / 256, zero_point=-128)
    net.end_graph([source], [dense_1d(net, x, 3) if len(net.tensors[x].shape) == 2 else x])
    return net.whole(), hop * random.randrange(1, 4)


def random_2d(random: Random) -> tuple[Model, int]:
    """Return a random network of images whose height is time."""
    layers = Layers(
        Net(seed=random.randrange(1000)), random.randrange(40, 60), random.choice([1, 3]), random.choice([2, 4])
    )
    for _ in range(random.randrange(2, 6)):
        taps, dilation = random.randrange(1, 4), random.choice([1, 1, 2, 3])
        height = layers.shape[1]
        if height < 16:
            break
        kind = random.choice(["conv", "depthwise", "pool", "residual", "join", "causal", "strided", "crop"])
        if kind == "conv":
            layers.conv(random.choice([2, 5]), taps, 1, dilation=dilation)
        elif kind == "depthwise":
            layers.depthwise(taps, 1, dilation=dilation)
        elif kind == "pool":
            layers.pool(random.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]), random.choice([2, 3]), random.choice([1, 2]))
        elif kind == "residual":
            layers.residual(taps, dilation, random.randrange((taps - 1) * dilation + 1))
        elif kind == "join":
            layers.join(taps, random.randrange(taps))
        elif kind == "causal":
            layers.pad((taps - 1) * dilation, 0)
            layers.conv(4, taps, 1, dilation=dilation)
            if random.random() < 0.8:
                # Rows that read the padding are cut off.
                first = (taps - 1) * dilation
                layers.x = layers.crop(layers.x, first, layers.shape[1] - first)
        elif kind == "strided":
            layers.conv(4, taps, 1, stride=2)
        else:
            layers.x = layers.crop(layers.x, random.randrange(3), height - 5)
    end = random.choice(["mean", "dense", "last", "rows"])
    if end == "mean":
        layers.mean()
    elif end == "dense":
        layers.dense(3)
    elif end == "last":
        layers.x = layers.crop(layers.x, layers.shape[1] - 1, 1)
        layers.dense(3)
    return layers.model(), layers.hop * random.randrange(1, 4)
