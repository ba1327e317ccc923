"""What a device is, as plain immutable values. Sizes are bytes, clocks are hertz.

How a C compiler lays out structs: sizes from field types, so that one description serves every processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgetool.model.types import DType
from edgetool.target.signatures import KernelTypes

# Fields whose size is the same everywhere; "pointer" (also size_t) and "enum" are the ABI's, "i64" its alignment too.
SCALARS: dict[str, int] = {"i8": 1, "bool": 1, "i16": 2, "i32": 4, "f32": 4}


@dataclass(frozen=True, slots=True)
class Abi:
    """A processor's C ABI, and the kernel sets whose arenas were measured on it; others are derived from it alone.

    replaced: structs that a build for it uses in the place of others, as pairs of names.
    """

    name: str
    pointer_bytes: int
    enum_bytes: int
    i64_alignment: int
    measured: tuple[str, ...] = ()
    note: str = ""
    replaced: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StructSize:
    """What sizeof and alignof give."""

    size_bytes: int
    alignment: int


def struct_size(fields: str, abi: Abi, known: Mapping[str, StructSize]) -> StructSize:
    """The size of a struct of these fields in order, as "i32 pointer TfLitePaddingValues i8*6".

    A field is a scalar, "pointer", "enum", "i64" or a struct of `known`, with "*n" for an array. Members lie at
    multiples of their alignment and the whole is padded to the largest (the rule of every ABI here; System V
    and AAPCS alike). No fields: size 0. Raises KeyError for a field of unknown type.
    """
    offset, alignment = 0, 1
    for field in fields.split():
        kind, _, count = field.partition("*")
        member = _member(kind, abi, known)
        offset = _aligned(offset, member.alignment) + member.size_bytes * int(count or 1)
        alignment = max(alignment, member.alignment)
    return StructSize(_aligned(offset, alignment), alignment)


def _member(kind: str, abi: Abi, known: Mapping[str, StructSize]) -> StructSize:
    if kind in SCALARS:
        return StructSize(SCALARS[kind], SCALARS[kind])
    if kind == "pointer":
        return StructSize(abi.pointer_bytes, abi.pointer_bytes)
    if kind == "enum":
        return StructSize(abi.enum_bytes, abi.enum_bytes)
    if kind == "i64":
        return StructSize(8, abi.i64_alignment)
    return known[kind]


def _aligned(size_bytes: int, alignment: int) -> int:
    return -(-size_bytes // alignment) * alignment


RegionKind = Literal["sram", "itcm", "flash", "external-ram", "external-flash"]
Fpu = Literal["none", "sp", "dp"]
Kernels = Literal["cmsis-nn", "reference"]
Precision = Literal["int8", "int16", "float32"]
LimitQuantity = Literal["inputs", "dimensions"]
TimingStatus = Literal["calibrated", "extrapolated", "unvalidated"]

# What an arena may lie in: "sram" unasked (DTCM is of that kind), external RAM only when it is named.
ARENA_KINDS: tuple[RegionKind, ...] = ("sram", "external-ram")


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures come from: the keys or region names it covers, and the public document.

    verified is False for what was taken from memory or from a document that could not be read.
    """

    covers: tuple[str, ...]
    document: str
    verified: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """One contiguous range of addresses; adjacent banks that form one range are one region.

    An access of access_bytes takes 1 + wait_states cycles at the board's clock; both None where nobody knows.
    cache_bytes: the data cache in front of it. stall_cycles_per_byte: measured cycles that a byte of constants read
    from here costs beyond its instructions; None where nothing was measured. cold_cycles: the most that an operator
    was seen to take besides, its code not being in any cache; None is as the core has it.
    """

    name: str
    kind: RegionKind
    size_bytes: int
    base_address: int | None = None
    note: str = ""
    wait_states: float | None = None
    access_bytes: int | None = None
    cache_bytes: int = 0
    stall_cycles_per_byte: float | None = None
    cold_cycles: int | None = None

    @property
    def bytes_per_cycle(self) -> float | None:
        """What reading it in order brings, without a cache; None where its speed is not known."""
        if self.wait_states is None or self.access_bytes is None:
            return None
        return self.access_bytes / (1 + self.wait_states)


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast a core runs a set of kernels: cycles = cpi * instructions + stalls of memory.

    low and high are the factors of the band on a whole model's time, operator_low and operator_high those on a single
    operator's. basis says in words what they were calibrated on.
    """

    kernels: Kernels
    cpi: float
    low: float
    high: float
    operator_low: float
    operator_high: float
    status: TimingStatus
    basis: str
    types: tuple[Precision, ...] = ()


@dataclass(frozen=True, slots=True)
class Power:
    """Power of the whole board while it infers, in milliwatts, and the range that was measured."""

    active_mw: float
    low_mw: float
    high_mw: float
    basis: str


@dataclass(frozen=True, slots=True)
class RuntimeFactor:
    """How long another runtime takes by `rows` published rows, as a factor on TFLM with the core's default kernels."""

    runtime: str
    core: str
    factor: float
    low: float
    high: float
    rows: int
    basis: str


@dataclass(frozen=True, slots=True)
class Core:
    """A processor core. dsp and mve are the SIMD extensions that select CMSIS-NN's kernels.

    abi names how its compilers lay out structs, one of the runtime's. default_clock_hz is a clock documented
    by clock_source: an estimate for the bare core uses it. usual_kernels names what people mostly run there,
    where that is neither of the two known sets.

    instructions names the core whose instruction tables hold for it; None where no table does. bus_bytes is what one
    cycle can move between core and memory. cpi_limits are the cycles per instruction that are possible: the least
    follows from how many instructions the core issues at once, the most from memory as slow as it gets. float_factor
    is how many cycles an instruction of a float32 operator takes, relative to the timing's cycles per instruction, and
    float_band by how much that differs between models, as factors on their time.
    cold_cycles: the most that an operator was seen to take besides, its code not being in any cache.
    """

    name: str
    isa: str
    abi: str
    dsp: bool
    mve: bool
    fpu: Fpu
    word_bits: int
    default_kernels: Kernels
    default_clock_hz: int
    clock_source: str
    bus_bytes: int
    cpi_limits: tuple[float, float]
    instructions: str | None = None
    float_factor: float = 1.0
    float_band: tuple[float, float] = (1.0, 1.0)
    cold_cycles: int = 0
    timings: tuple[Timing, ...] = ()
    usual_kernels: str | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorLimit:
    """The most inputs, or dimensions of a tensor, that the runtime's kernel of an operator takes."""

    operator: str
    quantity: LimitQuantity
    maximum: int


@dataclass(frozen=True, slots=True)
class RankLimit:
    """The most dimensions that a kernel takes without Prepare telling: Invoke fails or does nothing.

    kernels: the set whose kernel it is, None for every set; dtype: the first input's type, None for any.
    """

    operator: str
    maximum: int
    kernels: Kernels | None = None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """A version of TensorFlow Lite Micro and of its kernel library.

    resolver: pairs of built-in operator and the MicroMutableOpResolver method that registers it;
    custom_resolver: the same for the custom operators that TFLM itself brings. kernel_types: the types that their
    kernels support; unknown for an operator without an entry.

    Structs are field lists for edgetool.target.types.struct_size, "" where there is none. structs: by name, each
    made of earlier ones; options: by operator, what its options are parsed into; op_data: by operator, what
    its reference kernel allocates in Init, and cmsis_nn_op_data the same where CMSIS-NN's differs.
    """

    name: str
    description: str
    tflm_commit: str
    tflm_date: str
    cmsis_nn_commit: str
    resolver: tuple[tuple[str, str], ...]
    custom_resolver: tuple[tuple[str, str], ...] = ()
    limits: tuple[OperatorLimit, ...] = ()
    rank_limits: tuple[RankLimit, ...] = ()
    kernel_types: tuple[KernelTypes, ...] = ()
    abis: tuple[Abi, ...] = ()
    structs: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    op_data: tuple[tuple[str, str], ...] = ()
    cmsis_nn_op_data: tuple[tuple[str, str], ...] = ()
    sources: tuple[Source, ...] = ()

    def __hash__(self) -> int:
        """Of what tells runtimes apart: hashing every table would take milliseconds."""
        return hash((self.name, self.tflm_commit))

    @property
    def operators(self) -> tuple[str, ...]:
        """The built-in operators that stock TFLM registers, by the schema's names."""
        return tuple(code for code, _ in self.resolver)

    @property
    def custom_operators(self) -> tuple[str, ...]:
        """The custom operators that TFLM itself brings."""
        return tuple(name for name, _ in self.custom_resolver)

    def resolver_method(self, code: str, custom_code: str | None = None) -> str | None:
        """The method that registers the operator ("AddConv2D"); None for one that TFLM lacks."""
        if code == "CUSTOM":
            return dict(self.custom_resolver).get(custom_code or "")
        return dict(self.resolver).get(code)

    def abi(self, name: str) -> Abi:
        """The ABI of that name. Raises KeyError for one that the runtime does not describe."""
        return {abi.name: abi for abi in self.abis}[name]

    def op_data_of(self, kernels: Kernels) -> tuple[tuple[str, str], ...]:
        """What kernels of this set allocate in Init, as a field list by operator or custom code."""
        own = self.cmsis_nn_op_data if kernels == "cmsis-nn" else ()
        return tuple({**dict(self.op_data), **dict(own)}.items())

    def limit(self, code: str, quantity: LimitQuantity) -> int | None:
        """The most inputs or dimensions that the operator's kernel takes; None where none is known."""
        for item in self.limits:
            if (item.operator, item.quantity) == (code, quantity):
                return item.maximum
        return None

    def kernel_types_of(self, code: str) -> KernelTypes | None:
        """Return the types that the kernel of a built-in operator supports; None if unknown."""
        return next((item for item in self.kernel_types if item.operator == code), None)

    def rank_limit(self, code: str, kernels: Kernels, dtype: DType | None) -> RankLimit | None:
        """That of an operator in these kernels whose first input is of this type; None where none is known."""
        for item in self.rank_limits:
            if item.operator == code and item.kernels in (None, kernels) and item.dtype in (None, dtype):
                return item
        return None


@dataclass(frozen=True, slots=True)
class Target:
    """What a model is meant to run on: a board with its memories, or a bare core without limits.

    arena_region_name picks the region for the arena; None is the largest of kind "sram". usual_kernels names
    what people mostly run there, where that is neither of the two known sets of kernels.

    timings are the board's own, where it was measured; the core's hold where it has none. bandwidth_gbps is the
    memory bandwidth that a device is described by which is nothing else: such a device has no memory regions, and no
    timing. power is None where nobody knows. vendor is who makes the board.
    """

    name: str
    core: Core
    board: str | None
    mcu: str | None
    clock_hz: int
    clock_source: str
    regions: tuple[MemoryRegion, ...]
    runtime: Runtime
    kernels: Kernels
    arena_region_name: str | None = None
    usual_kernels: str | None = None
    timings: tuple[Timing, ...] = ()
    power: Power | None = None
    bandwidth_gbps: float | None = None
    vendor: str | None = None
    factors: tuple[RuntimeFactor, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def timing(self) -> Timing | None:
        """The timing of the chosen kernels: the board's own, or else the core's; None where there is neither."""
        if self.bandwidth_gbps is not None:
            return None
        return next((t for t in (*self.timings, *self.core.timings) if t.kernels == self.kernels), None)

    @property
    def is_calibrated(self) -> bool:
        """Whether the timing was measured on this board as it is, so that it holds what its memories cost."""
        return self.timing is not None and self.timing.status == "calibrated"

    @property
    def arena_region(self) -> MemoryRegion | None:
        """The one contiguous region that the arena must fit; None where no memory is known."""
        if self.arena_region_name is not None:
            return next((r for r in self.regions if r.name == self.arena_region_name), None)
        return _largest(self.regions, "sram")

    @property
    def flash_region(self) -> MemoryRegion | None:
        """Where the model lies: the largest on-chip flash, or else the largest external one."""
        return _largest(self.regions, "flash") or _largest(self.regions, "external-flash")

    @property
    def sram_bytes(self) -> int | None:
        """The size of the arena's region; None where no memory is known."""
        region = self.arena_region
        return region.size_bytes if region is not None else None

    @property
    def flash_bytes(self) -> int | None:
        """The size of the model's region; None where no memory is known."""
        region = self.flash_region
        return region.size_bytes if region is not None else None

    @property
    def unverified(self) -> tuple[str, ...]:
        """The figures whose sources were not checked against a public document."""
        checked = {figure for source in self.sources if source.verified for figure in source.covers}
        named = dict.fromkeys(figure for source in self.sources for figure in source.covers)
        return tuple(figure for figure in named if figure not in checked)

    def with_overrides(
        self,
        *,
        sram_bytes: int | None = None,
        flash_bytes: int | None = None,
        clock_hz: int | None = None,
        arena_region: str | None = None,
        kernels: str | None = None,
        runtime: str | None = None,
    ) -> Target:
        """This target with what the user knows better; None leaves a value as it is.

        sram_bytes and flash_bytes replace the size of the arena's and the model's region, or add one to
        a bare core; runtime is the name of a packaged runtime. Raises TargetError for an unknown name or
        an impossible value.
        """
        from edgetool.target.load import overridden

        return overridden(
            self,
            sram_bytes=sram_bytes,
            flash_bytes=flash_bytes,
            clock_hz=clock_hz,
            arena_region=arena_region,
            kernels=kernels,
            runtime=runtime,
        )


def _largest(regions: tuple[MemoryRegion, ...], kind: RegionKind) -> MemoryRegion | None:
    return max((r for r in regions if r.kind == kind), key=lambda r: r.size_bytes, default=None)
