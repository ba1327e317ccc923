"""edgetool estimate: the command, and its view with the tables of precisions and of constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.latency_view import (
    by_time,
    energy_facts,
    latency_facts,
    limit_facts,
    operator_table,
    slowest_facts,
    status,
    unmodelled_fact,
    work_facts,
)
from edgetool.cli.options import (
    PATH,
    POSITIVE,
    Positive,
    custom_operators_option,
    force_option,
    json_option,
    quiet_options,
    report_option,
    stacked,
    target_options,
)
from edgetool.cli.output import (
    ENERGY_UNITS,
    TIME_UNITS,
    ProgressLine,
    deliver,
    duration,
    fact,
    grouped,
    in_common_unit,
    mac_rate,
    notice,
    percent,
    print_lines,
    printable,
    short_size,
    size_of_limit,
    sizes,
    table,
    width,
    wrapped,
)
from edgetool.cli.verdict import fits_fact, runs_fact
from edgetool.cli.view import finding_lines, heading, without_shared
from edgetool.figure import significant

if TYPE_CHECKING:
    from edgetool.report.document import Band, EstimateInfo, FactorInfo, MeasuredInfo, MemoryInfo, Report

JsonObject = Mapping[str, Any]

FITS = {True: "yes", False: "no", None: "?"}


def precision_lines(tradeoffs: JsonObject, *, everything: bool = False) -> list[str]:
    """Show the model in each precision and the highest one that fits; nothing if that was not computed."""
    if not tradeoffs:
        return []
    current, recommended = tradeoffs["own"], tradeoffs["recommended"]
    listed = [*tradeoffs["rows"], *([] if current is not None else [tradeoffs["as_is"]])]
    columns = [
        sizes([row[key] for row in listed]) for key in ("parameter_bytes", "arena_bytes", "model_bytes", "bytes_moved")
    ]
    rows = [
        (
            f"{row['precision']}{' (current)' if row['precision'] in (current, 'mixed') else ''}",
            *("unknown" if cell == "-" else cell for cell in cells),
            FITS[row["fits"]],
            "yes" if row["stock_tflm"] else "no",
        )
        for row, *cells in zip(listed, *columns, strict=True)
    ]
    header = ("precision", "constants", "arena", "model", "traffic", "fits", "in TFLM")
    lines = [f"  {line}" for line in table(header, rows, "<>>>><<")]
    advised = "none" if tradeoffs["advised"] is None else str(tradeoffs["advised"])
    lines += fact("Recommended", f"{advised}: {printable(tradeoffs['advice'], 400)}", bold=advised)
    best = "none" if recommended is None else str(recommended)
    lines += fact("Highest", f"{best}: {printable(tradeoffs['reason'], 400)}")
    return lines + (fact("", printable(tradeoffs["note"], 400)) if everything else [])


def constraint_lines(constraints: JsonObject) -> list[str]:
    """Show requirements against memories, and the demands of the largest operator; nothing if not computed."""
    if not constraints:
        return []
    rows = [_limit(name, constraints[name]) for name in ("arena", "flash")]
    lines = [f"  {line}" for line in table(("memory", "needs", "of", "region", "share", "fits"), rows, "<>><><")]
    peak = constraints["activations"]
    if peak is not None:
        lines += fact("Peak", f"op {_place(peak)} alone needs {short_size(peak['bytes'])} for its inputs and outputs")
    return lines + cache_fact(constraints["cache"])


def cache_fact(cache: JsonObject | None) -> list[str]:
    """Show whether the operators work within the data cache; nothing if the target has none."""
    if cache is None:
        return []
    size = short_size(cache["cache_bytes"])
    if cache["use"] == "fits":
        return fact("Cache", f"{size} holds the {_cached(cache)} of any single operator")
    text = (
        f"{size}; {percent(cache['streaming_share'])} of the time is spent in operators whose {_cached(cache)} exceed "
        f"it (up to {short_size(cache['working_set_bytes'])}, op {_place(cache['largest'])})"
    )
    return fact("Cache", text)


def _cached(cache: JsonObject) -> str:
    return " and ".join(printable(str(name)) for name in cache["cached"])


def _limit(name: str, limit: JsonObject) -> tuple[str, ...]:
    share = limit["share"]
    needed, of = sizes([limit["bytes"], limit["limit_bytes"]])
    return (
        name,
        needed,
        of if limit["limit_bytes"] is not None else "no limit",
        printable(limit["region"] or "-", 20),
        "-" if share is None else percent(share),
        FITS[limit["fits"]],
    )


def _place(item: JsonObject) -> str:
    index = f"{item['subgraph']}:{item['index']}" if item["subgraph"] else str(item["index"])
    return f"{index} {printable(str(item['operator']), 30)}"


SHOWN = 8
FACTORS_SHOWN = 2


def estimate_view(report: Report, *, by: str, everything: bool) -> list[str]:
    """Show the summary, then its basis, then where the time goes and what would help.

    by: "time" lists the slowest operators first, "order" lists them as they run.
    """
    estimate = report.estimate
    assert estimate is not None
    lines = [heading(report), ""]
    lines += latency_facts(estimate)
    lines += fit_facts(report)
    lines += slowest_facts(estimate)
    lines += limit_facts(estimate, everything=everything)
    lines += unmodelled_fact(estimate)
    lines += ["", *measured_facts(estimate.measured)]
    lines += interval_fact(estimate)
    lines += energy_facts(estimate)
    lines += work_facts(estimate, report.provenance.options.get("clock_hz"))
    lines += factor_facts(estimate, len(estimate.factors) if everything else FACTORS_SHOWN)
    operators = by_time(estimate.operators) if by == "time" else list(estimate.operators)
    if operators:
        lines += ["", *operator_table(operators, len(operators) if everything else SHOWN)]
    for part in (
        precision_lines(estimate.precision_tradeoffs, everything=everything),
        constraint_lines(estimate.constraints),
    ):
        lines += ["", *part] if part else []
    return lines + finding_lines(report.findings, everything=everything)


def fit_facts(report: Report) -> list[str]:
    """Show whether the model runs and fits, and how full the memories are."""
    memory, arena = report.memory, report.arena
    if memory is None or arena is None:
        return []
    needed = arena.bytes if arena.bytes is not None else arena.layout_bytes
    qualifier = "at least " if arena.bytes is None or arena.is_lower_bound else ""
    parts = (
        f"arena {qualifier}{filled(needed, memory.sram_bytes, printable(memory.region or 'SRAM', 20))}",
        f"{'constants' if report.is_native else 'model'} "
        f"{filled(report.model_bytes_in_flash, memory.flash_bytes, 'flash')}",
    )
    return [*runs_fact(report), *fits_fact(report), *fact("", ", ".join(parts))]


def filled(size_bytes: int, limit_bytes: int | None, name: str) -> str:
    """Return a size with its limit and share: "97.3 of 640 KiB in sram (15 %)"."""
    if not limit_bytes:
        return short_size(size_bytes)
    return f"{size_of_limit(size_bytes, limit_bytes)} in {name} ({percent(size_bytes / limit_bytes)})"


def interval_fact(estimate: EstimateInfo) -> list[str]:
    """Show how busy the device is if an input arrives at every interval."""
    if estimate.interval_ms is None or estimate.stream_utilization is None:
        return []
    busy = f"busy {percent(estimate.stream_utilization)} of every {duration(estimate.interval_ms)}"
    return fact("Interval", busy, style=None if estimate.stream_utilization < 1 else {"fg": "red", "bold": True})


def measured_facts(measured: MeasuredInfo | None) -> list[str]:
    """Show a measured run next to the estimate."""
    if measured is None:
        return []
    from edgetool.estimate.memory_speed import rates

    lines = fact("Measured", f"{significant(measured.latency_ms)} ms, {printable(measured.source, 200)}")
    used, limit = measured.bandwidth_utilization, ""
    share = "" if used is None else f" ({percent(used)} of the memory bandwidth)"
    if used is not None:
        limit = f": {printable(measured.verdict.verdict)}"
    rate = f"{rates(measured.bandwidth_gbps)[0]}{share}, {mac_rate(measured.gmacs_per_s)}{limit}"
    lines += fact("", rate)
    return lines + fact("", printable(measured.text, 400), style=None if measured.within_band else {"fg": "yellow"})


def factor_facts(estimate: EstimateInfo, shown: int) -> list[str]:
    """Show what other runtimes need, as published factors by which this time is multiplied, the fastest first."""
    lines: list[str] = []
    ranked = sorted(estimate.factors, key=lambda factor: factor.factor)
    for factor in ranked[:shown]:
        lines += fact("" if lines else "Runtimes", _factor(factor, estimate))
    left = len(ranked) - shown
    return lines + fact("", f"and {left} slower (-v shows all)") if left > 0 else lines


def _factor(factor: FactorInfo, estimate: EstimateInfo) -> str:
    time = "" if estimate.latency_ms is None else f", {duration(estimate.latency_ms.value * factor.factor)}"
    rows = f"{grouped(factor.rows)} measurement{'' if factor.rows == 1 else 's'}"
    return (
        f"{printable(factor.runtime, 30)}: about {factor.factor:.2g}x the time ({factor.low:.2g}x to "
        f"{factor.high:.2g}x, {rows}){time}"
    )


NumberFormat = Callable[[float], str]
MIN_NAME_COLUMNS = 12
BANDWIDTH = "BW: the share of the memory bandwidth that is used."


def comparison_view(reports: Sequence[Report], *, by: str, everything: bool) -> list[str]:
    """Show one line per target and its problems; with `everything` also the full view of each target."""
    interval = next((r.estimate.interval_ms for r in reports if r.estimate is not None), None)
    load = "BW" if interval is None else "busy"
    estimates = [report.estimate for report in reports if report.estimate is not None]
    time = in_common_unit([item.latency_ms.value for item in estimates if item.latency_ms is not None], TIME_UNITS)
    power = in_common_unit([item.energy_uj.value for item in estimates if item.energy_uj is not None], ENERGY_UNITS)
    rows = [_row(report, load, time, power) for report in reports]
    header = ("MHz", "time", "band", "fits", "energy", load, "validation")
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    columns = max(MIN_NAME_COLUMNS, width() - 2 - used)
    named = [(printable(_name(report), columns), *row) for report, row in zip(reports, rows, strict=True)]
    lines = [click.style(printable(reports[0].model.name), bold=True), ""]
    lines += [f"  {line}" for line in table(("target", *header), named, "<>>><>><")]
    legend = BANDWIDTH if interval is None else f"busy: the share of each {duration(interval)} spent on inference."
    lines += ["", *wrapped(legend, "  "), *_measured(reports)]
    unshared, shared = without_shared(reports)
    for report in unshared:
        if everything:
            lines += ["", *estimate_view(report, by=by, everything=True)]
        elif problems := tuple(finding for finding in report.findings if finding.level != "note"):
            lines += ["", f"  {printable(_name(report))}", *finding_lines(problems)[1:]]
    lines += finding_lines([item for item in shared if everything or item.level != "note"], everything=everything)
    return lines if everything else [*lines, "", "  -v shows each target with its operators."]


def _row(report: Report, load: str, time: NumberFormat, power: NumberFormat) -> tuple[str, ...]:
    estimate = report.estimate
    assert estimate is not None
    clock = report.provenance.options.get("clock_hz")
    return (
        f"{clock / 1e6:g}" if isinstance(clock, int | float) else "?",
        "-" if estimate.latency_ms is None else time(estimate.latency_ms.value),
        "-" if estimate.latency_ms is None else _range(estimate.latency_ms, time),
        _fits(report.memory),
        "-" if estimate.energy_uj is None else power(estimate.energy_uj.value),
        _share(estimate.bandwidth_utilization if load == "BW" else estimate.stream_utilization),
        status(estimate),
    )


def _name(report: Report) -> str:
    return report.target.name if report.target is not None else "?"


def _range(band: Band, time: NumberFormat) -> str:
    """Return the band of a time: "22-28 ms"."""
    return f"{time(band.low).partition(' ')[0]}-{time(band.high)}"


def _fits(memory: MemoryInfo | None) -> str:
    judged = (None, None) if memory is None else (memory.arena_fits, memory.model_fits)
    if False in judged:
        return "no"
    return "?" if None in judged else "yes"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _measured(reports: Sequence[Report]) -> list[str]:
    """Show the measured run with which each target's view is compared."""
    run = next((r.estimate.measured for r in reports if r.estimate is not None and r.estimate.measured), None)
    if run is None:
        return []
    return wrapped(f"Measured: {significant(run.latency_ms)} ms, {printable(run.source, 200)}.", "  ")


class Folder(click.Path):
    """The path of a directory. An empty path, as from an unset variable, is not the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail with a usage error if it is empty."""
        if not str(value).strip():
            self.fail("the name of the directory is empty ('.' is the current one)", param, ctx)
        return super().convert(value, param, ctx)


given = partial(option, group="Other")
request_options = stacked(
    given(
        "--interval-ms",
        type=POSITIVE,
        metavar="MS",
        help="Interval between inferences, to compute how busy the core is.",
    ),
    given("--measured-ms", type=POSITIVE, metavar="MS", help="Time that you measured on the board, for comparison."),
    given(
        "--benchmark",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Run the model N times with LiteRT on this machine, and show its bandwidth and GMAC/s.",
    ),
    given(
        "--power-mw",
        type=POSITIVE,
        metavar="MW",
        help="Power that your board draws during inference, to estimate energy.",
    ),
    given(
        "--clock-scale",
        type=Positive(1e-3, 10.0),
        metavar="FACTOR",
        help="Multiply the clock by this factor, e.g. 0.5 for a board throttled to half its clock.",
    ),
)


@click.command(
    "estimate",
    cls=Command,
    examples=(
        "edgetool estimate model.tflite --target nucleo-l4r5zi",
        "edgetool estimate model.tflite -t rpi-pico -t esp32-s3 -t teensy41",
        "edgetool estimate model.tflite -t rpi-pico --interval-ms 500 --csv tables/",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=True, multiple=True)
@request_options
@option(
    "--by",
    group="Output",
    type=click.Choice(["time", "order"]),
    default="time",
    show_default=True,
    help="List the operators slowest first, or in execution order.",
)
@option(
    "--csv", group="Output", type=Folder(path_type=Path), metavar="DIR", help="Write the tables as CSV files into DIR."
)
@option(
    "--time-limit",
    group="Memory plan",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search for a plan.",
)
@custom_operators_option
@json_option
@report_option
@force_option
@quiet_options
def command(
    model: Path,
    target: tuple[str, ...],
    interval_ms: float | None,
    measured_ms: float | None,
    benchmark: int | None,
    power_mw: float | None,
    clock_scale: float | None,
    by: str,
    csv: Path | None,
    time_limit: float,
    custom_operators: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Estimate how long one inference of MODEL, a .tflite file, takes on each target, and what limits it.

    Times and energy are printed with a band and their basis. Several targets are shown side by side. --csv writes
    operator_profile.csv, hardware_totals.csv and hardware_summary.csv, in a folder per target if there are several.
    """
    from edgetool.cli.verdict import closing, joint_verdict
    from edgetool.pipeline.estimate import estimate_file
    from edgetool.pipeline.estimate_report import EstimateRequest
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.json import documents, to_json

    targets = [device for device in (resolve_named(name, **overrides) for name in target) if device is not None]
    request = EstimateRequest(
        measured_ms=measured_ms,
        benchmark_runs=benchmark,
        interval_ms=interval_ms,
        power_mw=power_mw,
        clock_scale=clock_scale,
        time_limit=time_limit,
    )
    inputs = (model,) if custom_operators is None else (model, custom_operators)
    with ProgressLine(quiet=quiet or as_json) as progress:
        reports = estimate_file(model, targets, custom_operators=custom_operators, request=request, progress=progress)
    if csv is not None:
        from edgetool.pipeline.estimate import write_tables

        written = write_tables(reports, csv, force=force, inputs=inputs)
        if not quiet:
            notice(f"wrote {len(written)} tables to {printable(str(csv), 400)}")
    verdict = joint_verdict(reports)
    if as_json or output is not None:
        deliver(to_json(documents(reports)), output, force=force, quiet=quiet, inputs=inputs)
        if output is not None and not quiet and verdict.negative:
            notice(printable(verdict.text, 400))
    elif not quiet:
        everything = verbose > 0
        if len(reports) == 1:
            lines = estimate_view(reports[0], by=by, everything=everything)
        else:
            lines = comparison_view(reports, by=by, everything=everything)
        print_lines([*lines, *closing(verdict, lines)])
