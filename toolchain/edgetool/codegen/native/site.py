"""One operator as its lowering sees it, and what a lowering returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from edgetool.codegen.native.program import Step
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor
from edgetool.operators.call import CLAMP_BOUNDS, float32
from edgetool.operators.call import scale as scale_of
from edgetool.operators.call import zero_point as zero_point_of

NUMPY_TYPES: dict[DType, str] = {
    DType.BOOL: "?",
    DType.INT8: "i1",
    DType.UINT8: "u1",
    DType.INT16: "<i2",
    DType.UINT16: "<u2",
    DType.INT32: "<i4",
    DType.UINT32: "<u4",
    DType.INT64: "<i8",
    DType.FLOAT32: "<f4",
}
RANGES: dict[DType, tuple[int, int]] = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
}
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor whose bytes are those of another one, from `offset` on: RESHAPE and its like compute nothing."""

    output: int
    source: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Folded:
    """A tensor that the generator computes: an operator on constants."""

    output: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Initial:
    """What init and reset write to a variable, instead of its zero point."""

    variable: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Site:
    """An operator of the main graph, with the padding in front of its first input that a PAD before it adds.

    pad_top and pad_left: rows and columns of the input's zero point, of which the operator's first input has none:
    it is the input of the PAD. row_wise: the rows of images are planned one by one, so that a lowering must not merge
    the rows of a tensor into one; otherwise whole tensors are, whose rows follow each other, and it should. vector: the
    core has Helium. dsp: it has Arm's DSP extension. lean: the kernels must do without scratch that only makes them
    faster. plain: convolutions must have the kernels for all shapes, of which pairs of operators are made. sums: the
    tensor that it may add up rows in, -1 if it has none.
    """

    model: Model
    graph: Graph
    operator: Operator
    pad_top: int = 0
    pad_left: int = 0
    row_wise: bool = False
    vector: bool = False
    dsp: bool = True
    lean: bool = False
    plain: bool = False
    sums: int = -1

    @property
    def can_add_rows(self) -> bool:
        """Whether the rows of its first input can be added up one by one: there is a tensor for sums, and one image."""
        source = self.input(0)
        return self.sums >= 0 and source.data is None and len(source.shape) == 4 and source.shape[0] == 1

    def index(self, position: int) -> int:
        """Return the tensor's index of an input; -1 if it is omitted."""
        inputs = self.operator.inputs
        return inputs[position] if position < len(inputs) else -1

    def input(self, position: int) -> Tensor:
        """Return an input. Raises UnsupportedModelError if it is omitted."""
        index = self.index(position)
        if index < 0:
            self.refuse(f"input {position} is omitted")
        return self.graph.tensors[index]

    def optional(self, position: int) -> Tensor | None:
        """Return an input, or None if it is omitted."""
        return None if self.index(position) < 0 else self.input(position)

    def output(self, position: int = 0) -> Tensor:
        """Return an output."""
        return self.graph.tensors[self.operator.outputs[position]]

    def option(self, name: str, default: OptionValue = None) -> Any:
        """Return a field of the operator's options, or the default."""
        options = self.operator.options
        return default if options is None else dict(options.fields).get(name, default)

    def constant(self, position: int) -> Array:
        """Return a constant input as an array. Raises UnsupportedModelError if it is computed by the model."""
        tensor = self.input(position)
        if tensor.data is None:
            self.refuse(f"input {position} is not constant")
        return values_of(tensor, self)

    def refuse(self, why: str) -> NoReturn:
        """Raise UnsupportedModelError with the operator and the reason."""
        raise UnsupportedModelError(
            f"the native runtime does not support {self.operator.label} here: {why}",
            where=f"operator {self.operator.index}",
            fix="use one of TFLM's runtimes, or convert the model without it",
        )

    def require(self, condition: bool, why: str) -> None:
        """Raise UnsupportedModelError with the reason unless the condition holds."""
        if not condition:
            self.refuse(why)


Lowered: TypeAlias = Step | View | Folded | Initial
Lowering: TypeAlias = Callable[[Site], Iterable[Lowered]]


def values_of(tensor: Tensor, site: Site) -> Array:
    """Return a constant tensor as an array of its shape; int4 unpacked."""
    data = tensor.data or b""
    if tensor.dtype is DType.INT4:
        packed = np.frombuffer(data, np.uint8)
        nibbles = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[: tensor.element_count].astype(np.int8)
        return np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8).reshape(tensor.shape)
    if tensor.dtype not in NUMPY_TYPES or tensor.sparsity is not None:
        site.refuse(f"its constant {tensor.name!r} is sparse or of type {tensor.dtype.name}")
    return np.frombuffer(data, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)


def element_bytes(tensor: Tensor) -> int:
    """Return the size of an element in the arena."""
    return tensor.dtype.bits // 8


def fused_range(site: Site, output: Tensor) -> tuple[int, int]:
    """Return the lowest and highest code that the fused activation lets through.

    Source: CalculateActivationRangeQuantized (kernel_util.cc), which rounds bound / scale in float32.
    """
    name = site.option("fused_activation_function", "NONE")
    low, high = RANGES[output.dtype]
    if name == "NONE":
        return low, high
    site.require(name in CLAMP_BOUNDS, f"the fused activation {name} is not supported")
    scale, zero_point = scale_of(output), zero_point_of(output)
    codes = [zero_point + round_half_away(float32(bound / scale)) for bound in CLAMP_BOUNDS[name]]
    low = max(low, codes[0])
    return (low, high) if len(codes) == 1 else (low, min(high, codes[1]))


def round_half_away(value: float) -> int:
    """Return the nearest integer, half away from zero (TfLiteRound)."""
    whole = int(value)
    rest = value - whole
    return whole + (1 if rest >= 0.5 else 0) - (1 if rest <= -0.5 else 0)
