"""The view of a sweep: its settings, a table of variants per target with the front marked, and remarks on the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import click

from edgetool.cli.output import (
    COUNT_UNITS,
    ENERGY_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    duration,
    energy,
    fact,
    in_common_unit,
    printable,
    table,
    width,
    wrapped,
)
from edgetool.errors import in_words
from edgetool.figure import significant
from edgetool.gate.limits import SUBJECTS
from edgetool.sweep.front import accuracy_of, default_axes, sqnr_of
from edgetool.target.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from edgetool.report.document import Band
    from edgetool.sweep.metrics import Cause, Cost, Quality, Row, Variant
    from edgetool.sweep.spec import SweepLimits
    from edgetool.sweep.store import SweepRecord

UNKNOWN = "-"
GAP = 2  # as in output.table
LONGEST_NAME = 16
MIN_VERDICT, MAX_VERDICT = 14, 28  # minimum width, for which columns are dropped, and width when all columns are shown
SAVED = ("arena_bytes", "model_bytes", "macs")  # in the order of the legend
ALWAYS = 100  # rank of columns that are never dropped
CAUSES: Mapping[Cause, str] = {
    "runtime": "TFLM",
    "arena unknown": "arena unknown",
    "memory": "SRAM",
    "flash": "flash",
    "budget": "budget",
    "latency": "latency",
    "energy": "energy",
    "accuracy": "accuracy",
}
STYLES: Mapping[str, dict[str, Any]] = {
    "front": {"bold": True},
    "rejected": {"dim": True},
    "pending": {"dim": True},
    "failed": {"fg": "red"},
}


@dataclass(frozen=True, slots=True)
class Column:
    """key: its name in --csv. rank: columns of low rank are dropped first. legend: what it shows."""

    key: str
    header: str
    align: Literal["<", ">"]
    cell: Callable[[Row], str]
    rank: int
    legend: str = ""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns that fit the terminal, and the headers of those left out."""

    columns: tuple[Column, ...]
    verdict_width: int
    left_out: tuple[str, ...] = ()


def accuracy_word(rows: Sequence[Row]) -> str:
    """Return the meaning of the accuracy column: correct answers, or agreement with the original."""
    has_accuracy = any(row.metrics is not None and row.metrics.quality.accuracy is not None for row in rows)
    return "accuracy" if has_accuracy else "agreement"


def layout(rows: Sequence[Row], *, all_rows: Sequence[Row], everything: bool = False) -> ColumnLayout:
    """Choose the columns for these rows; with `everything` all of them, however wide."""
    savings_by_row = savings(all_rows)
    shared = {} if everything else same_everywhere(all_rows)
    informative = [
        column
        for column in _columns(rows, savings_by_row)
        if column.key not in shared and _is_informative(column, rows)
    ]
    needed = max((len(verdict(row)) for row in rows), default=0)
    if everything:
        return ColumnLayout(tuple(informative), MAX_VERDICT)
    widths = {column.key: _width(column, rows) for column in informative}
    minimum = min(needed, MIN_VERDICT)
    left_out: list[Column] = []

    def remaining() -> int:
        return width() - sum(widths[column.key] + GAP for column in informative if column not in left_out)

    for column in sorted(informative, key=lambda column: column.rank):
        if remaining() >= minimum or column.rank == ALWAYS:
            break
        left_out.append(column)
    kept = tuple(column for column in informative if column not in left_out)
    shown = max(remaining(), minimum)
    return ColumnLayout(kept, shown, tuple(column.header for column in informative if column in left_out))


def same_everywhere(rows: Sequence[Row]) -> dict[str, str]:
    """Return, by column, the settings that all variants share; these need no column."""
    precisions = {row.variant.precision for row in rows}
    levels = {row.variant.level for row in rows}
    shared = {"precision": precisions.pop()} if len(precisions) == 1 else {}
    return {**shared, **({"level": pruned_text(levels.pop())} if len(levels) == 1 else {})}


def table_lines(rows: Sequence[Row], chosen: ColumnLayout) -> list[str]:
    """Show the table: the front bold, rejected and pending variants dim, failed ones red."""
    header = [column.header for column in chosen.columns]
    cells = [
        [*(column.cell(row) for column in chosen.columns), _within(verdict(row), chosen.verdict_width)] for row in rows
    ]
    align = "".join(column.align for column in chosen.columns)
    head, *lines = table([*header, "verdict"], cells, f"{align}<")
    return [head, *(click.style(line, **STYLES.get(state(row), {})) for line, row in zip(lines, rows, strict=True))]


def state(row: Row) -> str:
    """Return "front", "accepted", "rejected", "failed" or "pending"."""
    if row.judged is None:
        return row.status
    if row.on_front:
        return "front"
    return "accepted" if row.judged.accepted else "rejected"


def verdict(row: Row) -> str:
    """Return "accepted", or the limits that the variant violates."""
    if row.status == "failed":
        return f"failed {plain((row.reason or '').partition(':')[0])}".rstrip()  # the reason is shown below
    if row.judged is None:
        return row.status
    if row.judged.accepted:
        return "accepted"
    return ", ".join(CAUSES[cause] for cause in row.judged.causes)


def plain(text: str, limit: int = 400) -> str:
    """Return a reason or note in one line of printable characters."""
    return printable(" ".join(text.split()), limit)


def value_text(value: object) -> str:
    """Return a parameter as a table shows it."""
    return printable(
        significant(value, 6).rstrip("0").rstrip(".")
        if isinstance(value, float) and value % 1
        else f"{value:.0f}"
        if isinstance(value, float) and abs(value) < 1e15
        else str(value),
        LONGEST_NAME,
    )


def level_text(level: float) -> str:
    """Return "25 %" or "12.5 %"."""
    return f"{100 * level:.4g} %"


def variant_text(variant: Variant) -> str:
    """Return a variant in words, without its target: width 0.5, pruned 25 %, int8."""
    parameters = [f"{printable(name, LONGEST_NAME)} {value_text(value)}" for name, value in variant.parameters]
    return ", ".join([*parameters, pruned_text(variant.level), variant.precision, *variant.planning])


def pruned_text(level: float) -> str:
    """Return "pruned 25 %" or "not pruned"."""
    return f"pruned {level_text(level)}" if level else "not pruned"


def share(value: float | None) -> str:
    """Return "97.0 %"."""
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def savings(rows: Sequence[Row]) -> dict[int, str]:
    """Return, by row number, the percentages of arena, model and MACs saved compared with level 0."""
    from edgetool.sweep.table import saved

    return {
        number: "/".join(f"{100 * shares[name]:.0f}" if name in shares else UNKNOWN for name in SAVED)
        for number, shares in saved(rows).items()
    }


def _columns(rows: Sequence[Row], savings_by_row: Mapping[int, str]) -> list[Column]:
    names = list(dict.fromkeys(name for row in rows for name, _ in row.variant.parameters))
    word = accuracy_word(rows)
    costs = [row.metrics.cost for row in rows if row.metrics is not None]
    time = in_common_unit([cost.latency_ms.value for cost in costs if cost.latency_ms is not None], TIME_UNITS)
    power = in_common_unit([cost.energy_uj.value for cost in costs if cost.energy_uj is not None], ENERGY_UNITS)
    arena = in_common_unit([_arena_bytes(cost) for cost in costs], SIZE_UNITS, 3)
    model = in_common_unit([cost.model_bytes for cost in costs], SIZE_UNITS, 3)
    parameters = in_common_unit([cost.parameters for cost in costs], COUNT_UNITS, 3)
    macs = in_common_unit([cost.macs for cost in costs], COUNT_UNITS, 3)
    return [
        Column("on_front", "", "<", lambda row: "*" if row.on_front else "", ALWAYS),
        Column("number", "no", ">", lambda row: str(row.number), ALWAYS),
        *(_parameter(name) for name in names),
        Column("level", "pruned", ">", lambda row: level_text(row.variant.level), ALWAYS),
        Column("precision", "precision", "<", lambda row: row.variant.precision, ALWAYS),
        *([Column("planning", "planned", "<", _planning, ALWAYS)] if any(row.variant.planning for row in rows) else []),
        Column("accuracy", word, ">", _of_quality(lambda quality: share(accuracy_of(quality))), 90, _ACCURACY[word]),
        Column("sqnr_db", "SQNR dB", ">", _of_quality(_sqnr), 4),
        Column("arena_bytes", "arena", ">", _of_cost(lambda cost: _arena(cost, arena)), 80),
        Column("model_bytes", "model", ">", _of_cost(lambda cost: model(cost.model_bytes)), 60),
        Column("latency_ms", "latency", ">", _of_cost(lambda cost: _middle(cost.latency_ms, time)), 70),
        Column("latency_low_ms", "band ms", ">", _of_cost(lambda cost: _band(cost.latency_ms)), 2),
        Column("energy_uj", "energy", ">", _of_cost(lambda cost: _middle(cost.energy_uj, power)), 3),
        Column("model_parameters", "params", ">", _of_cost(lambda cost: parameters(cost.parameters)), -1),
        Column("macs", "MACs", ">", _of_cost(lambda cost: macs(cost.macs)), -2),
        Column("saved", "saved %", ">", lambda row: savings_by_row.get(row.number, ""), 5, _SAVED_LEGEND),
    ]


_ACCURACY = {
    "accuracy": "accuracy: the fraction of correct predictions on the evaluation data",
    "agreement": "agreement: the fraction of samples with the same prediction as the original float model",
}
_SAVED_LEGEND = "saved: reduction in arena/model/MACs compared with the unpruned variant"


def _planning(row: Row) -> str:
    return ", ".join(row.variant.planning)


def _parameter(name: str) -> Column:
    def cell(row: Row) -> str:
        return value_text(dict(row.variant.parameters).get(name, UNKNOWN))

    return Column(f"param_{name}", printable(name, LONGEST_NAME), ">", cell, ALWAYS)


def _of_quality(cell: Callable[[Quality], str]) -> Callable[[Row], str]:
    return lambda row: UNKNOWN if row.metrics is None else cell(row.metrics.quality)


def _of_cost(cell: Callable[[Cost], str]) -> Callable[[Row], str]:
    return lambda row: UNKNOWN if row.metrics is None else cell(row.metrics.cost)


def _sqnr(quality: Quality) -> str:
    value = sqnr_of(quality)
    if value is None:
        return UNKNOWN
    return "equal" if value == float("inf") else f"{value:.1f}"


def _arena(cost: Cost, shown: Callable[[float], str]) -> str:
    return f"{'>=' if cost.arena_bytes is None else ''}{shown(_arena_bytes(cost))}"


def _arena_bytes(cost: Cost) -> int:
    return cost.arena_least_bytes if cost.arena_bytes is None else cost.arena_bytes


def _middle(band: Band | None, shown: Callable[[float], str]) -> str:
    return UNKNOWN if band is None else shown(band.value)


def _band(band: Band | None) -> str:
    return UNKNOWN if band is None else f"{significant(band.low, 2)}-{significant(band.high, 2)}"


def _is_informative(column: Column, rows: Sequence[Row]) -> bool:
    return column.rank == ALWAYS or any(column.cell(row) not in ("", UNKNOWN) for row in rows)


def _width(column: Column, rows: Sequence[Row]) -> int:
    return max([len(column.header), *(len(column.cell(row)) for row in rows)])


def _within(text: str, limit: int) -> str:
    """Return the items of a longer list that fit, and how many more there are; for other texts, the beginning."""
    items = text.split(", ")
    for kept in range(len(items), 0, -1):
        short = ", ".join([*items[:kept], *([f"+{len(items) - kept}"] if kept < len(items) else [])])
        if len(short) <= limit:
            return short
    return cut(text, limit)


def cut(text: str, limit: int) -> str:
    """Return the text, with its end omitted if it is too long."""
    return text if len(text) <= limit else f"{text[: max(limit - 3, 1)].rstrip()}..."


MAX_NOTES = 6
STATUSES = ("done", "failed", "pending")
AXIS_WORDS = {
    "accuracy": "accuracy",
    "sqnr_db": "SQNR",
    "latency_ms": "latency",
    "energy_uj": "energy",
    "arena_bytes": "arena",
    "model_bytes": "model",
    "macs": "MACs",
    "model_parameters": "parameters",
}

# When an axis replaces another; other axes are used where known.
REPLACEMENT_REASONS = {"sqnr_db": "no accuracy is known"}


def sweep_view(
    record: SweepRecord, rows: Sequence[Row], *, all_rows: Sequence[Row] | None = None, everything: bool = False
) -> list[str]:
    """Show the rows out of all rows of the sweep; with `everything` all columns, reasons and notes."""
    whole = rows if all_rows is None else all_rows
    lines = heading(record, rows, whole)
    chosen = layout(rows, all_rows=whole, everything=everything)
    for label, group in by_target(record, rows):
        lines += ["", *_target(label, group, [row for row in whole if row.variant.target == label])]
        lines += table_lines(group, chosen)
    if rows:
        lines += ["", *legend(rows, chosen)]
    return lines + remarks(rows, everything=everything)


def heading(record: SweepRecord, rows: Sequence[Row], all_rows: Sequence[Row]) -> list[str]:
    """Show the sweep's name and model, its progress, and the limits that variants must meet."""
    count = Counter(row.status for row in all_rows)
    states = [f"{count[status]} {status}" for status in STATUSES if count[status]]
    accepted = sum(row.judged is not None and row.judged.accepted for row in all_rows)
    text = (
        f"{variants(len(all_rows))}: {', '.join([*states, f'{accepted} accepted'])}" if all_rows else "no variants yet"
    )
    if len(rows) != len(all_rows):
        text += f"; {len(rows)} shown"
    name = click.style(printable(record.name), bold=True)
    lines = [f"{name} ({printable(record.model)})" if record.model else name, *fact("Variants", text)]
    if record.strategy == "search":
        lines += fact(
            "Searched",
            f"for {in_words([AXIS_WORDS[name] for name in record.objectives])}, without evaluating the whole grid",
        )
    same = same_everywhere(all_rows)
    lines += fact("All", ", ".join(same.values())) if same else []
    limits = _limits(record.limits)
    return lines + (fact("Limits", "; ".join(limits)) if limits else [])


def by_target(record: SweepRecord, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows of each target that has any, in the order of the sweep.toml."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.variant.target].append(row)
    labels = [target.label for target in record.targets if target.label in groups]
    return [(label, groups[label]) for label in (*labels, *(label for label in groups if label not in labels))]


def legend(rows: Sequence[Row], chosen: ColumnLayout) -> list[str]:
    """Explain the mark and the columns, and name the columns that did not fit."""
    texts = []
    if any(row.on_front for row in rows):
        texts.append(
            f"*: no other accepted variant of the target is at least as good in {_front_axes(rows)} and better in at "
            "least one"
        )
    texts += [column.legend for column in chosen.columns if column.legend]
    if any(row.judged is not None and row.judged.causes for row in rows):
        texts.append("verdict: accepted, or the limits that are exceeded")
    lines = wrapped("; ".join(texts), "") if texts else []
    if chosen.left_out:
        lines += wrapped(
            f"Not shown for lack of space: {', '.join(chosen.left_out)} (use -v, or 'edgetool sweep show --csv')", ""
        )
    return lines


def _front_axes(rows: Sequence[Row]) -> str:
    """Name the axes of the targets' fronts: those with known values."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.judged is not None and row.judged.accepted:
            groups[row.variant.target].append(row)
    fronts = [default_axes(group) for group in groups.values()]
    words = [
        AXIS_WORDS[name]
        + ("" if all(name in axes for axes in fronts) else f" (where {REPLACEMENT_REASONS.get(name, 'known')})")
        for name in AXIS_WORDS
        if any(name in axes for axes in fronts)
    ]
    return in_words(words)


def remarks(rows: Sequence[Row], *, everything: bool) -> list[str]:
    """Show why variants failed and notes on others; with `everything` also each reason for rejection, once."""
    from edgetool.sweep.table import sweep_warnings

    failed = _grouped((row.reason or "for an unknown reason", row.number) for row in rows if row.status == "failed")
    notes = _grouped((note, row.number) for row in rows for note in row.notes)
    lines = [_remark("warning", "yellow", f"{_subject(numbers)} failed: {plain(text)}") for text, numbers in failed]
    lines += [
        _remark("warning", "yellow", f"{plain(item.message)} ({_subject(item.numbers)})")
        for item in sweep_warnings(rows)
    ]
    shown = notes if everything else notes[:MAX_NOTES]
    lines += [_remark("note", "cyan", f"{plain(text)} ({_subject(numbers)})") for text, numbers in shown]
    if everything:
        lines += [
            _remark("rejected", "red", f"{_subject(numbers)}: {plain(text)}")
            for text, numbers in _grouped(
                (reason, row.number) for row in rows if row.judged is not None for reason in row.judged.rejected
            )
        ]
    flat = [line for remark in lines for line in remark]
    if len(shown) < len(notes):
        flat.append(f"  ... and {len(notes) - len(shown)} more notes (-v shows all)")
    return ["", *flat] if flat else []


def variants(count: int) -> str:
    """Return "1 variant" or "36 variants"."""
    return f"{count:,} variant{'' if count == 1 else 's'}"


def numbers_text(numbers: Iterable[int]) -> str:
    """Return "3-5, 8"."""
    ordered = sorted(set(numbers))
    starts = [0, *(place for place, (one, two) in enumerate(pairwise(ordered), 1) if two != one + 1), len(ordered)]
    runs = [ordered[start:end] for start, end in pairwise(starts)]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs if run)


def target_heading(label: str, text: str) -> str:
    """Show a target and a text about it in one line, or in two if that is too wide."""
    name = click.style(printable(label), bold=True)
    return f"{name}: {text}" if len(printable(label)) + 2 + len(text) <= width() else f"{name}:\n  {text}"


def _target(label: str, rows: Sequence[Row], all_rows: Sequence[Row]) -> list[str]:
    """Show the target's memories, and how many of its variants violate each budget."""
    costs = [row.metrics.cost for row in all_rows if row.metrics is not None]
    if not costs:
        return [target_heading(label, "no results yet")]
    cost = costs[0]
    memories = [] if cost.sram_bytes is None else [f"{format_size(cost.sram_bytes)} in {cost.region or 'SRAM'}"]
    memories += [] if cost.flash_bytes is None else [f"{format_size(cost.flash_bytes)} flash"]
    judged = [row.judged for row in all_rows if row.judged is not None]
    accepted = sum(item.accepted for item in judged)
    text = f"{printable(', '.join(memories)) or 'no memory limits'}; {accepted} of {len(all_rows)} accepted"
    lines = [target_heading(label, text)]
    tracked = {budget.name: budget for item in judged for budget in item.budgets}
    counts = Counter(budget.name for item in judged for budget in item.budgets if budget.violated)
    texts = [f"{budget.budget} ({budget.of}) by {counts[name]}" for name, budget in tracked.items()]
    return lines + (wrapped(f"Budgets violated: {', '.join(texts)} of {len(judged)}", "    ", "  ") if texts else [])


def _limits(limits: SweepLimits) -> list[str]:
    texts = []
    if limits.active_budget is not None:
        texts.append(f"{SUBJECTS[limits.active_budget.of]} at most {limits.active_budget.text}")
    if limits.reserve_bytes:
        texts.append(f"{format_size(limits.reserve_bytes)} of RAM reserved")
    if limits.reserve_flash_bytes:
        texts.append(f"{format_size(limits.reserve_flash_bytes)} of flash reserved")
    if limits.max_latency_ms is not None:
        texts.append(f"latency at most {duration(limits.max_latency_ms, 3)}")
    if limits.max_energy_uj is not None:
        texts.append(f"energy at most {energy(limits.max_energy_uj)}")
    if limits.min_accuracy is not None:
        texts.append(f"accuracy at least {share(limits.min_accuracy)}")
    if limits.max_accuracy_loss is not None:
        texts.append(f"accuracy loss at most {limits.max_accuracy_loss:g} points")
    return texts


def _grouped(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for text, number in pairs:
        groups[text].append(number)
    return list(groups.items())


def _subject(numbers: Sequence[int]) -> str:
    return f"variant{'' if len(numbers) == 1 else 's'} {numbers_text(numbers)}"


def _remark(label: str, color: str, text: str) -> list[str]:
    lines = wrapped(text, " " * (len(label) + 4), f"  {label}: ")
    lines[0] = lines[0].replace(f"{label}:", click.style(f"{label}:", fg=color, bold=True), 1)
    return lines
