"""Reading of profiles: the keys of cores, boards and runtimes, and their possible values.

Profiles of runtimes contain C structs: their ABIs, and field lists that struct_size can compute. Profiles of boards
contain memory (regions, their speed, and the arena's region), and speed and power (timings of a kernel set, power, and
a device's bandwidth).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar, get_args

from edgetool.errors import TargetError, did_you_mean
from edgetool.target.quantity import format_clock, format_size, parse_clock, parse_size
from edgetool.target.signatures import DTYPES, TypeSignature, parse_signature, read_kernel_types
from edgetool.target.toml import Section
from edgetool.target.types import (
    ARENA_KINDS,
    SCALARS,
    Abi,
    Core,
    EspNNLibrary,
    EspNNVariant,
    FigureSource,
    Fpu,
    KernelRegistration,
    Kernels,
    LimitQuantity,
    MemoryRegion,
    OperatorLimit,
    Power,
    Precision,
    RankLimit,
    RegionKind,
    Runtime,
    Target,
    TimedKernels,
    Timing,
    TimingStatus,
)

KINDS = (*SCALARS, "i64", "enum", "pointer")
MAX_COUNT = 2**16  # maximum elements of an array in a struct

FieldLists = tuple[tuple[str, str], ...]

# Both become part of the emitted C++.
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-~][0-9A-Za-z.]+)?")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9_/]+\.h")


def read_structs(section: Section, name: str) -> FieldLists:
    """Return the table of structs, each of which may contain earlier ones; problems are noted in the section."""
    structs: dict[str, str] = {}
    for struct, fields in section.entries(name):
        if not struct.isidentifier() or struct in KINDS:
            section.note(f"{name}.{struct}", "is not a valid name of a struct")
        elif _check_fields(section, f"{name}.{struct}", fields, structs):
            structs[struct] = fields
    return tuple(structs.items())


def read_field_lists(section: Section, name: str, owners: Collection[str], structs: Collection[str]) -> FieldLists:
    """Return a table of field lists by operator, which may contain the structs; problems are noted in the section."""
    lists = []
    for owner, fields in section.entries(name):
        if owner not in owners:
            section.note(f"{name}.{owner}", "is not an operator of this runtime", did_you_mean(owner, owners))
        elif _check_fields(section, f"{name}.{owner}", fields, structs):
            lists.append((owner, fields))
    return tuple(lists)


def read_abis(section: Section, structs: Collection[str]) -> tuple[Abi, ...]:
    """Return the ABIs that the profile describes; problems are noted in the section."""
    abis: list[Abi] = []
    for item in section.sections("abi"):
        abi = Abi(
            name=item.name("name"),
            pointer_bytes=_read_one_of(item, "pointer_bytes", (4, 8)),
            enum_bytes=_read_one_of(item, "enum_bytes", (1, 4)),
            i64_alignment=_read_one_of(item, "i64_alignment", (4, 8)),
            measured=_read_kernel_sets(item),
            note=item.text("note", required=False),
            replaced=item.entries("replaced", required=False),
        )
        item.finish()
        for pair in abi.replaced:
            for struct in pair:
                if struct not in structs:
                    item.note(
                        f"replaced.{pair[0]}", f"there is no struct {struct[:80]!r}", did_you_mean(struct, structs)
                    )
        if abi.name in [other.name for other in abis]:
            item.note("name", f"there are two ABIs with the name {abi.name!r}")
        abis.append(abi)
    if not abis:
        section.note("abi", "is missing", "add an [[abi]] table")
    return tuple(abis)


def fields_problem(fields: str, structs: Collection[str]) -> str | None:
    """Return why struct_size could not compute these fields; None if it can."""
    for field in fields.split():
        kind, star, count = field.partition("*")
        if kind not in KINDS and kind not in structs:
            return f"{kind[:80]!r} is neither a scalar nor a previously defined struct"
        if star and not (count.isascii() and count.isdigit() and len(count) < 9 and 1 <= int(count) <= MAX_COUNT):
            return f"{field[:80]!r} must have a count from 1 to {MAX_COUNT}"
    return None


def _check_fields(section: Section, key: str, fields: str, structs: Collection[str]) -> bool:
    reason = fields_problem(fields, structs)
    if reason is None:
        return True
    near = next((field.partition("*")[0] for field in fields.split() if fields_problem(field, structs)), "")
    section.note(key, reason, did_you_mean(near, (*KINDS, *structs)))
    return False


def _read_one_of(section: Section, key: str, known: tuple[int, ...]) -> int:
    value = section.integer(key, known[0], known[-1])
    if value not in known:
        section.note(key, f"{value} is not one of {', '.join(map(str, known))}")
        return known[0]
    return value


def _read_kernel_sets(section: Section) -> tuple[str, ...]:
    known = get_args(Kernels)
    words = section.strings("measured") if section.has("measured") else ()
    for word in words:
        if word not in known:
            section.note("measured", f"{word[:80]!r} is not one of {', '.join(known)}", did_you_mean(word, known))
    return words


REGION_KINDS: tuple[RegionKind, ...] = get_args(RegionKind)
MODEL_KINDS: tuple[RegionKind, ...] = ("flash", "external-flash")
# A region below 1 KiB lacks its unit; no current microcontroller exceeds the upper bounds.
ON_CHIP_RANGE_BYTES = (2**10, 2**26)
EXTERNAL_RANGE_BYTES = (2**10, 2**32)
CACHE_RANGE_BYTES = (16, 2**24)
WAIT_STATES_RANGE = (0.0, 1000.0)
ACCESS_RANGE_BYTES = (1, 64)
COLD_RANGE = (0, 10**7)  # cycles
STALL_RANGE = (0.0, 1000.0)  # cycles per byte; QSPI in single-bit mode stays below


def read_regions(section: Section) -> tuple[MemoryRegion, ...]:
    """Return the [[region]] tables; problems are noted in the section.

    There must be RAM for an arena and flash for a model.
    """
    regions: list[MemoryRegion] = []
    for item in section.sections("region"):
        region = _read_region(item)
        item.finish()
        for other in regions:
            if region.name and region.name == other.name:
                item.note("name", f"there are two regions with the name {region.name!r}")
            elif _regions_overlap(region, other):
                item.note("base", f"the regions {other.name!r} and {region.name!r} overlap")
        regions.append(region)
    kinds = {region.kind for region in regions}
    if not kinds & set(ARENA_KINDS):
        section.note("region", "there is no RAM for an arena", 'add a [[region]] of kind "sram"')
    if not kinds & set(MODEL_KINDS):
        section.note("region", "there is no flash", 'add a [[region]] of kind "flash" or "external-flash"')
    return tuple(regions)


def reject_regions(section: Section) -> None:
    """Note regions of a device that is described by its bandwidth alone."""
    for key in ("region", "arena_region", "timing"):
        section.taken.add(key)
        if section.has(key):
            section.note(key, "cannot be used for a device that is described by its bandwidth", "remove one of the two")


def read_arena_region(section: Section, regions: tuple[MemoryRegion, ...]) -> str | None:
    """Return the profile's region for the arena, which is required for a board without on-chip RAM."""
    candidates = [region.name for region in regions if region.kind in ARENA_KINDS]
    if section.has("arena_region"):
        return section.choice("arena_region", candidates)
    if candidates and not any(region.kind == "sram" for region in regions):
        section.note("arena_region", "is missing: the only RAM is external", f"use one of {', '.join(candidates)}")
    section.taken.add("arena_region")
    return None


def region_figures(region: MemoryRegion) -> tuple[str, ...]:
    """Return the figures that a source can cover: the region itself (size and address), and each key of its speed."""
    speed = (
        ("wait_states", region.wait_states),
        ("access_bytes", region.access_bytes),
        ("cache", region.cache_bytes or None),
        ("stall_cycles_per_byte", region.stall_cycles_per_byte),
        ("write_stall_cycles_per_byte", region.write_stall_cycles_per_byte),
    )
    return (region.name, *(f"{region.name}.{key}" for key, value in speed if value is not None))


def _read_region(item: Section) -> MemoryRegion:
    word = item.choice("kind", REGION_KINDS)
    kind = next((known for known in REGION_KINDS if known == word), REGION_KINDS[0])
    limits = EXTERNAL_RANGE_BYTES if kind.startswith("external-") else ON_CHIP_RANGE_BYTES
    return MemoryRegion(
        name=item.name("name"),
        kind=kind,
        size_bytes=item.quantity("size", parse_size, format_size, *limits) or limits[0],
        base_address=item.address("base"),
        note=item.text("note", required=False),
        wait_states=item.number("wait_states", *WAIT_STATES_RANGE),
        access_bytes=item.integer("access_bytes", *ACCESS_RANGE_BYTES) if item.has("access_bytes") else None,
        cache_bytes=item.quantity("cache", parse_size, format_size, *CACHE_RANGE_BYTES, required=False) or 0,
        stall_cycles_per_byte=item.number("stall_cycles_per_byte", *STALL_RANGE),
        write_stall_cycles_per_byte=item.number("write_stall_cycles_per_byte", *STALL_RANGE),
        cold_cycles=item.integer("cold_cycles", *COLD_RANGE) if item.has("cold_cycles") else None,
    )


def _regions_overlap(a: MemoryRegion, b: MemoryRegion) -> bool:
    if a.base_address is None or b.base_address is None:
        return False
    return a.base_address < b.base_address + b.size_bytes and b.base_address < a.base_address + a.size_bytes


KERNELS: tuple[Kernels, ...] = get_args(Kernels)
TIMED_KERNELS: tuple[TimedKernels, ...] = get_args(TimedKernels)
ESP_NN_VARIANTS: tuple[EspNNVariant, ...] = get_args(EspNNVariant)
ESP_NN_VERSIONS = (1, 0, 0), (1, 2, 3)  # the first and the last version whose size functions operators/esp_nn.py has
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
STATUSES: tuple[TimingStatus, ...] = get_args(TimingStatus)

CPI_RANGE = (0.05, 100.0)  # no processor is outside of it when running code from any memory
BAND_RANGE = (0.05, 20.0)  # factors by which a time is multiplied
POWER_RANGE_MW = (0.001, 1e6)
BANDWIDTH_RANGE_GBPS = (1e-3, 1e5)


def read_timings(section: Section, cpi_limits: tuple[float, float]) -> tuple[Timing, ...]:
    """Return the [[timing]] tables: at most one per kernel set, with cycles per instruction that the core can reach."""
    timings: list[Timing] = []
    for item in section.sections("timing"):
        band, operator_band = read_band(item, "band"), read_band(item, "operator_band")
        kernels = item.choice("kernels", TIMED_KERNELS)
        timing = Timing(
            kernels=next((known for known in TIMED_KERNELS if known == kernels), TIMED_KERNELS[0]),
            cpi=item.required_number("cpi", *cpi_limits),
            low=band[0],
            high=band[1],
            operator_low=operator_band[0],
            operator_high=operator_band[1],
            status=_read_status(item),
            basis=item.text("basis"),
            types=_read_types(item),
            stall_cycles_per_byte=item.number("stall_cycles_per_byte", *STALL_RANGE),
        )
        item.finish()
        if kernels is not None and timing.kernels in [other.kernels for other in timings]:
            item.note("kernels", f"there are two timings for {timing.kernels}")
        timings.append(timing)
    return tuple(timings)


def read_band(section: Section, key: str) -> tuple[float, float]:
    """Return the factors of an error band, which must include the estimate itself."""
    low, high = section.pair(key, *BAND_RANGE)
    if not low <= 1 <= high:
        section.note(key, f"the range {low:g} to {high:g} does not contain 1, the estimate itself")
    return low, high


def read_power(section: Section) -> Power | None:
    """Return the [power] table; None if there is none."""
    item = section.optional("power")
    if item is None:
        return None
    low, high = item.pair("range_mw", *POWER_RANGE_MW)
    power = Power(item.required_number("active_mw", *POWER_RANGE_MW), low, high, item.text("basis"))
    item.finish()
    if not low <= power.active_mw <= high:
        item.note("active_mw", f"{power.active_mw:g} is outside range_mw, which is {low:g} to {high:g}")
    return power


def read_bandwidth(section: Section) -> float | None:
    """Return the memory bandwidth in GB/s of a device that is described by nothing else; None for any other."""
    item = section.optional("bandwidth")
    if item is None:
        return None
    bandwidth = item.required_number("gbps", *BANDWIDTH_RANGE_GBPS)
    item.finish()
    return bandwidth


def _read_types(section: Section) -> tuple[Precision, ...]:
    named = section.strings("types") if section.has("types") else ()
    for name in named:
        if name not in PRECISIONS:
            section.note("types", f"{name[:80]!r} is not one of {', '.join(PRECISIONS)}")
    return tuple(known for known in PRECISIONS if known in named)


def _read_status(section: Section) -> TimingStatus:
    word = section.choice("status", STATUSES)
    return next((known for known in STATUSES if known == word), "unvalidated")


T = TypeVar("T")
W = TypeVar("W", bound=str)

ISAS = (
    *("armv6-m", "armv7-m", "armv7e-m", "armv8-m.base", "armv8-m.main", "armv8.1-m.main", "armv8-a"),
    *("rv32imc", "xtensa-lx6", "xtensa-lx7", "rxv2", "x86-64"),
)
FPUS: tuple[Fpu, ...] = get_args(Fpu)
LIMIT_QUANTITIES: tuple[LimitQuantity, ...] = get_args(LimitQuantity)

CLOCK_RANGE_HZ = (100_000, 10**10)
SIZE_RANGE_BYTES = (1, 2**32)  # of a size on the command line
BUS_RANGE_BYTES = (1, 64)
CACHE_LINES_BYTES = (0, 16, 32, 64, 128)  # 0: no data cache in front of RAM
# Without a floating-point unit, floating-point arithmetic is done by library calls, whose instructions are counted.
FLOAT_FACTOR_RANGE = (0.2, 100.0)

CORE_FIGURES = ("isa", "abi", "dsp", "mve", "fpu", "word_bits", "default_clock")
BOARD_FIGURES = ("core", "fpu", "mcu", "clock", "power", "bandwidth")  # and the figures of every region

STRUCT_FIGURES = ("abi", "structs", "options", "op_data")
RUNTIME_FIGURES = (
    "tflm",
    "cmsis_nn",
    "esp_nn",
    "linked_by",
    "resolver",
    "custom_resolver",
    "registration",
    "limit",
    "rank_limit",
    "types",
    "scales",
    "faults",
    *STRUCT_FIGURES,
)


def read_core(section: Section) -> Core:
    """Return the core of a profile in targets/cores/; problems are noted in the section."""
    cpi_limits = section.pair("cpi_limits", *CPI_RANGE)
    core = Core(
        name=section.name("name"),
        isa=section.choice("isa", ISAS) or ISAS[0],
        abi=section.name("abi"),
        dsp=section.boolean("dsp"),
        mve=section.boolean("mve"),
        fpu=_read_choice(section, "fpu", FPUS),
        word_bits=section.integer("word_bits", 8, 64),
        default_kernels=_read_choice(section, "default_kernels", KERNELS),
        default_clock_hz=_read_clock(section, "default_clock"),
        clock_source=section.text("clock_source"),
        bus_bytes=section.integer("bus_bytes", *BUS_RANGE_BYTES),
        cpi_limits=cpi_limits,
        instructions=section.name("instructions", required=False) or None,
        float_factor=section.required_number("float_factor", *FLOAT_FACTOR_RANGE)
        if section.has("float_factor")
        else 1.0,
        float_band=read_band(section, "float_band") if section.has("float_band") else (1.0, 1.0),
        cold_cycles=section.integer("cold_cycles", *COLD_RANGE) if section.has("cold_cycles") else 0,
        data_cache_line_bytes=_read_cache_line(section) or 0,
        timings=read_timings(section, cpi_limits),
        usual_kernels=section.text("usual_kernels", required=False) or None,
        esp_nn_variant=_read_esp_nn_variant(section),
        sources=_read_sources(section, CORE_FIGURES),
    )
    section.finish()
    return core


def read_runtime(section: Section) -> Runtime:
    """Return the runtime of a profile in targets/runtimes/; problems are noted in the section."""
    tflm = section.section("tflm")
    cmsis_nn = section.section("cmsis_nn")
    op_data = section.section("op_data")
    resolver = section.names("resolver")
    custom_resolver = section.names("custom_resolver", required=False)
    operators = [name for name, _ in (*resolver, *custom_resolver)]
    structs = read_structs(section, "structs")
    structs_by_name = dict(structs)
    runtime = Runtime(
        name=section.name("name"),
        description=section.text("description"),
        tflm_commit=tflm.text("commit"),
        tflm_date=tflm.text("date"),
        cmsis_nn_commit=cmsis_nn.text("commit"),
        cmsis_nn_date=cmsis_nn.text("date"),
        resolver=resolver,
        custom_resolver=custom_resolver,
        registrations=read_registrations(section, [name for name, _ in resolver]),
        limits=tuple(_read_limit(item) for item in section.sections("limit")),
        rank_limits=tuple(_read_rank_limit(item) for item in section.sections("rank_limit")),
        kernel_types=read_kernel_types(section, operators),
        faults=section.strings("faults") if section.has("faults") else (),
        abis=read_abis(section, structs_by_name),
        structs=structs,
        options=read_field_lists(section, "options", operators, structs_by_name),
        op_data=read_field_lists(op_data, "reference", operators, structs_by_name),
        cmsis_nn_op_data=read_field_lists(op_data, "cmsis-nn", operators, structs_by_name),
        sources=_read_sources(section, RUNTIME_FIGURES),
        linked_by=section.strings("linked_by") if section.has("linked_by") else (),
        esp_nn=_read_esp_nn(section, operators, structs_by_name),
    )
    for part in (tflm, cmsis_nn, op_data, section):
        part.finish()
    return runtime


def _read_esp_nn(section: Section, operators: Collection[str], structs: Collection[str]) -> EspNNLibrary | None:
    """Return the [esp_nn] table; None if there is none."""
    item = section.optional("esp_nn")
    if item is None:
        return None
    library = EspNNLibrary(
        version=_read_esp_nn_version(item),
        commit=item.text("commit"),
        date=item.text("date"),
        faults=item.strings("faults") if item.has("faults") else (),
        op_data=read_field_lists(item, "op_data", operators, structs),
        filter_channels=item.boolean("filter_channels", default=True),
    )
    item.finish()
    return library


def _read_esp_nn_version(section: Section) -> tuple[int, int, int]:
    """Return a version of ESP-NN whose scratch sizes are known; problems are noted in the section."""
    text = section.text("version")
    match = _VERSION.fullmatch(text)
    version = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    low, high = ESP_NN_VERSIONS
    if text and not low <= version <= high:
        known = " to ".join(".".join(map(str, each)) for each in ESP_NN_VERSIONS)
        section.note("version", f"{text[:80]!r} is not a version whose scratch sizes are known", f"use {known}")
    return version


def read_native(section: Section, load_runtime: Callable[[str], Runtime]) -> Runtime:
    """Return the runtime of generated code; problems are noted in the section.

    load_runtime: returns the version of TFLM that the profile refers to.
    """
    name, description = section.name("name"), section.text("description")
    reference = load_runtime(section.name("reference"))
    section.finish()
    return replace(reference, name=name, description=description, reference=reference.name)


def read_board(
    section: Section, load_core: Callable[[str], Core], load_runtime: Callable[[str], Runtime], runtime: str
) -> Target:
    """Return the board of a packaged or a user's profile; problems are noted in the section.

    Args:
        runtime: the runtime if the profile does not name one.
    """
    core = _load_referenced(section, "core", section.name("core"), load_core)
    used = _load_referenced(section, "runtime", section.name("runtime", required=False) or runtime, load_runtime)
    if core is not None and used is not None and (unknown := unknown_abi(core, used)):
        section.note("core", *unknown)
    fpu = section.choice("fpu", FPUS, required=False)
    name = section.name("name")
    bandwidth = read_bandwidth(section)
    if bandwidth is not None:
        reject_regions(section)
    regions = read_regions(section) if bandwidth is None else ()
    target = Target(
        name=name,
        core=_with_cache_line(_with_fpu(core or _NO_CORE, fpu), _read_cache_line(section)),
        board=section.text("board", required=False) or name,
        mcu=section.text("mcu", required=False) or None,
        clock_hz=_read_clock(section, "clock"),
        clock_source=section.text("clock_source", required=False) or "the profile",
        regions=regions,
        runtime=used or _NO_RUNTIME,
        kernels=_read_kernels(section, core or _NO_CORE),
        arena_region_name=read_arena_region(section, regions) if bandwidth is None else None,
        usual_kernels=_read_usual_kernels(section, core or _NO_CORE),
        esp_nn_variant=_read_esp_nn_variant(section) or (core or _NO_CORE).esp_nn_variant,
        timings=read_timings(section, (core or _NO_CORE).cpi_limits) if bandwidth is None else (),
        power=read_power(section),
        bandwidth_gbps=bandwidth,
        vendor=section.text("vendor", required=False) or None,
        sources=_read_sources(section, (*BOARD_FIGURES, *(f for region in regions for f in region_figures(region)))),
    )
    if unavailable := missing_kernels(target.kernels, target.runtime, target.esp_nn_variant, name):
        section.note("kernels", *unavailable)
    section.finish()
    return target


def missing_kernels(
    kernels: Kernels, runtime: Runtime, variant: EspNNVariant | None, target_name: str
) -> tuple[str, str] | None:
    """Return a message and advice if the kernel set is not in the runtime or not for the chip; None if it is."""
    if kernels != "esp-nn":
        return None
    if variant is None:
        known = ", ".join(ESP_NN_VARIANTS)
        return f"ESP-NN has no kernels for {target_name}", f"set esp_nn in the profile to one of {known}"
    if runtime.esp_nn is None:
        return f"{runtime.name} does not contain ESP-NN", "use a runtime that links it, or other kernels"
    return None


def unknown_abi(core: Core, runtime: Runtime) -> tuple[str, str] | None:
    """Return a message and advice if the runtime does not describe the core's ABI; None if it does."""
    abi_names = [abi.name for abi in runtime.abis]
    if core.abi in abi_names:
        return None
    return (
        f"{core.name} uses the ABI {core.abi!r}, which {runtime.name} does not support",
        f"it supports {', '.join(abi_names)}",
    )


def require_abi(core: Core, runtime: Runtime, *, where: str) -> None:
    """Raise TargetError if the runtime does not describe the core's ABI."""
    if unknown := unknown_abi(core, runtime):
        what, fix = unknown
        raise TargetError(what, where=where, fix=fix)


def bare_core(core: Core, runtime: Runtime) -> Target:
    """Return a core without a board: its documented clock, and no memory limits."""
    return Target(
        name=core.name,
        core=core,
        board=None,
        mcu=None,
        clock_hz=core.default_clock_hz,
        clock_source=core.clock_source,
        regions=(),
        runtime=runtime,
        kernels=core.default_kernels,
        usual_kernels=core.usual_kernels,
        esp_nn_variant=core.esp_nn_variant,
        sources=core.sources,
    )


# Stand-ins while problems are collected; a target with problems is never returned to a user.
_NO_CORE = Core("none", ISAS[0], "none", False, False, "none", 32, "reference", 1, "", 1, CPI_RANGE)
_NO_RUNTIME = Runtime("none", "", "", "", "", ())
NO_TARGET = Target("none", _NO_CORE, None, None, 1, "", (), _NO_RUNTIME, "reference")


def _load_referenced(section: Section, key: str, name: str, load: Callable[[str], T]) -> T | None:
    if not name:
        return None
    try:
        return load(name)
    except TargetError as error:
        section.note(key, error.what, error.fix)
        return None


def _with_fpu(core: Core, fpu: str | None) -> Core:
    """Return the core with the floating-point unit of the board's chip."""
    chosen = next((known for known in FPUS if known == fpu), None)
    return core if chosen is None else replace(core, fpu=chosen)


def _read_cache_line(section: Section) -> int | None:
    """Return the bytes of a line of the data cache; None if the profile does not state them."""
    return _read_one_of(section, "data_cache_line", CACHE_LINES_BYTES) if section.has("data_cache_line") else None


def _with_cache_line(core: Core, size_bytes: int | None) -> Core:
    """Return the core with the data cache of the board's chip."""
    return core if size_bytes is None else replace(core, data_cache_line_bytes=size_bytes)


def _read_kernels(section: Section, core: Core) -> Kernels:
    word = section.choice("kernels", KERNELS, required=False)
    return next((known for known in KERNELS if known == word), core.default_kernels)


def _read_esp_nn_variant(section: Section) -> EspNNVariant | None:
    word = section.choice("esp_nn", ESP_NN_VARIANTS, required=False)
    return next((known for known in ESP_NN_VARIANTS if known == word), None)


def _read_usual_kernels(section: Section, core: Core) -> str | None:
    """Return the profile's usual kernels, or the core's unless the profile has chosen one of the known kernel sets."""
    inherited = None if section.has("kernels") else core.usual_kernels
    return section.text("usual_kernels", required=False) or inherited


def _read_choice(section: Section, key: str, known: tuple[W, ...]) -> W:
    word = section.choice(key, known)
    return next((item for item in known if item == word), known[0])


def _read_clock(section: Section, key: str) -> int:
    return section.quantity(key, parse_clock, format_clock, *CLOCK_RANGE_HZ) or CLOCK_RANGE_HZ[0]


def _read_limit(section: Section) -> OperatorLimit:
    limit = OperatorLimit(
        operator=section.text("operator"),
        quantity=_read_choice(section, "quantity", LIMIT_QUANTITIES),
        maximum=section.integer("maximum", 1, 10**6),
    )
    section.finish()
    return limit


def _read_rank_limit(section: Section) -> RankLimit:
    limit = RankLimit(
        operator=section.text("operator"),
        maximum=section.integer("maximum", 1, 10**6),
        kernels=_read_choice(section, "kernels", KERNELS) if section.has("kernels") else None,
        dtype=DTYPES.get(section.choice("type", DTYPES, required=False) or ""),
    )
    section.finish()
    return limit


def read_registrations(section: Section, operators: Collection[str]) -> tuple[KernelRegistration, ...]:
    """Return the [[registration]] tables of a runtime; problems are noted in the section."""
    registrations: list[KernelRegistration] = []
    for item in section.sections("registration"):
        read = _read_registration(item, operators)
        if any((read.operator, read.kernels, read.types) == (o.operator, o.kernels, o.types) for o in registrations):
            item.note("types", f"another registration of {read.operator} has the same types")
        registrations.append(read)
    return tuple(registrations)


def _read_registration(section: Section, operators: Collection[str]) -> KernelRegistration:
    operator, function, header = (section.text(key) for key in ("operator", "function", "header"))
    if operator and operator not in operators:
        section.note("operator", f"{operator[:80]!r} is not in [resolver]", did_you_mean(operator, operators))
    if function and not _FUNCTION.fullmatch(function):
        section.note("function", "must be the name of a function")
    if header and not _HEADER.fullmatch(header):
        section.note("header", "must be the path of a header in TFLM")
    registration = KernelRegistration(
        operator=operator,
        kernels=_read_choice(section, "kernels", KERNELS),
        types=_read_signature(section, "types"),
        function=function,
        header=header,
    )
    section.finish()
    return registration


def _read_signature(section: Section, key: str) -> TypeSignature:
    text = section.text(key)
    try:
        return parse_signature(text or ">")
    except ValueError as problem:
        section.note(key, str(problem))
        return parse_signature(">")


def _read_sources(section: Section, figures: Collection[str]) -> tuple[FigureSource, ...]:
    sources = []
    for item in section.sections("source"):
        covers = item.strings("covers")
        for word in covers:
            if word not in figures:
                item.note("covers", f"{word[:80]!r} is not a figure in this profile", did_you_mean(word, figures))
        sources.append(
            FigureSource(covers, item.text("document"), item.boolean("verified"), item.text("note", required=False))
        )
        item.finish()
    return tuple(sources)
