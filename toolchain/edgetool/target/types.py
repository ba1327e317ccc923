"""Descriptions of devices as plain immutable values, with sizes in bytes and clocks in hertz.

The sizes of C structs are computed from field types, as a compiler lays them out, so that one description serves every
processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgetool.model.types import DType

if TYPE_CHECKING:
    from edgetool.target.signatures import KernelTypes, TypeSignature

# Fields of the same size everywhere; "pointer" (also size_t), "enum" and the alignment of "i64" depend on the ABI.
SCALARS: dict[str, int] = {"i8": 1, "bool": 1, "i16": 2, "i32": 4, "f32": 4}


@dataclass(frozen=True, slots=True)
class Abi:
    """A processor's C ABI.

    measured: the kernel sets whose arenas were measured on it; the arenas of others are derived from the ABI alone.
    replaced: structs that a build for it uses instead of others, as pairs of names.
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
    """The values of sizeof and alignof for a struct."""

    size_bytes: int
    alignment: int


def struct_size(fields: str, abi: Abi, structs: Mapping[str, StructSize]) -> StructSize:
    """Return the size of a struct with these fields in order, such as "i32 pointer TfLitePaddingValues i8*6".

    A field is a scalar, "pointer", "enum", "i64" or a struct of `structs`, with "*n" for an array. Members are at
    multiples of their alignment, and the whole is padded to the largest (the rule of every ABI here, in System V
    and AAPCS alike). A struct without fields has size 0. Raises KeyError for a field of unknown type.
    """
    offset, alignment = 0, 1
    for field in fields.split():
        kind, _, count = field.partition("*")
        member = _member_size(kind, abi, structs)
        offset = _align(offset, member.alignment) + member.size_bytes * int(count or 1)
        alignment = max(alignment, member.alignment)
    return StructSize(_align(offset, alignment), alignment)


def _member_size(kind: str, abi: Abi, structs: Mapping[str, StructSize]) -> StructSize:
    if kind in SCALARS:
        return StructSize(SCALARS[kind], SCALARS[kind])
    if kind == "pointer":
        return StructSize(abi.pointer_bytes, abi.pointer_bytes)
    if kind == "enum":
        return StructSize(abi.enum_bytes, abi.enum_bytes)
    if kind == "i64":
        return StructSize(8, abi.i64_alignment)
    return structs[kind]


def _align(size_bytes: int, alignment: int) -> int:
    return -(-size_bytes // alignment) * alignment


RegionKind = Literal["sram", "itcm", "flash", "external-ram", "external-flash"]
Fpu = Literal["none", "sp", "dp"]
Kernels = Literal["cmsis-nn", "esp-nn", "reference"]
EspNNVariant = Literal["ansi", "generic", "esp32s3", "esp32p4"]
TimedKernels = Literal["cmsis-nn", "esp-nn", "reference", "native"]  # those of TFLM, and those of native code
Precision = Literal["int8", "int16", "float32"]
LimitQuantity = Literal["inputs", "dimensions"]
TimingStatus = Literal["calibrated", "extrapolated", "unvalidated"]

# The kinds of region for an arena: "sram" (which includes DTCM) by default, external RAM only if the user names it.
ARENA_KINDS: tuple[RegionKind, ...] = ("sram", "external-ram")


@dataclass(frozen=True, slots=True)
class EspNN:
    """A build of ESP-NN: its version, and the kernels that it selects for the chip, or "ansi" for plain C on any.

    filter_channels: whether TFLM's kernels pass the channels of a filter, which ESP-NN compares with those of the input
    to recognize a grouped convolution; otherwise they pass 0.
    """

    version: tuple[int, int, int]
    variant: EspNNVariant
    filter_channels: bool = True


@dataclass(frozen=True, slots=True)
class EspNNLibrary:
    """A version of ESP-NN, and the kernels of Espressif's TFLM that call it.

    faults: the names of the faults of both. op_data: the struct that a kernel allocates in Init, as a field list by
    operator, if it differs from the reference kernel's. filter_channels: see EspNN.
    """

    version: tuple[int, int, int]
    commit: str
    date: str
    faults: tuple[str, ...] = ()
    op_data: tuple[tuple[str, str], ...] = ()
    filter_channels: bool = True


@dataclass(frozen=True, slots=True)
class FigureSource:
    """The source of figures: the keys or region names that it covers, and the public document.

    verified: False for figures recalled without a document at hand, or from a document that could not be read.
    """

    covers: tuple[str, ...]
    document: str
    verified: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """One contiguous range of addresses; adjacent banks that form one range are one region.

    An access of access_bytes takes 1 + wait_states cycles at the board's clock; both are None if unknown. cache_bytes:
    the data cache in front of the region. stall_cycles_per_byte: the cycles that reading a byte that is in no cache
    costs beyond its instructions; None if that is unknown. write_stall_cycles_per_byte: the same for writing a byte,
    which includes fetching the rest of its cache line; None means the cycles of reading. cold_cycles: the maximum
    additional cycles measured for an operator whose code is not in any cache; None means the core's value.
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
    write_stall_cycles_per_byte: float | None = None
    cold_cycles: int | None = None

    @property
    def bytes_per_cycle(self) -> float | None:
        """The bandwidth of sequential reads without a cache, in bytes per cycle; None if it is unknown."""
        if self.wait_states is None or self.access_bytes is None:
            return None
        return self.access_bytes / (1 + self.wait_states)


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast a core runs a set of kernels: cycles = cpi * instructions + stalls of memory.

    low and high are the factors of the error band on a whole model's time; operator_low and operator_high are those on
    a single operator's. basis describes in words what they were calibrated on. stall_cycles_per_byte: the cycles that
    a byte of constants costs these kernels beyond its instructions; None means those of the constants' region.
    includes_flash: whether it was measured on this board with the constants where they are, but with another memory of
    the arena.
    """

    kernels: TimedKernels
    cpi: float
    low: float
    high: float
    operator_low: float
    operator_high: float
    status: TimingStatus
    basis: str
    types: tuple[Precision, ...] = ()
    stall_cycles_per_byte: float | None = None
    includes_flash: bool = False


@dataclass(frozen=True, slots=True)
class Power:
    """The power of the whole board during inference in milliwatts, and the range that was measured."""

    active_mw: float
    low_mw: float
    high_mw: float
    basis: str


@dataclass(frozen=True, slots=True)
class RuntimeFactor:
    """The time of another runtime, as a factor by which TFLM's with the core's default kernels is multiplied.

    It is derived from `rows` published rows.
    """

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

    abi: the name of the ABI, one of the runtime's. default_clock_hz: a clock documented by clock_source, which an
    estimate for the bare core uses. usual_kernels: the kernels most often used on it, if they are neither of the two
    known sets.

    instructions: the core whose instruction tables apply to it; None if no table does. bus_bytes: the maximum bytes per
    cycle between core and memory. cpi_limits: the possible cycles per instruction; the minimum follows from how many
    instructions the core issues at once, the maximum from the slowest possible memory. float_factor: the cycles of an
    instruction of a float32 operator, relative to the timing's cycles per instruction. float_band: how much that
    differs between models, as factors by which their time is multiplied. cold_cycles: the maximum additional cycles
    measured for an operator whose code is not in any cache. data_cache_line_bytes: the lines of the data cache in front
    of RAM, which other bus masters do not see; 0 if there is none.
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
    data_cache_line_bytes: int = 0
    timings: tuple[Timing, ...] = ()
    usual_kernels: str | None = None
    esp_nn_variant: EspNNVariant | None = None
    sources: tuple[FigureSource, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorLimit:
    """The maximum number of inputs, or of dimensions of a tensor, of the runtime's kernel of an operator."""

    operator: str
    quantity: LimitQuantity
    maximum: int


@dataclass(frozen=True, slots=True)
class RankLimit:
    """The maximum number of dimensions of a kernel whose Prepare does not check it: beyond it, Invoke fails or its
    result is undefined.

    kernels: the set that contains the kernel, None for every set; dtype: the first input's type, None for any.
    """

    operator: str
    maximum: int
    kernels: Kernels | None = None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class KernelRegistration:
    """A function of TFLM that registers the kernel of an operator for fewer types than the resolver's default.

    kernels: the set that has such a kernel; in other sets, the function registers the default one, too. types: what the
    kernel supports. function, header: its name in the namespace tflite, and the header that declares it.
    """

    operator: str
    kernels: Kernels
    types: TypeSignature
    function: str
    header: str

    def serves(self, inputs: Sequence[DType | None], outputs: Sequence[DType | None]) -> bool:
        """Return whether the kernel runs an operator with these types, None for an omitted operand.

        An operator that omits one of the operands in `types` may take another path through the kernel.
        """
        listed = (*inputs[: len(self.types.inputs)], *outputs[: len(self.types.outputs)])
        complete = len(listed) == len(self.types.inputs) + len(self.types.outputs) and None not in listed
        return complete and self.types.accepts(inputs, outputs)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A version of TensorFlow Lite Micro and of its kernel library, or the code that edgetool generates.

    reference: for generated code, the version whose reference kernels define its outputs, and whose tables it has;
    "" for a version of TFLM.

    resolver: pairs of a built-in operator and the MicroMutableOpResolver method that registers it;
    custom_resolver: the same for the custom operators that TFLM itself includes. registrations: what such a method can
    register instead of its default. kernel_types: the types that their kernels support; unknown for an operator without
    an entry. faults: the names of the faults that its kernels have (operators/entry.py); faults that it does not name
    are fixed, or do not exist yet. esp_nn: what Espressif's build of TFLM links;
    None in other builds.

    Structs are field lists for edgetool.target.types.struct_size, "" if there is none. structs: by name, each made of
    earlier ones; options: by operator, the struct that its options are parsed into; op_data: by operator, the struct
    that its reference kernel allocates in Init; cmsis_nn_op_data: the same for operators whose CMSIS-NN kernel
    allocates another one.

    linked_by: the packages that link this version, each with its own version.

    newest: for an earlier snapshot, the profile that it is described by, less the changes that came later; "" for that
    profile itself. missing: the names of these changes (target/history.py).
    """

    name: str
    description: str
    tflm_commit: str
    tflm_date: str
    cmsis_nn_commit: str
    resolver: tuple[tuple[str, str], ...]
    custom_resolver: tuple[tuple[str, str], ...] = ()
    registrations: tuple[KernelRegistration, ...] = ()
    limits: tuple[OperatorLimit, ...] = ()
    rank_limits: tuple[RankLimit, ...] = ()
    kernel_types: tuple[KernelTypes, ...] = ()
    faults: tuple[str, ...] = ()
    abis: tuple[Abi, ...] = ()
    structs: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    op_data: tuple[tuple[str, str], ...] = ()
    cmsis_nn_op_data: tuple[tuple[str, str], ...] = ()
    sources: tuple[FigureSource, ...] = ()
    reference: str = ""
    cmsis_nn_date: str = ""
    linked_by: tuple[str, ...] = ()
    newest: str = ""
    missing: tuple[str, ...] = ()
    esp_nn: EspNNLibrary | None = None

    def __hash__(self) -> int:
        """Return a hash of the keys that distinguish runtimes: hashing every table would take milliseconds."""
        return hash((self.name, self.tflm_commit))

    @property
    def is_native(self) -> bool:
        """Whether the runtime is the code that edgetool generates, instead of TFLM."""
        return bool(self.reference)

    @property
    def operators(self) -> tuple[str, ...]:
        """The built-in operators that stock TFLM registers, by their names in the schema."""
        return tuple(code for code, _ in self.resolver)

    @property
    def custom_operators(self) -> tuple[str, ...]:
        """The custom operators that TFLM itself includes."""
        return tuple(name for name, _ in self.custom_resolver)

    def resolver_method(self, code: str, custom_code: str | None = None) -> str | None:
        """Return the method that registers the operator ("AddConv2D"); None if TFLM does not support it."""
        if code == "CUSTOM":
            return dict(self.custom_resolver).get(custom_code or "")
        return dict(self.resolver).get(code)

    def registration(
        self,
        code: str,
        kernels: Kernels,
        operands: Iterable[tuple[Sequence[DType | None], Sequence[DType | None]]],
    ) -> KernelRegistration | None:
        """Return a registration that serves all operators of this kind in a model; None if there is none.

        operands: the types of each operator's inputs and of its outputs.
        """
        types = tuple(operands)
        for item in self.registrations:
            if (item.operator, item.kernels) == (code, kernels) and all(item.serves(*each) for each in types):
                return item
        return None

    def abi(self, name: str) -> Abi:
        """Return the ABI with that name. Raises KeyError if the runtime does not describe it."""
        return {abi.name: abi for abi in self.abis}[name]

    def op_data_of(self, kernels: Kernels) -> tuple[tuple[str, str], ...]:
        """Return what kernels of this set allocate in Init, as a field list by operator or custom code."""
        overrides = {
            "cmsis-nn": self.cmsis_nn_op_data,
            "esp-nn": () if self.esp_nn is None else self.esp_nn.op_data,
            "reference": (),
        }[kernels]
        return tuple({**dict(self.op_data), **dict(overrides)}.items())

    def limit(self, code: str, quantity: LimitQuantity) -> int | None:
        """Return the maximum number of inputs or dimensions that the kernel accepts; None if no limit is known."""
        for item in self.limits:
            if (item.operator, item.quantity) == (code, quantity):
                return item.maximum
        return None

    def kernel_types_of(self, code: str) -> KernelTypes | None:
        """Return the types that the kernel of a built-in operator supports; None if unknown."""
        return next((item for item in self.kernel_types if item.operator == code), None)

    def rank_limit(self, code: str, kernels: Kernels, dtype: DType | None) -> RankLimit | None:
        """Return the limit of an operator's kernel in this set for a first input of this type; None if unknown."""
        for item in self.rank_limits:
            if item.operator == code and item.kernels in (None, kernels) and item.dtype in (None, dtype):
                return item
        return None


@dataclass(frozen=True, slots=True)
class RuntimeTree:
    """The folder with the user's TFLM, whose nearest runtime is the target's.

    differs: in what it differs from that runtime, a clause each. notes: what else was recognized or is unknown.
    """

    name: str
    differs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Optimization = Literal["O2", "Os"]
CLibrary = Literal["newlib", "newlib-nano"]


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """What determines the size of a firmware's code besides TFLM's version, its kernels and the core.

    optimization: of the kernels; None for that of TFLM's Makefile. c_library: None for newlib. libraries: the paths of
    static libraries with the user's TFLM, in which the code is counted.
    """

    optimization: Optimization | None = None
    c_library: CLibrary | None = None
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The device for a model: a board with its memories, or a bare core without limits.

    arena_region_name: the region of the arena; None means the largest of kind "sram". model_region_name: the region
    from which TFLM reads the model; None means flash. usual_kernels: the kernels most often used on it, if they are not
    those of `kernels`. esp_nn_variant: the kernels that ESP-NN selects for the
    chip; None if it does not run there.

    timings: the board's own timings, if it was measured; otherwise the core's apply. bandwidth_gbps: the memory
    bandwidth of a device that is described by nothing else; such a device has no memory regions and no timing. power is
    None if it is unknown. vendor: the manufacturer of the board. scratch_budget_bytes: how much larger scratch for
    faster kernels may make the arena of native code; None leaves the choice to edgetool. row_input,
    row_output: whether the application hands the inputs of native code over row by row, and takes its outputs so, so
    that they need not be in the arena. max_extra_macs: how many multiply-accumulates native code may compute again to
    take less memory, in percent of those of the model. max_weights_per_row_bytes: the most bytes of constants that
    operators of native code may read for each row if they take turns; None leaves the choice to edgetool. incremental:
    how many rows of its input are new in each inference of native code that computes only what these change, None if
    each inference computes the whole window. runtime_tree: the folder with the user's TFLM, if there is one.
    code_options: how the firmware is built, as far as the user stated it.
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
    esp_nn_variant: EspNNVariant | None = None
    timings: tuple[Timing, ...] = ()
    power: Power | None = None
    bandwidth_gbps: float | None = None
    vendor: str | None = None
    factors: tuple[RuntimeFactor, ...] = ()
    sources: tuple[FigureSource, ...] = ()
    scratch_budget_bytes: int | None = None
    row_input: bool = False
    row_output: bool = False
    max_extra_macs: float | None = None
    max_weights_per_row_bytes: int | None = None
    incremental: int | None = None
    runtime_tree: RuntimeTree | None = None
    code_options: CodeOptions | None = None
    model_region_name: str | None = None

    @property
    def most_weights_per_row(self) -> int | None:
        """The bytes of constants that native code may read for each row; None for any number.

        By default, it is the cache in front of the constants if they are in external flash.
        """
        region = self.flash_region
        is_external = region is not None and region.kind == "external-flash"
        cache = region.cache_bytes if region is not None and is_external else 0
        return self.max_weights_per_row_bytes if self.max_weights_per_row_bytes is not None else cache or None

    @property
    def timed_kernels(self) -> TimedKernels:
        """The kernels whose timing applies: those of native code if the runtime is native, or else the chosen ones."""
        return "native" if self.runtime.is_native else self.kernels

    @property
    def timing(self) -> Timing | None:
        """The timing of the target's kernels: the board's own, or else the core's; None if there is neither.

        Native code that was not measured has that of the core's usual kernels: it uses the same instructions. ESP-NN
        has that of the reference kernels, to which esp_nn_factor refers.
        """
        if self.bandwidth_gbps is not None:
            return None
        timing = self._timing_of(self.timed_kernels)
        if timing is None and self.runtime.is_native:
            return self._timing_of(self.core.default_kernels)
        return self._timing_of("reference") if timing is None and self.esp_nn_factor is not None else timing

    @property
    def esp_nn_factor(self) -> RuntimeFactor | None:
        """The published time of ESP-NN's kernels relative to the reference kernels, whose timing then applies.

        None for other kernels, and if ESP-NN was timed itself.
        """
        if self.kernels != "esp-nn" or self.runtime.is_native or self._timing_of("esp-nn") is not None:
            return None
        return next((item for item in self.factors if item.runtime == "ESP-NN"), None)

    def _timing_of(self, kernels: TimedKernels) -> Timing | None:
        timings = {timing.kernels: timing for timing in (*self.core.timings, *self.timings)}
        return timings.get(kernels)

    @property
    def is_calibrated(self) -> bool:
        """Whether the timing was measured on this board, so that it includes the costs of its memories."""
        return self.timing is not None and self.timing.status == "calibrated"

    @property
    def arena_region(self) -> MemoryRegion | None:
        """The one contiguous region that must contain the arena; None if no memory is known."""
        if self.arena_region_name is not None:
            return next((r for r in self.regions if r.name == self.arena_region_name), None)
        return _largest(self.regions, "sram")

    @property
    def flash_region(self) -> MemoryRegion | None:
        """The region from which TFLM reads the model: by default that of the code."""
        if self.model_region_name is not None:
            return next((r for r in self.regions if r.name == self.model_region_name), None)
        return self.code_region

    @property
    def code_region(self) -> MemoryRegion | None:
        """The region of the code: the largest on-chip flash, or else the largest external one."""
        return _largest(self.regions, "flash") or _largest(self.regions, "external-flash")

    @property
    def sram_bytes(self) -> int | None:
        """The size of the arena's region; None if no memory is known."""
        region = self.arena_region
        return region.size_bytes if region is not None else None

    @property
    def flash_bytes(self) -> int | None:
        """The size of the model's region; None if no memory is known."""
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
        scratch_budget_bytes: int | None = None,
        row_input: bool | None = None,
        row_output: bool | None = None,
        max_extra_macs: float | None = None,
        max_weights_per_row_bytes: int | None = None,
        incremental: int | None = None,
    ) -> Target:
        """Return this target with the user's values; None keeps a value.

        sram_bytes and flash_bytes replace the size of the arena's and the model's region, or add one to
        a bare core; runtime is the name of a packaged runtime. Generated code has its own kernels, which equal the
        reference kernels. Raises TargetError for an unknown name or an impossible value.
        """

        from edgetool.target.load import override_target

        return override_target(
            self,
            sram_bytes=sram_bytes,
            flash_bytes=flash_bytes,
            clock_hz=clock_hz,
            arena_region=arena_region,
            kernels=kernels,
            runtime=runtime,
            scratch_budget_bytes=scratch_budget_bytes,
            row_input=row_input,
            row_output=row_output,
            max_extra_macs=max_extra_macs,
            max_weights_per_row_bytes=max_weights_per_row_bytes,
            incremental=incremental,
        )


def _largest(regions: tuple[MemoryRegion, ...], kind: RegionKind) -> MemoryRegion | None:
    return max((r for r in regions if r.kind == kind), key=lambda r: r.size_bytes, default=None)
