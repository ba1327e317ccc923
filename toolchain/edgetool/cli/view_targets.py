"""The views of `edgetool targets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from edgetool.cli.text import fact, printable, significant, table, wrapped
from edgetool.target.quantity import format_size
from edgetool.target.types import MemoryRegion, Target, Timing

MHZ = 1e6
KIB = 2**10
MAX_TEXT = 400  # of a line from a profile
LEGEND = (
    "timing: how the cycles per instruction are known. calibrated: measured on that board; extrapolated: measured on"
    " another one with the same core; unvalidated: neither; bandwidth: its memory bandwidth is all that is known."
)


def target_table(targets: Sequence[Target]) -> list[str]:
    """One line per profile: boards first by name, then bare cores; with what the column of timing says."""
    if not targets:
        return ["no packaged target is like that"]
    rows = [
        (
            target.name,
            target.core.name,
            f"{target.clock_hz / MHZ:g}",
            _kib(target.sram_bytes),
            _kib(target.flash_bytes),
            _status(target),
        )
        for target in targets
    ]
    header = ("name", "core", "MHz", "SRAM KiB", "flash KiB", "timing")
    return [*table(header, rows, "<<>>><"), "", *wrapped(LEGEND, "")]


def target_view(target: Target) -> list[str]:
    """Everything that a profile says, and where each figure comes from."""
    core = target.core
    lines = [click.style(printable(target.name), bold=True), ""]
    if target.board:
        lines += fact("Board", f"{printable(target.board)}, {printable(target.mcu or 'unknown MCU')}")
    features = [name for name, present in (("DSP", core.dsp), ("MVE", core.mve)) if present]
    fpu = {"none": "no FPU", "sp": "single-precision FPU", "dp": "double-precision FPU"}[core.fpu]
    lines += fact("Core", ", ".join([core.name, core.isa, *features, fpu]))
    lines += fact("Clock", f"{target.clock_hz / MHZ:g} MHz ({printable(target.clock_source, 200)})")
    lines += fact("Runtime", f"{target.runtime.name}, {target.kernels} kernels{_unmodelled(target)}")
    abi = target.runtime.abi(core.abi)
    basis = "measured" if target.kernels in abi.measured else "derived, not measured,"
    lines += fact("Arena", f"{basis} on the {abi.name} ABI")
    for label, text in (*_speed(target), *_power(target)):
        lines += fact(label, text)
    lines += _memory(target)
    lines += _other_runtimes(target)
    lines += ["", "  Sources"]
    for source in dict.fromkeys((*target.sources, *core.sources)):
        state = "checked" if source.verified else "NOT CHECKED"
        note = f" ({printable(source.note, 200)})" if source.note else ""
        lines += fact(state, f"{', '.join(source.covers)}: {printable(source.document, 200)}{note}")
    return lines


def _speed(target: Target) -> Iterator[tuple[str, str]]:
    if target.bandwidth_gbps is not None:
        yield "Bandwidth", f"{target.bandwidth_gbps:g} GB/s; the device is described by its memory bandwidth alone"
        return
    core = target.core
    own = {timing.kernels for timing in target.timings}
    timings = (*target.timings, *(timing for timing in core.timings if timing.kernels not in own))
    for timing in timings:
        yield "Timing", _timing(timing)
    if not timings:
        yield "Timing", "none: how fast it is nobody has measured"
    if core.instructions is not None:
        stand_in = "" if core.instructions == core.name else ", a stand-in"
        yield "Tables", f"instructions as counted on {core.instructions}{stand_in}"
    least, most = core.cpi_limits
    yield "Limits", f"{least:g} to {most:g} cycles per instruction; {core.bus_bytes} bytes per cycle to memory"


def _timing(timing: Timing) -> str:
    return (
        f"{timing.status}: {timing.cpi:g} cycles per instruction with {timing.kernels} kernels; a model takes"
        f" {timing.low:g} to {timing.high:g} times the estimate, an operator {timing.operator_low:g} to"
        f" {timing.operator_high:g} ({printable(timing.basis, MAX_TEXT)})"
    )


def _power(target: Target) -> Iterator[tuple[str, str]]:
    power = target.power
    if power is not None:
        spread = f"{significant(power.low_mw)} to {significant(power.high_mw)}"
        yield "Power", f"{significant(power.active_mw)} mW, {spread} ({printable(power.basis, MAX_TEXT)})"


def _other_runtimes(target: Target) -> list[str]:
    """How other runtimes compare, as published; no estimate uses it."""
    if not target.factors:
        return []
    rows = [
        (printable(item.runtime, 34), f"{item.factor:g}", f"{item.low:g} to {item.high:g}", str(item.rows))
        for item in target.factors
    ]
    header = ("another runtime", "times as long", "range", "rows")
    lines = ["", *(f"  {line}" for line in table(header, rows, "<>>>")), ""]
    for basis in dict.fromkeys(item.basis for item in target.factors):
        lines += wrapped(printable(basis, MAX_TEXT), "  ")
    return lines


def _unmodelled(target: Target) -> str:
    return f"; {target.usual_kernels} kernels, usual there, are not modelled" if target.usual_kernels else ""


def _memory(target: Target) -> list[str]:
    if not target.regions:
        return []
    rows = [
        (
            printable(region.name, 24),
            region.kind,
            format_size(region.size_bytes),
            "-" if region.bytes_per_cycle is None else significant(region.bytes_per_cycle, 2),
            format_size(region.cache_bytes) if region.cache_bytes else "-",
            "-" if region.stall_cycles_per_byte is None else f"{region.stall_cycles_per_byte:g}",
            _role(region, target),
        )
        for region in target.regions
    ]
    header = ("region", "kind", "size", "B/cycle", "cache", "stall/B", "holds")
    lines = ["", *(f"  {line}" for line in table(header, rows, "<<>>>><")), ""]
    for region in target.regions:
        if region.note:
            lines += fact(printable(region.name, 12), printable(region.note, 200))
    return lines


def _role(region: MemoryRegion, target: Target) -> str:
    chosen = (("arena", target.arena_region), ("model", target.flash_region))
    return ", ".join(role for role, held in chosen if region == held)


def _status(target: Target) -> str:
    if target.bandwidth_gbps is not None:
        return "bandwidth"
    return target.timing.status if target.timing is not None else "none"


def _kib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{round(size_bytes / KIB, 1):g}"
