"""edgetool check: the options of the limits, the command, and the view of its judgements."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import (
    PATH,
    SIZE,
    custom_operators_option,
    force_option,
    json_option,
    place_option,
    quiet_options,
    stacked,
    target_options,
)
from edgetool.cli.output import deliver, duration, notice, print_lines, printable, short_size, table, width, wrapped
from edgetool.cli.page import check_page, html_option, write_reports
from edgetool.cli.settings import implicit_inputs
from edgetool.cli.verdict import SCREEN_LINES
from edgetool.cli.view import drift_lines, finding_lines
from edgetool.errors import FailedCheckError, UsageError
from edgetool.gate.messages import NO_LIMIT, device, gate_of, unjudged_findings, usage, usage_matrix
from edgetool.gate.text import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgetool.gate.limits import Allowance, MemoryBudget
    from edgetool.pipeline.reporting import Described
    from edgetool.report.document import ChangeInfo, FindingInfo, GateInfo, JudgementInfo, LockInfo, MemoryInfo, Report


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """The type of an option whose value a function parses. The function is imported when the option is used."""

    def __init__(self, name: str, reader: Callable[[], Callable[[Any], Any]]) -> None:
        self.name, self._reader = name, reader

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value, or fail with the function's message as a usage error."""
        try:
            return self._reader()(value)
        except UsageError as error:
            self.fail(error.what, param, ctx)


def _time() -> Callable[[Any], Any]:
    from edgetool.target.quantity import parse_time

    return lambda value: parse_time(str(value))


def _percent() -> Callable[[Any], Any]:
    from edgetool.gate.limits import parse_percent

    return lambda value: parse_percent(str(value))


def _allowance() -> Callable[[Any], Any]:
    from edgetool.gate.limits import parse_allowance

    return lambda value: parse_allowance(str(value))


def _budget() -> Callable[[Any], Any]:
    from edgetool.gate.limits import parse_budget

    return parse_budget


BUDGET = Parsed("budget", _budget)
limit = partial(option, group="Limits")
size_limits = stacked(
    limit("--reserve", type=SIZE, default=0, metavar="SIZE", help="RAM reserved for stack and application."),
    limit("--reserve-flash", type=SIZE, default=0, metavar="SIZE", help="Flash reserved for code."),
    limit("--max-arena", type=SIZE, metavar="SIZE", help="Largest arena allowed, whatever memory the target has."),
    limit("--max-latency", type=Parsed("time", _time), metavar="TIME", help="Longest inference allowed, e.g. 50ms."),
)
limit_options = stacked(
    size_limits,
    limit(
        "--max-accuracy-loss",
        type=Parsed("percent", _percent),
        metavar="PERCENT",
        help="Largest accuracy loss due to quantization, in percentage points, e.g. 1%, according to the report.",
    ),
    limit(
        "--report",
        type=PATH,
        multiple=True,
        metavar="FILE",
        help="Report written by 'edgetool convert', if it is not NAME.json next to the model; repeatable.",
    ),
    limit(
        "--memory-budget",
        "memory_budgets",
        type=BUDGET,
        multiple=True,
        metavar="SIZE[:arena|ram|flash]",
        help="Budget to track: exceeding it is reported, but does not fail the check; repeatable.",
    ),
    limit(
        "--active-memory-budget",
        type=BUDGET,
        metavar="SIZE[:arena|ram|flash]",
        help="Budget to enforce: the check fails if it is exceeded.",
    ),
)
lock_options = stacked(
    limit("--lock", type=PATH, default="edgetool.lock", show_default=True, metavar="FILE", help="The lock file."),
    limit("--update", is_flag=True, help="Write the current figures to the lock file."),
    limit("--locked", is_flag=True, help="Fail if anything differs from the lock file."),
    limit(
        "--allow-growth",
        type=Parsed("growth", _allowance),
        multiple=True,
        metavar="PERCENT|SIZE",
        help="Allowed growth over the locked figures, e.g. 2% or 4KiB; repeatable: the larger value applies.",
    ),
)


LONGEST = 600
MIN_PATH = 20
MIN_FILE = 32
LONGEST_NAME = 60
COLUMN_NAME = 24
RULE_COLUMNS = 15  # width of the longest rule name
INDENT = RULE_COLUMNS + 11
MARKS = {True: ("pass", "green"), False: ("FAIL", "red"), None: ("?", "yellow")}
LOCK_STATES = {
    "equal": "matches the lock file",
    "changed": "differs from the lock file",
    "updated": "the lock file was updated with these figures",
    "missing": "there is no lock file",
    "not-in-lock": "the model is not in it",
    "other-target": "it contains the model only for other targets",
}
VIOLATED = {True: "yes", False: "no", None: "unknown"}


def check_view(reports: Sequence[Report], *, everything: bool = False) -> list[str]:
    """Show every report, then for several a matrix of the memory used and a verdict.

    If there are several reports, each one that passes takes one line, and in the others the passing rules share one
    line. everything: show all reports in full, and notes too. Whatever several reports have in common is printed once,
    at the end.
    """
    several = len(reports) > 1
    common = _CommonFindings.of(reports, everything=everything) if several else _CommonFindings()
    lines: list[str] = []
    for report in reports:
        shown = _collapsed(report, common) if several and not everything and gate_of(report).passed else None
        if shown is None:
            shown = [*([""] if lines else []), *_report(report, common, everything), *([""] if several else [])]
        lines += shown
    if not several:
        verdict = _verdict(reports[0], gate_of(reports[0])) if reports else ""
        is_repeated = reports and (not gate_of(reports[0]).passed or len(lines) > SCREEN_LINES)
        return [*lines, "", verdict] if is_repeated else lines
    failed = sum(not gate_of(report).passed for report in reports)
    count = f"{failed} of {len(reports)} fail" if failed else f"all {len(reports)} pass"
    lines += [*common.lines(reports), "", *_matrix(reports), ""]
    lines.append(click.style(count, fg="red" if failed else "green", bold=True))
    return [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]


@dataclass(frozen=True, slots=True)
class _CommonFindings:
    """What several reports have in common: open judgements, and findings about one model on several targets."""

    judgements: dict[JudgementInfo, int] = field(default_factory=dict)
    findings: dict[tuple[str, FindingInfo], int] = field(default_factory=dict)

    @classmethod
    def of(cls, reports: Sequence[Report], *, everything: bool) -> _CommonFindings:
        judgements = Counter(item for report in reports for item in dict.fromkeys(map(_without_values, _open(report))))
        findings = Counter(
            (gate_of(report).path, item)
            for report in reports
            for item in dict.fromkeys(_findings(report, everything=everything))
        )
        return cls(
            {item: count for item, count in judgements.items() if count > 1},
            {item: count for item, count in findings.items() if count > 1},
        )

    def lines(self, reports: Sequence[Report]) -> list[str]:
        """Return the open judgements with the number of reports, then the findings with their model."""
        lines = [""] if self.judgements else []
        for item, count in self.judgements.items():
            number = "" if count == len(reports) else f"{count} of {len(reports)}: "
            lines += _judgement(replace(item, message=f"{number}{item.message}"), set())
        several = len({gate_of(report).path for report in reports}) > 1
        findings = [
            replace(item, where=f"{path}{f', {item.where}' if item.where else ''}") if several else item
            for path, item in self.findings
        ]
        return lines + finding_lines(findings, everything=True)


def _without_values(item: JudgementInfo) -> JudgementInfo:
    return replace(item, value=None, limit=None, over=None)


def _open(report: Report) -> list[JudgementInfo]:
    """Return the judgements that neither fail nor pass outright."""
    return [item for item in gate_of(report).judgements if item.passed is not False and not _passes(item)]


def _passes(item: JudgementInfo) -> bool:
    return bool(item.passed) and item.level != "warning"


def _findings(report: Report, *, everything: bool) -> list[FindingInfo]:
    return [item for item in unjudged_findings(report) if everything or item.level != "note"]


def _collapsed(report: Report, common: _CommonFindings) -> list[str]:
    """Show a passing report in one line, and the open judgements that no other report has."""
    target = "" if report.target is None else f" on {printable(device(report))}"
    mark, _ = MARKS[True]
    figures = ", ".join(_figures(report))
    path = _short_path(gate_of(report).path, width() - len(f"{mark}  {target}: {figures}"))
    lines = wrapped(f"{path}{target}: {figures}", " " * (len(mark) + 2), f"{mark}  ")
    lines[0] = click.style(mark, fg="green") + lines[0].removeprefix(mark)
    for item in _open(report):
        if _without_values(item) not in common.judgements:
            lines += _judgement(item, set())
    lock = gate_of(report).lock
    if lock is not None and (lock.changes or lock.inputs):
        lines += _lock(lock, gate_of(report).judgements)
    drift = gate_of(report).drift
    if drift is not None and (drift.changes or drift.introduced or drift.fixed):
        lines += [*drift_lines(drift, judged=True), ""]
    findings = [
        item for item in _findings(report, everything=False) if (gate_of(report).path, item) not in common.findings
    ]
    return [*lines, *finding_lines(findings)[1:]]


def _short_path(path: str, columns: int) -> str:
    """Return the path if it fits, otherwise its last component, shortened in the middle if necessary."""
    return printable(path if len(path) <= columns else path.rpartition("/")[2], max(columns, MIN_FILE))


def _figures(report: Report) -> list[str]:
    """Show arena and model in bytes or as a share of their limits, and the latency if it is limited."""
    used, memory, arena = usage(report), report.memory, report.arena
    parts = []
    if used.arena != NO_LIMIT:
        region = (memory.region if memory is not None else None) or "SRAM"
        parts.append(f"arena {used.arena} of {printable(region, 20)}")
    elif arena is not None:
        qualifier = "at least " if arena.bytes is None or arena.is_lower_bound else ""
        parts.append(f"arena {qualifier}{short_size(arena.layout_bytes if arena.bytes is None else arena.bytes)}")
    flash = short_size(report.model_bytes_in_flash) if used.flash == NO_LIMIT else f"{used.flash} of flash"
    parts.append(f"model {flash}")
    limited = any(item.rule == "max-latency" for item in gate_of(report).judgements)
    latency = report.estimate.latency_ms if limited and report.estimate is not None else None
    return parts if latency is None else [*parts, f"about {duration(latency.value)}"]


def _matrix(reports: Sequence[Report]) -> list[str]:
    """Show the share of memory used, models by targets, in as many tables as the terminal's width requires.

    A single model has a row for each target.
    """
    matrix = usage_matrix(reports)
    names, columns, cells = matrix.models, matrix.targets, [list(row) for row in matrix.cells]
    corner = "model"
    if len(names) == 1:
        corner, names, columns = "target", columns, (names[0].rpartition("/")[2],)
        cells = [[cell] for cell in cells[0]]
    texts = [["" if cell is None else f"{cell}{'' if cell.passed else ' FAIL'}" for cell in row] for row in cells]
    heads = [printable(name, COLUMN_NAME) for name in columns]
    path_columns = max(MIN_PATH, width() - 4 - max(len(text) for row in (heads, *texts) for text in row))
    folder = names[0][: names[0].rfind("/") + 1]
    is_common = len(names) > 1 and all(name.startswith(folder) for name in names)
    where = f", models in {printable(folder)}" if is_common and folder else ""
    rows = [
        printable(name.removeprefix(folder) if is_common else name, min(path_columns, LONGEST_NAME)) for name in names
    ]
    lines = wrapped(f"Memory used: arena (share of SRAM) / model (share of flash){where}", "  ", "")
    lines[0] = lines[0].replace("Memory used:", click.style("Memory used:", bold=True), 1)
    left = 2 + max(len(name) for name in (corner, *rows))
    start = 0
    while start < len(heads):
        end, used = start, left
        while end < len(heads):
            used += 2 + max(len(text) for text in (heads[end], *(row[end] for row in texts)))
            if used > width() and end > start:
                break
            end += 1
        block = [(name, *row[start:end]) for name, row in zip(rows, texts, strict=True)]
        shown = table((corner, *heads[start:end]), block, "<" + ">" * (end - start))
        lines += [*([""] if start else []), *(f"  {_marked(line)}" for line in shown)]
        start = end
    return lines


def _marked(line: str) -> str:
    return line.replace("FAIL", click.style("FAIL", fg="red", bold=True)) if "% FAIL" in line else line


def _report(report: Report, common: _CommonFindings, everything: bool) -> list[str]:
    gate = gate_of(report)
    lines = [_verdict(report, gate), *_device(report), ""]
    shown: set[tuple[str, ...]] = set()
    collapses = not everything and not gate.passed
    for item in sorted(gate.judgements, key=lambda item: item.passed is not False):
        if not (collapses and _passes(item)) and _without_values(item) not in common.judgements:
            lines += _judgement(item, shown)
    passing = [printable(item.rule) for item in gate.judgements if _passes(item)]
    if collapses and passing:
        mark, color = MARKS[True]
        passing_lines = wrapped(", ".join(passing), " " * 8, f"  {mark:<4}  ")
        passing_lines[0] = passing_lines[0].replace(mark, click.style(mark, fg=color), 1)
        lines += passing_lines
    if report.memory is not None:
        lines += _budgets(report.memory)
    if gate.lock is not None:
        lines += _lock(gate.lock, gate.judgements)
    if gate.drift is not None:
        lines += drift_lines(gate.drift, everything=everything, judged=True)
    findings = [item for item in _findings(report, everything=everything) if (gate.path, item) not in common.findings]
    return lines + finding_lines(findings, everything=everything)


def _verdict(report: Report, gate: GateInfo) -> str:
    """Show the path, the target and the verdict; the failed rules too if they fit on the line."""
    target = "" if report.target is None else f" on {printable(device(report))}"
    word, color = ("passes", "green") if gate.passed else ("FAILS", "red")
    columns = width() - len(f"{target} {word}")
    line = f"{click.style(printable(gate.path, max(columns, MIN_PATH)), bold=True)}{target} "
    line += click.style(word, fg=color, bold=True)
    failed = [item.rule for item in gate.judgements if item.passed is False]
    rules = f": {', '.join(dict.fromkeys(failed))}"
    return line + rules if failed and len(click.unstyle(line + rules)) <= width() else line


def _device(report: Report) -> list[str]:
    """Show the device that the figures are for."""
    target = report.target
    if target is None:
        return []
    board = f"{printable(target.board)}, " if target.board else ""
    build = "native code" if report.is_native else f"{target.kernels} kernels, {target.runtime}"
    return wrapped(f"{board}{target.core}, {build}", "  ")


def _judgement(item: JudgementInfo, shown: set[tuple[str, ...]]) -> list[str]:
    """Show one judgement, without causes and advice that an earlier judgement has shown."""
    mark, color = MARKS[item.passed]
    if item.passed and item.level == "warning":
        mark, color = "warn", "yellow"
    start = f"  {mark:<4}  {item.rule:<{RULE_COLUMNS}} "
    lines = wrapped(printable(item.message, LONGEST), " " * len(start), start)
    lines[0] = lines[0].replace(mark, click.style(mark, fg=color, bold=item.passed is False), 1)
    if item.causes and item.causes not in shown:
        lines += _listed(item.causes, "cause")
    if item.advice and item.advice not in shown:
        lines += _listed(item.advice, "suggestions")
    shown |= {item.causes, item.advice}
    return lines


def _listed(texts: Sequence[str], title: str) -> list[str]:
    lines: list[str] = []
    for text in texts:
        label = title if not lines else ""
        start = f"        {label:<{RULE_COLUMNS}} "
        if title == "suggestions":
            start += "- "
        lines += wrapped(printable(text, LONGEST), " " * INDENT, start)
    return lines


def _budgets(memory: MemoryInfo) -> list[str]:
    lines: list[str] = []
    for budget in memory.budgets:
        start = f"        {'budgets' if not lines else '':<{RULE_COLUMNS}} "
        verdict = VIOLATED[budget.violated]
        lines += wrapped(f"{budget.name}: {verdict} ({budget.of}, {budget.bytes:,} B)", " " * len(start), start)
    return lines


def _lock(lock: LockInfo, judgements: Sequence[JudgementInfo]) -> list[str]:
    """Show the state of the lock, which inputs differ, and the changes with their causes."""
    from edgetool.gate.lock_judgement import GUARDED

    reported = {item.rule for item in judgements}
    if lock.state in ("missing", "not-in-lock", "other-target") and "lock" in reported:
        return []
    start = f"        {'lock':<{RULE_COLUMNS}} "
    lines = wrapped(LOCK_STATES[lock.state], " " * len(start), start)
    indent = " " * len(start)
    for text in lock.inputs:
        lines += wrapped(printable(text, LONGEST), f"{indent}  ", f"{indent}- ")
    grown = {item.causes for item in judgements if item.rule == "growth" and item.passed is False}
    others = []
    for change in lock.changes:
        if change.figure not in GUARDED:
            others.append(change)
            continue
        lines += wrapped(_change(change), f"{indent}  ", indent)
        if change.causes not in grown:
            for cause in change.causes:
                lines += wrapped(printable(cause, LONGEST), f"{indent}    ", f"{indent}  ")
    if others:
        named = ", ".join(_change(change) for change in others if not change.figure.endswith(("_low", "_high")))
        lines += wrapped(f"also {named}" if named else "", f"{indent}  ", indent) if named else []
    return lines


def _change(change: ChangeInfo) -> str:
    before = "unknown" if change.before is None else exact(change.before, change.unit)
    after = "unknown" if change.after is None else exact(change.after, change.unit)
    return f"{printable(change.figure)} {before} to {after}"


# Output formats for other programs: the module whose text() produces each.
FORMS = {
    "github": "edgetool.gate.github",
    "junit": "edgetool.gate.junit",
    "sarif": "edgetool.gate.sarif",
    "markdown": "edgetool.gate.markdown",
}


@click.command(
    "check",
    cls=Command,
    examples=(
        "edgetool check model.tflite --target nucleo-l4r5zi --max-latency 50ms",
        "edgetool check models/*.tflite -t rpi-pico -t esp32-s3 --reserve 32KiB",
        "edgetool check model.tflite -t rpi-pico --update",
    ),
)
@click.argument("paths", type=PATH, nargs=-1, metavar="[MODEL]...")
@option("--models", type=PATH, multiple=True, hidden=True, help="The models to check if no MODEL is given.")
@target_options(required=True, multiple=True, runtimes=True)
@limit_options
@lock_options
@place_option
@custom_operators_option
@option(
    "--format",
    group="Output",
    type=click.Choice(["text", "json", *FORMS]),
    default="text",
    show_default=True,
    help="Format of the result: text, the JSON document, or a format for CI services.",
)
@json_option
@option(
    "--output",
    "-o",
    group="Output",
    type=PATH,
    metavar="FILE",
    help="Write the result in that format to FILE, and the text to stdout.",
)
@html_option
@force_option
@quiet_options
def command(
    paths: tuple[Path, ...],
    models: tuple[Path, ...],
    target: tuple[str, ...],
    runtime: tuple[str, ...],
    reserve: int,
    reserve_flash: int,
    max_arena: int | None,
    max_latency: float | None,
    max_accuracy_loss: float | None,
    report: tuple[Path, ...],
    memory_budgets: tuple[MemoryBudget, ...],
    active_memory_budget: MemoryBudget | None,
    lock: Path,
    update: bool,
    locked: bool,
    allow_growth: tuple[Allowance, ...],
    custom_operators: Path | None,
    place: str | None,
    format: str,  # named like the key in edgetool.toml
    as_json: bool,
    output: Path | None,
    html: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Check whether each MODEL, a .tflite file, fits each target, is fast enough and has not grown.

    Arena, model size and latency are compared with the target's memory, with the limits given as options, and with
    edgetool.lock, which --update writes; commit that file. Each model is checked unchanged, with the memory plan in
    the file if there is one. With several --runtime, each is judged, and those after the first also by what they
    change; the lock file is that of the first. Without MODEL, the models are taken from the key "models" in the table
    [check] of edgetool.toml. Exits with 1 if a model fails.
    """
    from edgetool.gate.limits import ModelLimits, largest_allowance
    from edgetool.pipeline.check import CheckRequest, check_models
    from edgetool.pipeline.output import check_writable
    from edgetool.pipeline.targets import resolve_for_plan

    files = paths or tuple(file for path in models for file in _matching(path))
    if not files:
        raise UsageError(
            "no model is given", fix='name a .tflite file, or set models = ["..."] in [check] of edgetool.toml'
        )
    builds = [resolve_for_plan(name, **overrides, runtime=each)[0] for name in target for each in runtime or (None,)]
    targets = [build for build in builds if build is not None]
    request = CheckRequest(
        limits=ModelLimits(
            reserve_bytes=reserve,
            reserve_flash_bytes=reserve_flash,
            max_latency_ms=max_latency,
            max_arena_bytes=max_arena,
            max_accuracy_loss=max_accuracy_loss,
            max_extra_macs=overrides["max_extra_macs"],
            budgets=memory_budgets,
            active_budget=active_memory_budget,
        ),
        allowance=largest_allowance(allow_growth),
        lock=lock,
        update=update,
        locked=locked,
        reports=report,
        custom_operators=custom_operators,
        place=place,
    )
    read = (*files, *report, lock, custom_operators, *implicit_inputs(*target))
    inputs = tuple(path for path in read if path is not None)
    if output is not None:
        check_writable(output.parent, (output.name,), force=force, inputs=inputs)
    check_page(html, force=force, inputs=inputs, outputs={"--output": output})
    described: list[Described] | None = None if html is None else []
    checked = check_models(files, targets, request, described=described)
    if html is not None and described is not None:
        write_reports(html, described, force=force, quiet=quiet, inputs=inputs)
    form = "json" if as_json else format
    view = check_view(checked.reports, everything=verbose > 0)
    if output is not None:
        plain = "".join(f"{click.unstyle(line)}\n" for line in view)
        text = plain if form == "text" else _text(form, checked.reports)
        deliver(text, output, force=force, quiet=quiet, inputs=inputs)
    if form == "text" or output is not None:
        if not quiet:
            print_lines(view)
    else:
        deliver(_text(form, checked.reports), None)
    notices = [*([] if checked.written is None else [f"wrote {checked.written}"]), *checked.notices]
    for text in [] if quiet else notices:
        notice(printable(text, 400))
    if checked.passed:
        return
    if quiet:
        failed = [report.check for report in checked.reports if report.check is not None and not report.check.passed]
        rules = sorted({item.rule for gate in failed for item in gate.judgements if item.passed is False})
        paths_failed = dict.fromkeys(gate.path for gate in failed)
        raise FailedCheckError(f"fails: {', '.join(rules)}", where=", ".join(paths_failed))
    raise click.exceptions.Exit(FailedCheckError.exit_code)


def _matching(path: Path) -> list[Path]:
    """Return the files that match a pattern in the settings, which no shell has expanded."""
    matches = [] if path.exists() or path.is_absolute() else sorted(Path().glob(str(path)))
    return matches or [path]


def _text(form: str, reports: Sequence[Report]) -> str:
    if form == "json":
        from edgetool.report.json import documents, to_json

        return to_json(documents(reports))
    shown = tuple(_in_checkout(report) for report in reports) if form in ("github", "sarif") else reports
    rendered: str = importlib.import_module(FORMS[form]).text(shown)
    return rendered


def _in_checkout(report: Report) -> Report:
    """Return the report with the path relative to the top of the checkout, where GitHub looks for it."""
    root = os.environ.get("GITHUB_WORKSPACE")
    if not root or report.check is None:
        return report
    model, top = Path(os.path.abspath(report.check.path)), Path(os.path.abspath(root))
    if not model.is_relative_to(top):
        return report
    return replace(report, check=replace(report.check, path=model.relative_to(top).as_posix()))
