"""The table of docs/conversion.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.zoo.left_out import LEFT_OUT
from benchmarks.zoo.trial import Trial

PAGE = Path(__file__).parents[2] / "docs" / "conversion.md"
START = "<!-- the table: python -m benchmarks.zoo --update -->\n"
END = "<!-- the end of the table -->"
HEAD = """
| model | description | format | outcome | operators | arena, M4 | arena, M7 | SQNR | allowed | LiteRT |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A trial with the arena on a second core."""

    trial: Trial
    other_arena_bytes: int | None


def table_of(page: str) -> str:
    """What the page has between its marks. Raises ValueError when one is missing."""
    _, start, rest = page.partition(START)
    inside, end, _ = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page has no {START.strip() if not start else END}")
    return inside


def with_table(page: str, table: str) -> str:
    """The page with this table between its marks."""
    return page.replace(f"{START}{table_of(page)}{END}", f"{START}{table}{END}")


def markdown(rows: Sequence[Row]) -> str:
    """Totals, a table per group, and what of keras.layers is left out."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.trial.entry.group, []).append(row)
    parts = [totals(rows)]
    for group, members in groups.items():
        parts += [
            f"\n### {group[0].upper()}{group[1:]}\n",
            HEAD.rstrip("\n"),
            *(f"\n{line(row)}" for row in members),
            "\n",
        ]
    left = "\n".join(f"| `{name}` | {why} |" for name, why in LEFT_OUT.items())
    parts.append(f"\n### Layers without a model\n\n| layer | why |\n| --- | --- |\n{left}\n")
    return "".join(parts)


def totals(rows: Sequence[Row]) -> str:
    """One sentence on how many did what."""
    ran = [row.trial for row in rows if row.trial.refusal is None]
    good = sum(all(output.good for output in trial.outputs) for trial in ran)
    same = sum(all(output.same for output in trial.outputs) for trial in ran)
    within = "all" if good == len(ran) else f"{good} of them"
    return (
        f"Of the {len(rows)} models, {len(ran)} run on TFLM, {within} within the allowed SQNR, and "
        f"{len(rows) - len(ran)} are rejected. TFLM and LiteRT give bit-identical outputs for {same} models.\n"
    )


def line(row: Row) -> str:
    """A row of the table."""
    trial = row.trial
    entry = trial.entry
    start = f"| `{entry.name}` | {entry.about} | {entry.format}"
    if trial.refusal is not None:
        return f"{start} | rejected: {_refusal(trial.refusal)} | | | | | | |"
    worst = trial.worst
    litert = (
        "same" if all(o.same for o in trial.outputs) else "alike" if all(o.like_litert for o in trial.outputs) else "no"
    )
    return (
        f"{start} | {'runs' if worst.good else '**below**'} | {trial.operators} | {_size(row.other_arena_bytes)} | "
        f"{_size(trial.arena_bytes)} | {_db(worst.sqnr_db)} | {_db(worst.allowed_db)} | {litert} |"
    )


def _refusal(text: str) -> str:
    """The first sentence of a refusal."""
    return text.partition(" | ")[0].replace("|", "\\|")


def _size(size_bytes: int | None) -> str:
    return "" if size_bytes is None else str(size_bytes)


def _db(ratio: float | None) -> str:
    return "exact" if ratio is None else f"{ratio:.1f}"
