"""edgetool targets: the commands list, show and validate, and their views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgetool.cli.command import Command, Group, option
from edgetool.cli.options import PATH, SIZE, complete_target, json_option
from edgetool.cli.output import deliver, fact, print_lines, printable, table, wrapped
from edgetool.errors import UsageError
from edgetool.figure import significant
from edgetool.target.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from edgetool.target.types import MemoryRegion, Runtime, Target, Timing

MHZ = 1e6
KIB = 2**10
MAX_TEXT = 400  # of a line from a profile
STATUSES = {
    "calibrated": "measured on the board itself",
    "extrapolated": "measured on another board with the same core",
    "unvalidated": "not compared with any measurement",
    "bandwidth": "only the memory bandwidth is known",
    "none": "no estimate",
}
VENDOR_COLUMNS, MCU_COLUMNS = 12, 11


def target_table(targets: Sequence[Target]) -> list[str]:
    """Return one line per profile, boards first, and below the list how well the time of each is known.

    The names of cores lose "cortex-" and "xtensa-", so that a line has at most 80 columns.
    """
    if not targets:
        return ["no target matches; 'edgetool targets list' shows all"]
    rows = [
        (
            target.name,
            _cut(target.vendor, VENDOR_COLUMNS),
            _cut((target.mcu or "").partition(" (")[0], MCU_COLUMNS),
            target.core.name.removeprefix("cortex-").removeprefix("xtensa-"),
            f"{target.clock_hz / MHZ:g}",
            _kib(target.sram_bytes),
            _kib(target.flash_bytes),
        )
        for target in targets
    ]
    lines = table(("name", "vendor", "MCU", "core", "MHz", "SRAM", "flash"), rows, "<<<<>>>")
    lines += ["", "SRAM for the arena and flash for the model, in KiB. Timing:"]
    by_status = {status: [target.name for target in targets if _status(target) == status] for status in STATUSES}
    present = {status: names for status, names in by_status.items() if names}
    largest = max(present, key=lambda status: len(present[status]))
    for status, names in present.items():
        shown = ", ".join(names)
        if status == largest:
            shown = "all others" if len(present) > 1 else "all"
        lines += wrapped(shown, "    ", f"  {status} ({STATUSES[status]}): ")
    return lines


def target_view(target: Target) -> list[str]:
    """Return everything that a profile states, with the source of each figure."""
    core = target.core
    lines = [click.style(printable(target.name), bold=True), ""]
    if target.board:
        lines += fact("Board", f"{printable(target.board)}, {printable(target.mcu or 'unknown MCU')}")
    if target.vendor:
        lines += fact("Vendor", printable(target.vendor))
    features = [name for name, present in (("DSP", core.dsp), ("MVE", core.mve)) if present]
    fpu = {"none": "no FPU", "sp": "single-precision FPU", "dp": "double-precision FPU"}[core.fpu]
    lines += fact("Core", ", ".join(dict.fromkeys([core.name, core.isa, *features, fpu])))
    lines += fact("Clock", f"{target.clock_hz / MHZ:g} MHz ({printable(target.clock_source, 200)})")
    lines += fact("Runtime", f"{target.runtime.name}, {target.kernels} kernels{_unmodelled(target)}")
    abi = target.runtime.abi(core.abi)
    basis = "checked by measurement" if target.kernels in abi.measured else "derived, not measured,"
    lines += fact("Arena", f"sizes {basis} for the {abi.name} ABI")
    for label, text in (*_speed(target), *_power(target)):
        lines += fact(label, text)
    lines += _memory(target)
    lines += _other_runtimes(target)
    lines += ["", "  Sources of the figures"]
    for source in dict.fromkeys((*target.sources, *core.sources)):
        state = "checked" if source.verified else "NOT CHECKED"
        note = f" ({printable(source.note, 200)})" if source.note else ""
        lines += fact(state, f"{', '.join(source.covers)}: {printable(source.document, 200)}{note}")
    return lines


def runtime_table(runtimes: Sequence[Runtime]) -> list[str]:
    """Show each runtime with its commits, and below it what links it."""
    versions = [runtime for runtime in runtimes if not runtime.is_native]
    rows = [
        (item.name, item.tflm_date, item.tflm_commit[:9], item.cmsis_nn_date, item.cmsis_nn_commit[:8])
        for item in versions
    ]
    header = ("runtime", "TFLM", "commit", "CMSIS-NN", "commit")
    first, *lines = table(header, rows, "<<<<<")
    shown = [f"  {first}"]
    for item, line in zip(versions, lines, strict=True):
        shown.append(f"  {line}")
        if item.linked_by:
            shown += wrapped(f"linked by {', '.join(item.linked_by)}", "      ", "    ")
    return [*shown, "", *(f"  {item.name}: {item.description}" for item in runtimes if item.is_native)]


def _speed(target: Target) -> Iterator[tuple[str, str]]:
    if target.bandwidth_gbps is not None:
        yield "Bandwidth", f"{target.bandwidth_gbps:g} GB/s; nothing else is known about the speed of this device"
        return
    core = target.core
    by_kernels = {timing.kernels for timing in target.timings}
    timings = (*target.timings, *(timing for timing in core.timings if timing.kernels not in by_kernels))
    for timing in timings:
        yield "Timing", _timing(timing)
    if not timings:
        yield "Timing", "none: no measurement of this core is known"
    if core.instructions is not None:
        substitute = "" if core.instructions == core.name else ", as a substitute for this core"
        yield "Counts", f"instructions counted on {core.instructions}{substitute}"
    minimum, maximum = core.cpi_limits
    yield "Bounds", f"{minimum:g} to {maximum:g} cycles per instruction; {core.bus_bytes} bytes per cycle from memory"


def _timing(timing: Timing) -> str:
    return (
        f"{timing.status}: {timing.cpi:g} cycles per instruction with {timing.kernels} kernels; a model takes"
        f" {timing.low:g} to {timing.high:g} times the estimate, an operator {timing.operator_low:g} to"
        f" {timing.operator_high:g} times ({printable(timing.basis, MAX_TEXT)})"
    )


def _power(target: Target) -> Iterator[tuple[str, str]]:
    power = target.power
    if power is not None:
        spread = f"{significant(power.low_mw)} to {significant(power.high_mw)} mW"
        yield "Power", f"{significant(power.active_mw)} mW, range {spread} ({printable(power.basis, MAX_TEXT)})"


def _other_runtimes(target: Target) -> list[str]:
    """Show published comparisons with other runtimes; no estimate uses them."""
    if not target.factors:
        return []
    rows = [
        (printable(item.runtime, 34), f"{item.factor:g}", f"{item.low:g} to {item.high:g}", str(item.rows))
        for item in target.factors
    ]
    header = ("other runtime", "time (TFLM = 1)", "range", "results")
    lines = ["", *(f"  {line}" for line in table(header, rows, "<>>>")), ""]
    for basis in dict.fromkeys(item.basis for item in target.factors):
        lines += wrapped(printable(basis, MAX_TEXT), "  ")
    return lines


def _unmodelled(target: Target) -> str:
    if not target.usual_kernels:
        return ""
    return f"; {target.usual_kernels} kernels, common on this core, are not in this runtime"


def _cut(text: str | None, columns: int) -> str:
    """Return the text cut to this many columns, "-" for None."""
    shown = printable(text or "-")
    return shown if len(shown) <= columns else f"{shown[: columns - 2]}.."


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
    header = ("region", "kind", "size", "B/cycle", "cache", "stall/B", "used for")
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


@click.group(
    "targets",
    cls=Group,
    examples=(
        "edgetool targets list stm32h7",
        "edgetool targets show 'Raspberry Pi Pico'",
        "edgetool targets validate my-board.toml",
    ),
)
def command() -> None:
    """List, show and validate the profiles of boards and cores."""


@command.command(
    "list",
    cls=Command,
    examples=(
        "edgetool targets list",
        "edgetool targets list --core cortex-m4 --min-sram 256KiB",
        "edgetool targets list --runtimes",
    ),
)
@click.argument("text", required=False)
@option("--core", group="Target", metavar="NAME", help="Only boards with this core, and the core itself.")
@option(
    "--min-sram",
    group="Target",
    type=SIZE,
    metavar="SIZE",
    help="Only boards with at least this much SRAM for the arena, e.g. 256KiB.",
)
@option(
    "--min-flash",
    group="Target",
    type=SIZE,
    metavar="SIZE",
    help="Only boards with at least this much flash for the model, e.g. 1MiB.",
)
@option("--runtimes", is_flag=True, help="List the runtimes that --runtime accepts instead.")
@json_option
def list_command(
    text: str | None, core: str | None, min_sram: int | None, min_flash: int | None, runtimes: bool, as_json: bool
) -> None:
    """List the boards and cores that --target accepts.

    TEXT selects those with this text in their name, board, MCU, core or vendor. Case, spaces and punctuation do not
    matter.
    """
    from edgetool.pipeline.targets import selected_targets
    from edgetool.report.json import to_json

    if runtimes:
        if any(value is not None for value in (text, core, min_sram, min_flash)):
            raise UsageError("--runtimes lists all runtimes, whatever the target", fix="omit the other options")
        _list_runtimes(as_json=as_json)
        return
    targets = selected_targets(text, core=core, min_sram_bytes=min_sram, min_flash_bytes=min_flash)
    if as_json:
        from edgetool.pipeline.targets import describe

        deliver(to_json({"schema": "edgetool/1", "targets": [describe(target) for target in targets]}), None)
    else:
        print_lines(target_table(targets))


def _list_runtimes(*, as_json: bool) -> None:
    from edgetool.pipeline.targets import all_runtimes, describe_runtime
    from edgetool.report.json import to_json

    if as_json:
        deliver(
            to_json({"schema": "edgetool/1", "runtimes": [describe_runtime(item) for item in all_runtimes()]}), None
        )
    else:
        print_lines(runtime_table(all_runtimes()))


@command.command(
    "show",
    cls=Command,
    examples=("edgetool targets show nucleo-l4r5zi", "edgetool targets show STM32H743 --json"),
)
@click.argument("name", shell_complete=complete_target)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show the profile NAME with the source of every figure.

    NAME is a board, an MCU, a core, or the path of a profile.
    """
    from edgetool.pipeline.targets import describe, resolve_target
    from edgetool.report.json import to_json

    target = resolve_target(name)
    if as_json:
        deliver(to_json({"schema": "edgetool/1", "target": describe(target)}), None)
    else:
        print_lines(target_view(target))


@command.command(
    "validate",
    cls=Command,
    examples=("edgetool targets validate my-board.toml", "edgetool targets validate boards/*.toml"),
)
@click.argument("profiles", type=PATH, nargs=-1, required=True)
def validate_command(profiles: tuple[Path, ...]) -> None:
    """Validate profiles of your own; exits with 2 at the first invalid one."""
    from edgetool.pipeline.targets import profile_notes, resolve_profile

    for path in profiles:
        target = resolve_profile(path)
        notes = "".join(f"; {note}" for note in profile_notes(path))
        print_lines([f"{path}: valid, {target.name} ({target.core.name}){notes}"])
