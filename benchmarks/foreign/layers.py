"""The layers that networks are made of, whatever framework computes them.

Each framework keeps its own order of the axes. "Image" is (height, width, channels) and "sequence" (time, channels) in
Keras; in PyTorch, the channels of both come first. "Frames" are (time, features) in both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Literal

# What is added around an image. same: as TensorFlow's SAME, more at the end if it is uneven; even: half the kernel on
# each side, as PyTorch's users do. Both are the same for odd kernels and a stride of 1.
Padding = Literal["same", "even", "valid"]
Pair = tuple[int, int]


def pair(size: int | Pair) -> Pair:
    return (size, size) if isinstance(size, int) else size


def pads(padding: Padding, sizes: Pair, kernel: Pair, stride: int, dilation: int = 1) -> tuple[Pair, Pair]:
    """Return the elements added before and after the rows and the columns of an image of these sizes."""
    added = []
    for size, width in zip(sizes, kernel, strict=True):
        reach = (width - 1) * dilation
        if padding == "same":
            total = max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
            added.append((total // 2, total - total // 2))
        else:
            added.append((reach // 2, reach // 2) if padding == "even" else (0, 0))
    return added[0], added[1]


class Layers(ABC):
    """Builds the layers of a framework; they are named by kind and number, in the order of the calls."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    def name(self, kind: str) -> str:
        self._count[kind] += 1
        return f"{kind}_{self._count[kind]}"

    @abstractmethod
    def channels(self, x: Any) -> int:
        """Return the number of channels of an image or a sequence."""

    @abstractmethod
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
    ) -> Any: ...

    @abstractmethod
    def depthwise(
        self, x: Any, kernel: int = 3, stride: int = 1, *, padding: Padding = "even", bias: bool = False
    ) -> Any: ...

    @abstractmethod
    def conv_transpose(self, x: Any, channels: int) -> Any:
        """Return an image of twice the size (kernel and stride 2)."""

    @abstractmethod
    def causal_conv(self, x: Any, channels: int, kernel: int, dilation: int = 1) -> Any:
        """Convolve a sequence with what came before each step."""

    @abstractmethod
    def conv_1d(self, x: Any, channels: int, kernel: int, stride: int = 1) -> Any:
        """Convolve a sequence, padded by half the kernel on each side."""

    @abstractmethod
    def norm(self, x: Any) -> Any:
        """Normalize by the statistics of the batch in training."""

    @abstractmethod
    def layer_norm(self, x: Any) -> Any:
        """Normalize the last axis of frames."""

    @abstractmethod
    def act(self, x: Any, kind: str) -> Any:
        """Apply relu, relu6, hard_swish, hard_sigmoid, sigmoid, tanh, gelu, silu, elu, leaky_relu or softmax."""

    @abstractmethod
    def dense(self, x: Any, units: int) -> Any:
        """Apply to the last axis of features or frames."""

    @abstractmethod
    def flat_dense(self, x: Any, units: int) -> Any:
        """Apply to all pixels of an image."""

    @abstractmethod
    def pool(self, x: Any, kind: Literal["max", "average"], size: int = 2, stride: int | None = None) -> Any:
        """Pool an image; a size of 3 is padded by 1."""

    @abstractmethod
    def mean(self, x: Any, *, keep: bool = False) -> Any:
        """Return the mean of each channel of an image, or an image of one pixel."""

    @abstractmethod
    def mean_steps(self, x: Any) -> Any:
        """Return the mean of each channel of a sequence."""

    @abstractmethod
    def mean_frames(self, x: Any) -> Any:
        """Return the mean of each feature of frames."""

    @abstractmethod
    def concat(self, parts: list[Any]) -> Any:
        """Join the channels of images."""

    @abstractmethod
    def halves(self, x: Any) -> tuple[Any, Any]:
        """Split the channels of an image."""

    @abstractmethod
    def shuffle(self, x: Any, groups: int) -> Any:
        """Deal the channels of an image to groups in turn."""

    @abstractmethod
    def upsample(self, x: Any) -> Any:
        """Repeat each pixel of an image in both directions."""

    @abstractmethod
    def frames(self, x: Any) -> Any:
        """Return an image as frames: rows are steps, columns and channels are features."""

    @abstractmethod
    def tokens(self, x: Any) -> Any:
        """Return the pixels of an image as frames of channels."""

    @abstractmethod
    def swap(self, x: Any) -> Any:
        """Exchange the steps and features of frames."""

    @abstractmethod
    def embed(self, x: Any, width: int) -> Any:
        """Project frames to a width, and add a learned vector to each."""

    @abstractmethod
    def attention(self, x: Any, heads: int) -> Any:
        """Let frames attend to each other."""

    @abstractmethod
    def recurrent(self, x: Any, kind: Literal["gru", "lstm"], units: int) -> Any:
        """Return the last state after frames."""

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    # What most networks share.

    def block(self, x: Any, channels: int, kernel: int | Pair = 3, stride: int = 1, **options: Any) -> Any:
        """Convolution without bias, batch normalization, and the activation `act` (relu; None for none)."""
        act = options.pop("act", "relu")
        x = self.norm(self.conv(x, channels, kernel, stride, bias=False, **options))
        return self.act(x, act) if act else x

    def depthwise_block(self, x: Any, kernel: int = 3, stride: int = 1, **options: Any) -> Any:
        act = options.pop("act", "relu")
        return self.act(self.norm(self.depthwise(x, kernel, stride, **options)), act)

    def separable(self, x: Any, channels: int, stride: int = 1, **options: Any) -> Any:
        return self.block(self.depthwise_block(x, 3, stride, **options), channels, 1, **options)

    def classify(self, x: Any, classes: int) -> Any:
        """Return the probabilities of classes from an image."""
        return self.act(self.dense(self.mean(x), classes), "softmax")
