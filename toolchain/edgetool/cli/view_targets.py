"""The views of `edgetool targets`."""

from __future__ import annotations

import click

from edgetool.cli.text import fact, kib, printable, table
from edgetool.target.types import MemoryRegion, Target

MHZ = 1e6


def target_table(targets: tuple[Target, ...]) -> list[str]:
    """One line per profile: boards first by name, then bare cores."""
    rows = [
        (
            target.name,
            target.core.name,
            f"{target.clock_hz / MHZ:g}",
            _short(target.sram_bytes),
            _short(target.flash_bytes),
            printable(target.board or "a bare core: no memory limits", 34),
        )
        for target in targets
    ]
    return table(("name", "core", "MHz", "SRAM", "flash", "board"), rows, "<<>>><")


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
    rate = core.roofline
    state = "validated" if rate.validated else "unvalidated"
    lines += fact(
        "Roofline",
        f"{rate.int8_macs_per_cycle:g} int8, {rate.int16_macs_per_cycle:g} int16, {rate.float32_macs_per_cycle:g} "
        f"float32 MACs and {rate.bytes_per_cycle:g} bytes per cycle; {state}: {printable(rate.basis, 400)}",
    )
    if target.regions:
        lines += ["", *(f"  {line}" for line in _regions(target)), ""]
        for region in target.regions:
            if region.note:
                lines += fact(printable(region.name, 12), printable(region.note, 200))
    lines += ["", "  Sources"]
    for source in dict.fromkeys((*target.sources, *core.sources)):
        state = "checked" if source.verified else "NOT CHECKED"
        note = f" ({printable(source.note, 200)})" if source.note else ""
        lines += fact(state, f"{', '.join(source.covers)}: {printable(source.document, 200)}{note}")
    return lines


def _unmodelled(target: Target) -> str:
    return f"; {target.usual_kernels} kernels, usual there, are not modelled" if target.usual_kernels else ""


def _regions(target: Target) -> list[str]:
    def role(region: MemoryRegion) -> str:
        roles = [
            name
            for name, chosen in (("arena", target.arena_region), ("model", target.flash_region))
            if region == chosen
        ]
        return ", ".join(roles)

    rows = [
        (
            printable(region.name, 24),
            region.kind,
            kib(region.size_bytes),
            role(region),
        )
        for region in target.regions
    ]
    return table(("region", "kind", "size", "holds"), rows, "<<><")


def _short(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "-"
    return f"{size_bytes / 2**10:g} KiB" if size_bytes < 2**20 else f"{size_bytes / 2**20:g} MiB"
