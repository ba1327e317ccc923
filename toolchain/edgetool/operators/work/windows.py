"""The windows of a convolution: where they stand, and how many of their elements lie inside the image."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.model.types import Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.inspection import demand, integer
from edgetool.operators.work.types import walk


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image, in elements; `pad` lies in front of the first one."""

    size: int
    kernel: int
    stride: int
    dilation: int
    outputs: int
    pad: int

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the windows start; below 0 in the padding, and all alike when the file has no stride."""
        return tuple(at * self.stride - self.pad for at in range(self.outputs))

    @property
    def taps(self) -> int:
        """The elements of all windows."""
        return self.outputs * self.kernel

    @property
    def inside(self) -> int:
        """The elements of all windows that lie inside the image."""
        return sum(map(self._inside, self.starts))

    @property
    def reached(self) -> int:
        """The windows of which any element lies inside the image: all, but for some dilated ones."""
        return sum(self._inside(start) > 0 for start in self.starts)

    @property
    def before(self) -> int:
        """The elements of all windows in front of the image; those neither there nor inside lie behind it."""
        return sum(map(self._before, self.starts))

    def _before(self, start: int) -> int:
        return self._reaching(-start)

    def _inside(self, start: int) -> int:
        return self._reaching(self.size - start) - self._before(start)

    def _reaching(self, distance: int) -> int:
        """The elements of a window less than a distance from its first."""
        if distance <= 0:
            return 0
        return min(self.kernel, -(-distance // self.dilation)) if self.dilation > 0 else self.kernel


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a convolution over one image, and the channels around it."""

    batch: int
    rows: Axis
    columns: Axis
    in_channels: int
    out_channels: int
    filter_channels: int

    @property
    def positions(self) -> int:
        """The windows of one image."""
        return self.rows.outputs * self.columns.outputs

    @property
    def kernel(self) -> int:
        """The elements of a window."""
        return self.rows.kernel * self.columns.kernel

    @property
    def taps(self) -> int:
        """The elements of all windows of one image."""
        return self.rows.taps * self.columns.taps

    @property
    def inside(self) -> int:
        """Those that do not lie in the padding."""
        return self.rows.inside * self.columns.inside

    @property
    def padded(self) -> bool:
        """Whether there is padding in front."""
        return self.rows.pad != 0 or self.columns.pad != 0

    @property
    def dilated(self) -> bool:
        """Whether the window's elements do not lie side by side."""
        return self.rows.dilation != 1 or self.columns.dilation != 1


def windows(call: Call, source: Tensor, weights: Tensor, result: Tensor) -> Windows:
    """The windows of a convolution from `source` to `result`. Raises KernelRefusal for other than images."""
    images = all(len(tensor.shape) == 4 for tensor in (source, weights, result))
    demand(call, images and weights.shape[3] > 0, "requires images and filters with 4 dimensions")
    names = (("stride_h", "dilation_h_factor"), ("stride_w", "dilation_w_factor"))
    rows, columns = (
        axis(source.shape[i], weights.shape[i], integer(call, stride), integer(call, dilation, 1), result.shape[i])
        for i, (stride, dilation) in enumerate(names, start=1)
    )
    return Windows(result.shape[0], rows, columns, source.shape[3], result.shape[3], weights.shape[3])


def axis(size: int, kernel: int, stride: int, dilation: int, outputs: int) -> Axis:
    """An axis with what padding its outputs need: less in front than behind (ComputePaddingWithOffset, padding.h).

    An operator without options has strides of 0, with which no kernel gets far.
    """
    walk(outputs * kernel)
    stride = max(stride, 1)
    window = (kernel - 1) * dilation + 1
    pad = max((outputs - 1) * stride + window - size, 0) // 2
    return Axis(size, kernel, stride, dilation, outputs, pad)
