"""The view of a sweep: what was asked for, a table per target with the front marked, and what to know of the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import click

from edgetool.cli.text import duration, energy, fact, printable, width, wrapped
from edgetool.cli.view_sweep_table import Layout, layout, plain, same_everywhere, share, table_lines
from edgetool.gate.limits import WHAT
from edgetool.sweep.front import default_axes
from edgetool.sweep.metrics import Row
from edgetool.sweep.spec import SweepLimits
from edgetool.sweep.store import SweepRecord
from edgetool.sweep.table import cautions
from edgetool.target.quantity import format_size

MOST_NOTES = 6
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

WHEN = {"sqnr_db": "no accuracy is known"}  # an axis of a front stands for another; others where they are known


def sweep_view(
    record: SweepRecord, rows: Sequence[Row], *, every: Sequence[Row] | None = None, everything: bool = False
) -> list[str]:
    """The rows, of every row of the sweep; everything: all columns however wide, all reasons and notes."""
    whole = rows if every is None else every
    lines = heading(record, rows, whole)
    chosen = layout(rows, every=whole, everything=everything)
    for label, group in by_target(record, rows):
        lines += ["", *_target(label, group, [row for row in whole if row.variant.target == label])]
        lines += table_lines(group, chosen)
    if rows:
        lines += ["", *legend(rows, chosen)]
    return lines + remarks(rows, everything=everything)


def heading(record: SweepRecord, rows: Sequence[Row], every: Sequence[Row]) -> list[str]:
    """The sweep's name and model, how much of it is done, and what a variant must keep."""
    count = Counter(row.status for row in every)
    states = [f"{count[status]} {status}" for status in STATUSES if count[status]]
    accepted = sum(row.judged is not None and row.judged.accepted for row in every)
    text = f"{variants(len(every))}: {', '.join([*states, f'{accepted} accepted'])}" if every else "no variants yet"
    if len(rows) != len(every):
        text += f"; {len(rows)} shown"
    name = click.style(printable(record.name), bold=True)
    lines = [f"{name} ({printable(record.model)})" if record.model else name, *fact("Variants", text)]
    if record.strategy == "search":
        lines += fact(
            "Searched",
            f"for {_listed([AXIS_WORDS[name] for name in record.objectives])}, without evaluating the whole grid",
        )
    same = same_everywhere(every)
    lines += fact("All", ", ".join(same.values())) if same else []
    limits = _limits(record.limits)
    return lines + (fact("Limits", "; ".join(limits)) if limits else [])


def by_target(record: SweepRecord, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of each target that has some, in the order of the sweep.toml."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.variant.target].append(row)
    known = [target.label for target in record.targets if target.label in groups]
    return [(label, groups[label]) for label in (*known, *(label for label in groups if label not in known))]


def legend(rows: Sequence[Row], chosen: Layout) -> list[str]:
    """What the mark and the columns say, and what there was no room for."""
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
    """What the targets' fronts are of: each is of what is known of its variants."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.judged is not None and row.judged.accepted:
            groups[row.variant.target].append(row)
    fronts = [default_axes(group) for group in groups.values()]
    words = [
        AXIS_WORDS[name] + ("" if all(name in axes for axes in fronts) else f" (where {WHEN.get(name, 'known')})")
        for name in AXIS_WORDS
        if any(name in axes for axes in fronts)
    ]
    return _listed(words)


def remarks(rows: Sequence[Row], *, everything: bool) -> list[str]:
    """Why variants failed, what to know of others, and with everything each reason why one is rejected; each once."""
    failed = _grouped((row.reason or "for an unknown reason", row.number) for row in rows if row.status == "failed")
    notes = _grouped((note, row.number) for row in rows for note in row.notes)
    lines = [_remark("warning", "yellow", f"{_subject(numbers)} failed: {plain(text)}") for text, numbers in failed]
    lines += [
        _remark("warning", "yellow", f"{plain(item.message)} ({_subject(item.numbers)})") for item in cautions(rows)
    ]
    shown = notes if everything else notes[:MOST_NOTES]
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
    """1 variant; 36 variants."""
    return f"{count:,} variant{'' if count == 1 else 's'}"


def numbers_text(numbers: Iterable[int]) -> str:
    """3-5, 8."""
    ordered = sorted(set(numbers))
    starts = [0, *(place for place, (one, two) in enumerate(pairwise(ordered), 1) if two != one + 1), len(ordered)]
    runs = [ordered[start:end] for start, end in pairwise(starts)]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs if run)


def target_heading(label: str, text: str) -> str:
    """A target and what is said of it in one line, or in two where that is too wide."""
    name = click.style(printable(label), bold=True)
    return f"{name}: {text}" if len(printable(label)) + 2 + len(text) <= width() else f"{name}:\n  {text}"


def _target(label: str, rows: Sequence[Row], every: Sequence[Row]) -> list[str]:
    """Its memories, and how many of its variants violate each budget."""
    costs = [row.metrics.cost for row in every if row.metrics is not None]
    if not costs:
        return [target_heading(label, "no results yet")]
    known = costs[0]
    memories = [] if known.sram_bytes is None else [f"{format_size(known.sram_bytes)} in {known.region or 'SRAM'}"]
    memories += [] if known.flash_bytes is None else [f"{format_size(known.flash_bytes)} flash"]
    judged = [row.judged for row in every if row.judged is not None]
    accepted = sum(item.accepted for item in judged)
    text = f"{printable(', '.join(memories)) or 'no memory limits'}; {accepted} of {len(every)} accepted"
    lines = [target_heading(label, text)]
    tracked = {budget.name: budget for item in judged for budget in item.budgets}
    counts = Counter(budget.name for item in judged for budget in item.budgets if budget.violated)
    told = [f"{budget.budget} ({budget.of}) by {counts[name]}" for name, budget in tracked.items()]
    return lines + (wrapped(f"Budgets violated: {', '.join(told)} of {len(judged)}", "    ", "  ") if told else [])


def _limits(limits: SweepLimits) -> list[str]:
    texts = []
    if limits.active_budget is not None:
        texts.append(f"{WHAT[limits.active_budget.of]} at most {limits.active_budget.text}")
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


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


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
