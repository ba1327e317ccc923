"""The contents of the generated files as plain values, independent of the packages that compute them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import Literal

from edgetool import errors
from edgetool.figure import Figure
from edgetool.memory.lifetimes import RecurrentState
from edgetool.model.types import DType

# How the model is included: as an array in C, or by the assembler.
Data = Literal["array", "incbin"]

ARENA_ALIGNMENT = 16  # TFLM's MicroArenaBufferAlignment()

# The types whose inputs and outputs get quantize and dequantize helpers, with their limits.
QUANTIZED_LIMITS = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.UINT16: (0, 65535),
}


@dataclass(frozen=True, slots=True)
class HeaderTarget:
    """The device that the header names.

    Attributes:
        name: The target as the user chose it: "cortex-m7" or "nucleo-h743zi".
        core: The name of the core.
        kernels: The kernel library: "reference" or "cmsis-nn".
        board: The name of the board; None for a bare core.
        runtime: The profile of the TFLM version; None if it does not matter.
        region: The memory region that holds the arena.
        sram_bytes: The size of that region; None if unknown, in which case only the user's own limit is checked.
        flash_bytes: The memory available for the model; None if unknown.
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
    """A tensor in the arena, or in a shared buffer.

    Attributes:
        index: The tensor's index in its subgraph.
        subgraph: The index of the subgraph.
        name: The name in the model, any text.
        offset: Bytes from the arena's aligned start; None if TFLM plans the tensor at run time.
        size_bytes: The size of its data.
        first_op: The position of the first operator for which its contents are valid.
        last_op: The position of the last operator for which its contents are valid.
        buffer: The number of its shared buffer; None in an arena.
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
    """An input or output of the model.

    Attributes:
        index: The index of its tensor.
        name: The tensor's name, any text.
        shape: The extent of each dimension.
        dtype: The type of its elements.
        scale: The scale of the tensor in real = scale * (quantized - zero_point); None if it is not quantized.
        zero_point: The zero point of the tensor; None if it is not quantized.
        offset: As in TensorSpec.
        argument: Its name in the model's signature.
        buffer: As in TensorSpec.

    Raises:
        InvalidModelError: The scale or zero point is not valid for the type.
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
        """Return the product of the shape; 1 for a scalar."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its elements; 0 for types without a width."""
        return (self.element_count * self.dtype.bits + 7) // 8

    @property
    def _where(self) -> str:
        return f"tensor {self.index} ({self.name!r})"


@dataclass(frozen=True, slots=True)
class BuffersSpec:
    """Whole buffers that tensors share.

    Attributes:
        sizes: The size of each buffer in bytes, by number.
        baseline_bytes: The size of all tensors without sharing.
        lower_bound_bytes: A lower bound on the total size for any assignment of tensors to buffers.

    Raises:
        UnsupportedModelError: A buffer is too large for a 32-bit device.
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
        """Return the bytes of all buffers."""
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class PlacedSpec:
    """A part of the model in a memory of its own: an arena, or the data of the model.

    Attributes:
        part: "head", "tail", "model" ("models" of a shared arena), or "model copy" if the firmware copies the model to
            RAM at its start; for native code, "arena" for each part of the arena, and "constants".
        memory: The name of the memory, any text.
        memory_bytes: Its size.
        size_bytes: The bytes of the part.
        base_address: Where the memory begins; None if unknown.
        is_default: Whether linker scripts put the part there anyway, as they do with a model in on-chip flash.
    """

    part: str
    memory: str
    memory_bytes: int
    size_bytes: int
    base_address: int | None = None
    is_default: bool = False

    def __post_init__(self) -> None:
        for field in ("memory_bytes", "size_bytes", "base_address"):
            _not_negative(getattr(self, field), field)

    @property
    def word(self) -> str:
        """Its name in identifiers: "model_copy"."""
        return self.part.replace(" ", "_")


@dataclass(frozen=True, slots=True)
class PlacedCode:
    """The operators' code in a memory of its own.

    Attributes:
        memory: The name of the memory.
        memory_bytes: Its size.
        base_address: Its address; None if unknown.
        files: Patterns of the linker for the object files with the code.
        is_copied: Whether the code is in flash, too, from where the start-up code copies it.
    """

    memory: str
    memory_bytes: int
    base_address: int | None
    files: tuple[str, ...]
    is_copied: bool


@dataclass(frozen=True, slots=True)
class HeaderSpec:
    """The contents of NAME.h.

    Attributes:
        name: The model's name, any text.
        tool_version: The version of edgetool.
        model_sha256: The SHA-256 of the .tflite that belongs to the header (the bytes in NAME_model.c).
        model_bytes: The size of that .tflite.
        target: The device that the sizes are valid for.
        arena_bytes: The arena's size, or a lower bound on it; None if unknown.
        arena_is_lower_bound: Whether the exact size is unknown.
        layout_bytes: The peak of the layout of tensors and scratch buffers.
        lower_bound_bytes: A lower bound on that peak for any layout in this operator order.
        tensors: Every tensor in the arena, of all subgraphs.
        inputs: The inputs in the model's order.
        outputs: The outputs in the model's order.
        uncalibrated: Whether the model was quantized without the user's data.
        notes: Further sentences for the comment at the top.
        buffers: The shared buffers that replace the arena; then each tensor has one.
        state: The state that is kept between invocations; empty or None if there is none.
        code: The flash of the code that the firmware links besides the model; None if unknown.
        places: Head, tail and model in memories of their own, instead of an arena; or nothing.
        placed_code: The memory of the operators' code; None for that of the other code.
    """

    name: str
    tool_version: str
    model_sha256: str
    model_bytes: int
    target: HeaderTarget
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
    code: Figure | None = None
    places: tuple[PlacedSpec, ...] = ()
    placed_code: PlacedCode | None = None

    def __post_init__(self) -> None:
        if len(self.model_sha256) != 64 or not set(self.model_sha256) <= set("0123456789abcdef"):
            raise ValueError(f"{self.model_sha256!r} is not a SHA-256 in hex")
        for field in ("model_bytes", "arena_bytes", "layout_bytes", "lower_bound_bytes"):
            _not_negative(getattr(self, field), field)
        if self.arena_bytes is None and not self.arena_is_lower_bound:
            raise ValueError("without arena_bytes the arena is only a lower bound")
        if self.places and (self.buffers is not None or self.arena_is_lower_bound):
            raise ValueError("only an arena whose exact size is known can be divided into head and tail")
        if len({(tensor.subgraph, tensor.index) for tensor in self.tensors}) != len(self.tensors):
            raise ValueError("a tensor is listed twice")
        for tensor in self.tensors:
            sizes = self.buffers.sizes if self.buffers is not None else ()
            exists = tensor.buffer is not None and tensor.buffer < len(sizes)
            if tensor.buffer is not None and (not exists or tensor.size_bytes > sizes[tensor.buffer]):
                raise ValueError(f"tensor {tensor.index} is in a buffer that is too small for it")
            if self.buffers is not None and tensor.buffer is None:
                raise ValueError(f"tensor {tensor.index} is not in any buffer")

    @property
    def exact_arena_bytes(self) -> int | None:
        """Return the arena's size; None if only a lower bound is known."""
        return None if self.arena_is_lower_bound else self.arena_bytes

    @property
    def arena_lower_bound_bytes(self) -> int:
        """Return the highest known lower bound on the arena's size, rounded up to its alignment."""
        known = max(self.arena_bytes or 0, self.layout_bytes)
        return -(-known // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Registration:
    """An operator in the op resolver.

    Attributes:
        operator: Its name: "CONV_2D", or a custom code.
        method: The method of MicroMutableOpResolver that adds it; None for a custom operator whose TFLMRegistration
            the user's code defines.
        function: The function in the namespace tflite whose registration the method adds; None for its default.
        header: The header that declares the function; "" if there is none.
    """

    operator: str
    method: str | None
    function: str | None = None
    header: str = ""


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The contents of NAME_ops.h, NAME_runner.h, NAME_runner.cc, main.cc and NAME_profile.cc.

    Attributes:
        header: The contents of NAME.h: name, inputs, outputs and arena.
        registrations: Each operator once, in the order of first use.
        runtime: The profile of the TFLM version whose op resolver has the methods.
        commit: The commit of that TFLM version.
        resource_variables: The number of different resource variables in the model.
        events: The number of operators that one inference runs, including those of called subgraphs; None if it
            depends on the data.
        clock_hz: The clock of the core; None if unknown.
        shared_arena: The C name of the arena shared with other models; None if the model has its own arena.
    """

    header: HeaderSpec
    registrations: tuple[Registration, ...]
    runtime: str
    commit: str
    resource_variables: int = 0
    events: int | None = None
    clock_hz: int | None = None
    shared_arena: str | None = None


@dataclass(frozen=True, slots=True)
class SharedArenaSpec:
    """An arena for several models.

    Attributes:
        name: The C name of the arena's files.
        tool_version: The version of edgetool.
        programs: The models, in the order in which they are initialised.
        arena_bytes: As in HeaderSpec.
        arena_is_lower_bound: As in HeaderSpec.
        head_bytes: The size of the largest head.
        tail_bytes: The size of the tails of all models together.
        places: Head, tail and models in memories of their own, instead of an arena; or nothing.
    """

    name: str
    tool_version: str
    programs: tuple[ProgramSpec, ...]
    arena_bytes: int | None
    arena_is_lower_bound: bool
    head_bytes: int
    tail_bytes: int
    places: tuple[PlacedSpec, ...] = ()

    def __post_init__(self) -> None:
        if not self.programs:
            raise ValueError("an arena without a model")
        if self.arena_bytes is None and not self.arena_is_lower_bound:
            raise ValueError("without arena_bytes the arena is only a lower bound")

    @property
    def exact_arena_bytes(self) -> int | None:
        """Return the arena's size; None if only a lower bound is known."""
        return None if self.arena_is_lower_bound else self.arena_bytes

    @property
    def arena_lower_bound_bytes(self) -> int:
        """Return the highest known lower bound on the arena's size, rounded up to its alignment."""
        known = max(self.arena_bytes or 0, self.head_bytes + self.tail_bytes)
        return -(-known // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def float32(value: float) -> float:
    """Return the nearest float32, which is infinite if the value is out of range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_REQUANTIZE = "quantize the model again"


def _not_negative(value: int | None, field: str) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{field} is {value}")
