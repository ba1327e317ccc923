"""What a profile may say: the keys of cores, boards and runtimes, and which values are possible."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar, get_args

from edgetool.errors import TargetError, UsageError
from edgetool.target.layout import read_abis, read_field_lists, read_structs
from edgetool.target.quantity import format_clock, parse_clock
from edgetool.target.regions import COLD_RANGE, read_arena_region, read_regions, refuse_regions, region_figures
from edgetool.target.schema import Problem, Section, did_you_mean
from edgetool.target.takes import DTYPES, read_takes
from edgetool.target.timing import CPI_RANGE, KERNELS, read_band, read_bandwidth, read_power, read_timings
from edgetool.target.types import (
    Core,
    Fpu,
    Kernels,
    LimitQuantity,
    OperatorLimit,
    RankLimit,
    Runtime,
    Source,
    Target,
)

T = TypeVar("T")
W = TypeVar("W", bound=str)

ISAS = (
    *("armv6-m", "armv7-m", "armv7e-m", "armv8-m.base", "armv8-m.main", "armv8.1-m.main", "armv8-a"),
    *("rv32imc", "xtensa-lx6", "xtensa-lx7", "rxv2", "x86-64"),
)
FPUS: tuple[Fpu, ...] = get_args(Fpu)
LIMIT_QUANTITIES: tuple[LimitQuantity, ...] = get_args(LimitQuantity)

CLOCK_RANGE_HZ = (100_000, 10**10)
SIZE_RANGE_BYTES = (1, 2**32)  # of a size that the user gives on the command line
BUS_RANGE_BYTES = (1, 64)
FLOAT_FACTOR_RANGE = (0.2, 100.0)  # without a floating-point unit, calls to a library do it: those are counted

CORE_FIGURES = ("isa", "abi", "dsp", "mve", "fpu", "word_bits", "default_clock")
BOARD_FIGURES = ("core", "fpu", "mcu", "clock", "power", "bandwidth")  # and those of every region
MAX_PROBLEMS = 50  # of one file that are told

STRUCT_FIGURES = ("abi", "structs", "options", "op_data")
RUNTIME_FIGURES = (
    "tflm",
    "cmsis_nn",
    "resolver",
    "custom_resolver",
    "limit",
    "rank_limit",
    "types",
    "scales",
    *STRUCT_FIGURES,
)


def read_core(section: Section) -> Core:
    """The core of a profile in targets/cores/; problems are noted in the section."""
    cpi_limits = section.pair("cpi_limits", *CPI_RANGE)
    core = Core(
        name=section.name("name"),
        isa=section.choice("isa", ISAS) or ISAS[0],
        abi=section.name("abi"),
        dsp=section.boolean("dsp"),
        mve=section.boolean("mve"),
        fpu=_choice(section, "fpu", FPUS),
        word_bits=section.integer("word_bits", 8, 64),
        default_kernels=_choice(section, "default_kernels", KERNELS),
        default_clock_hz=_clock(section, "default_clock"),
        clock_source=section.text("clock_source"),
        bus_bytes=section.integer("bus_bytes", *BUS_RANGE_BYTES),
        cpi_limits=cpi_limits,
        instructions=section.name("instructions", required=False) or None,
        float_factor=section.rate("float_factor", *FLOAT_FACTOR_RANGE) if section.has("float_factor") else 1.0,
        float_band=read_band(section, "float_band") if section.has("float_band") else (1.0, 1.0),
        cold_cycles=section.integer("cold_cycles", *COLD_RANGE) if section.has("cold_cycles") else 0,
        timings=read_timings(section, cpi_limits),
        usual_kernels=section.text("usual_kernels", required=False) or None,
        sources=_sources(section, CORE_FIGURES),
    )
    section.finish()
    return core


def read_runtime(section: Section) -> Runtime:
    """The runtime of a profile in targets/runtimes/; problems are noted in the section."""
    tflm = section.section("tflm")
    cmsis_nn = section.section("cmsis_nn")
    op_data = section.section("op_data")
    resolver = section.names("resolver")
    custom_resolver = section.names("custom_resolver", required=False)
    operators = [name for name, _ in (*resolver, *custom_resolver)]
    structs = read_structs(section, "structs")
    known = dict(structs)
    runtime = Runtime(
        name=section.name("name"),
        description=section.text("description"),
        tflm_commit=tflm.text("commit"),
        tflm_date=tflm.text("date"),
        cmsis_nn_commit=cmsis_nn.text("commit"),
        resolver=resolver,
        custom_resolver=custom_resolver,
        limits=tuple(_limit(item) for item in section.sections("limit")),
        rank_limits=tuple(_rank_limit(item) for item in section.sections("rank_limit")),
        takes=read_takes(section, operators),
        abis=read_abis(section, known),
        structs=structs,
        options=read_field_lists(section, "options", operators, known),
        op_data=read_field_lists(op_data, "reference", operators, known),
        cmsis_nn_op_data=read_field_lists(op_data, "cmsis-nn", operators, known),
        sources=_sources(section, RUNTIME_FIGURES),
    )
    for part in (tflm, cmsis_nn, op_data, section):
        part.finish()
    return runtime


def read_board(
    section: Section, load_core: Callable[[str], Core], load_runtime: Callable[[str], Runtime], runtime: str
) -> Target:
    """The board of a profile, packaged or a user's; `runtime` is used where it names none.

    Problems are noted in the section.
    """
    core = _referred(section, "core", section.name("core"), load_core)
    used = _referred(section, "runtime", section.name("runtime", required=False) or runtime, load_runtime)
    if core is not None and used is not None and (unknown := unknown_abi(core, used)):
        section.note("core", *unknown)
    fpu = section.choice("fpu", FPUS, required=False)
    name = section.name("name")
    bandwidth = read_bandwidth(section)
    if bandwidth is not None:
        refuse_regions(section)
    regions = read_regions(section) if bandwidth is None else ()
    target = Target(
        name=name,
        core=_with_fpu(core or _NO_CORE, fpu),
        board=section.text("board", required=False) or name,
        mcu=section.text("mcu", required=False) or None,
        clock_hz=_clock(section, "clock"),
        clock_source=section.text("clock_source", required=False) or "the profile",
        regions=regions,
        runtime=used or _NO_RUNTIME,
        kernels=_kernels(section, core or _NO_CORE),
        arena_region_name=read_arena_region(section, regions) if bandwidth is None else None,
        usual_kernels=_usual_kernels(section, core or _NO_CORE),
        timings=read_timings(section, (core or _NO_CORE).cpi_limits) if bandwidth is None else (),
        power=read_power(section),
        bandwidth_gbps=bandwidth,
        vendor=section.text("vendor", required=False) or None,
        sources=_sources(section, (*BOARD_FIGURES, *(f for region in regions for f in region_figures(region)))),
    )
    section.finish()
    return target


def unknown_abi(core: Core, runtime: Runtime) -> tuple[str, str] | None:
    """What to say, and to do, when the runtime does not describe the core's ABI; None when it does."""
    known = [abi.name for abi in runtime.abis]
    if core.abi in known:
        return None
    return (
        f"{core.name} uses the ABI {core.abi!r}, which {runtime.name} does not support",
        f"it supports {', '.join(known)}",
    )


def require_abi(core: Core, runtime: Runtime, *, where: str) -> None:
    """Raises TargetError when the runtime does not describe the core's ABI."""
    if unknown := unknown_abi(core, runtime):
        what, fix = unknown
        raise TargetError(what, where=where, fix=fix)


def bare_core(core: Core, runtime: Runtime) -> Target:
    """A core on no board: its documented clock, and no memory limits."""
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
        sources=core.sources,
    )


# Stand-ins while problems are collected; no target with problems leaves the room.
_NO_CORE = Core("none", ISAS[0], "none", False, False, "none", 32, "reference", 1, "", 1, CPI_RANGE)
_NO_RUNTIME = Runtime("none", "", "", "", "", ())
NO_TARGET = Target("none", _NO_CORE, None, None, 1, "", (), _NO_RUNTIME, "reference")


def _referred(section: Section, key: str, name: str, load: Callable[[str], T]) -> T | None:
    if not name:
        return None
    try:
        return load(name)
    except TargetError as error:
        section.note(key, error.what, error.fix)
        return None


def _with_fpu(core: Core, fpu: str | None) -> Core:
    """The core with the floating-point unit that its board's chip has."""
    chosen = next((known for known in FPUS if known == fpu), None)
    return core if chosen is None else replace(core, fpu=chosen)


def _kernels(section: Section, core: Core) -> Kernels:
    word = section.choice("kernels", KERNELS, required=False)
    return next((known for known in KERNELS if known == word), core.default_kernels)


def _usual_kernels(section: Section, core: Core) -> str | None:
    """What the profile names; else the core's, unless the profile has chosen among the known kernels."""
    inherited = None if section.has("kernels") else core.usual_kernels
    return section.text("usual_kernels", required=False) or inherited


def _choice(section: Section, key: str, known: tuple[W, ...]) -> W:
    word = section.choice(key, known)
    return next((item for item in known if item == word), known[0])


def _clock(section: Section, key: str) -> int:
    return section.quantity(key, parse_clock, format_clock, *CLOCK_RANGE_HZ) or CLOCK_RANGE_HZ[0]


def _limit(section: Section) -> OperatorLimit:
    limit = OperatorLimit(
        operator=section.text("operator"),
        quantity=_choice(section, "quantity", LIMIT_QUANTITIES),
        maximum=section.integer("maximum", 1, 10**6),
    )
    section.finish()
    return limit


def _rank_limit(section: Section) -> RankLimit:
    limit = RankLimit(
        operator=section.text("operator"),
        maximum=section.integer("maximum", 1, 10**6),
        kernels=_choice(section, "kernels", KERNELS) if section.has("kernels") else None,
        dtype=DTYPES.get(section.choice("type", DTYPES, required=False) or ""),
    )
    section.finish()
    return limit


def _sources(section: Section, figures: Collection[str]) -> tuple[Source, ...]:
    sources = []
    for item in section.sections("source"):
        covers = item.texts("covers")
        for word in covers:
            if word not in figures:
                item.note("covers", f"{word[:80]!r} is not a figure in this profile", did_you_mean(word, figures))
        sources.append(
            Source(covers, item.text("document"), item.boolean("verified"), item.text("note", required=False))
        )
        item.finish()
    return tuple(sources)


def problems_as_error(problems: list[Problem], where: str, kind: type[UsageError] = TargetError) -> UsageError:
    """The first problem as an error, the others as its details; of very many the first, and how many more."""
    first, *others = problems
    left = len(others) - MAX_PROBLEMS
    more = (f"and {left:,} more problems",) if left > 0 else ()
    return kind(
        first.what,
        where=f"{where}: {first.key}" if first.key else where,
        fix=first.fix,
        details=(*(_line(problem) for problem in others[:MAX_PROBLEMS]), *more),
    )


def _line(problem: Problem) -> str:
    fix = f"; {problem.fix}" if problem.fix else ""
    return f"{problem.key}: {problem.what}{fix}"
