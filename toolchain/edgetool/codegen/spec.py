"""What the C header is made of: plain values, free of the rooms that compute them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

from edgetool import errors
from edgetool.memory.lifetimes import RecurrentState
from edgetool.model.types import DType

ARENA_ALIGNMENT = 16  # TFLM's MicroArenaBufferAlignment()

# The types whose inputs and outputs get quantize and dequantize helpers, with their limits.
QUANTIZED_LIMITS = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.UINT16: (0, 65535),
}


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The device that the header names.

    name: the target as the user chose it ("cortex-m7", "nucleo-h743zi"); board: its board, None for a bare core.
    kernels: "reference" or "cmsis-nn". runtime: the TFLM version's profile, None when it does not matter.
    region: the memory region that holds the arena and sram_bytes its size; flash_bytes: the room for the
    model. None where the target does not say: the header then asserts only what the user's macro limits.
    """

    name: str
    core: str
    kernels: str
    board: str | None = None
    runtime: str | None = None
    region: str | None = None
    sram_bytes: int | None = None
    flash_bytes: int | None = None

    def __post_init__(self) -> None:
        _not_negative(self.sram_bytes, "sram_bytes")
        _not_negative(self.flash_bytes, "flash_bytes")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor in the arena: `offset` in bytes from its aligned start, None when TFLM plans it at run time.

    first_op and last_op are the positions of the operators between which its content is valid, inclusive. buffer: the
    number of the shared buffer in which it lies, where there are such.
    """

    index: int
    subgraph: int
    name: str
    offset: int | None
    size_bytes: int
    first_op: int
    last_op: int
    buffer: int | None = None

    def __post_init__(self) -> None:
        for field in ("index", "subgraph", "offset", "size_bytes", "buffer"):
            _not_negative(getattr(self, field), field)


@dataclass(frozen=True, slots=True)
class IoSpec:
    """An input or output of the model; `index` is its tensor's.

    scale and zero_point hold per tensor: real = scale * (quantized - zero_point); both None when it is not
    quantized. `offset` and `buffer` are the tensor's, as in TensorSpec. `argument` is what the
    model's signature calls it. InvalidModelError when scale and zero point make
    no sense for the type.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    scale: float | None = None
    zero_point: int | None = None
    offset: int | None = None
    argument: str | None = None
    buffer: int | None = None

    def __post_init__(self) -> None:
        for field in ("index", "offset", "buffer"):
            _not_negative(getattr(self, field), field)
        for extent in self.shape:
            _not_negative(extent, "shape")
        if (self.scale is None) != (self.zero_point is None):
            raise ValueError("a scale requires a zero point, and a zero point requires a scale")
        if self.scale is None or self.zero_point is None:
            return
        if not 0.0 < float32(self.scale) < float("inf"):
            raise errors.InvalidModelError(
                f"its scale is {self.scale:g}, not a positive float32", where=self._where, fix=_REQUANTIZE
            )
        low, high = QUANTIZED_LIMITS.get(self.dtype, (-(2**31), 2**31 - 1))
        if not low <= self.zero_point <= high:
            raise errors.InvalidModelError(
                f"its zero point {self.zero_point} is outside {self.dtype.name}",
                where=self._where,
                fix=_REQUANTIZE,
            )

    @property
    def element_count(self) -> int:
        """The product of the shape; 1 for a scalar."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The bytes of its elements; 0 for types without a width."""
        return (self.element_count * self.dtype.bits + 7) // 8

    @property
    def _where(self) -> str:
        return f"tensor {self.index} ({self.name!r})"


@dataclass(frozen=True, slots=True)
class BuffersSpec:
    """Whole buffers that tensors share: `sizes` in bytes, by number.

    baseline_bytes: every tensor with memory of its own; lower_bound_bytes: what no assignment of tensors to buffers can
    beat. UnsupportedModelError for a buffer that no 32-bit device can have.
    """

    sizes: tuple[int, ...]
    baseline_bytes: int
    lower_bound_bytes: int

    def __post_init__(self) -> None:
        for field in ("baseline_bytes", "lower_bound_bytes"):
            _not_negative(getattr(self, field), field)
        for size in self.sizes:
            if size < 1 or size % ARENA_ALIGNMENT:
                raise ValueError(f"{size} is not a valid buffer size in bytes")
            if size >= 2**31:
                raise errors.UnsupportedModelError(
                    f"a shared buffer would have {size:,} bytes, more than a microcontroller can address",
                    fix="check the shapes of the model",
                )

    @property
    def total_bytes(self) -> int:
        """The bytes of all buffers."""
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class HeaderSpec:
    """Everything that NAME.h says.

    name: the model's name, any text. tool_version: edgetool's.
    model_sha256, model_bytes: of the .tflite that goes with the header (the bytes in NAME_model.c).
    arena_bytes: what to declare; None when not known. arena_is_lower_bound: the exact size is not known;
    arena_bytes, if there, is then only a bound as well.
    layout_bytes: the height of the activations' layout, in bytes; lower_bound_bytes: what no layout of the
    operator order can beat.
    tensors: every tensor in the arena, of all subgraphs. inputs, outputs: in the model's order.
    uncalibrated: quantized without the user's data. notes: further sentences for the banner.
    buffers: what the tensors lie in instead of an arena; each of them then has its buffer.
    state: what lives from one invocation to the next, empty or None for nothing.
    """

    name: str
    tool_version: str
    model_sha256: str
    model_bytes: int
    target: TargetSpec
    arena_bytes: int | None
    arena_is_lower_bound: bool
    layout_bytes: int
    lower_bound_bytes: int
    tensors: tuple[TensorSpec, ...]
    inputs: tuple[IoSpec, ...]
    outputs: tuple[IoSpec, ...]
    uncalibrated: bool = False
    notes: tuple[str, ...] = ()
    buffers: BuffersSpec | None = None
    state: RecurrentState | None = None

    def __post_init__(self) -> None:
        if len(self.model_sha256) != 64 or not set(self.model_sha256) <= set("0123456789abcdef"):
            raise ValueError(f"{self.model_sha256!r} is not a SHA-256 in hex")
        for field in ("model_bytes", "arena_bytes", "layout_bytes", "lower_bound_bytes"):
            _not_negative(getattr(self, field), field)
        if self.arena_bytes is None and not self.arena_is_lower_bound:
            raise ValueError("without arena_bytes the arena is only a lower bound")
        if len({(tensor.subgraph, tensor.index) for tensor in self.tensors}) != len(self.tensors):
            raise ValueError("a tensor is listed twice")
        for tensor in self.tensors:
            sizes = self.buffers.sizes if self.buffers is not None else ()
            in_one = tensor.buffer is not None and tensor.buffer < len(sizes)
            if tensor.buffer is not None and (not in_one or tensor.size_bytes > sizes[tensor.buffer]):
                raise ValueError(f"tensor {tensor.index} is in a buffer that is too small for it")
            if self.buffers is not None and tensor.buffer is None:
                raise ValueError(f"tensor {tensor.index} is not in any buffer")

    @property
    def exact_arena_bytes(self) -> int | None:
        """The arena to declare, None while only a lower bound is known."""
        return None if self.arena_is_lower_bound else self.arena_bytes

    @property
    def least_arena_bytes(self) -> int:
        """The largest size that the arena is known to need, rounded up to its alignment."""
        known = max(self.arena_bytes or 0, self.layout_bytes)
        return -(-known // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def float32(value: float) -> float:
    """The nearest float32; infinite when it is out of range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_REQUANTIZE = "quantize the model again"


def _not_negative(value: int | None, field: str) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{field} is {value}")
