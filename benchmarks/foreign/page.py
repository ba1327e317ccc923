"""The table of docs/conversion.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.foreign.networks import NETWORKS
from benchmarks.foreign.trial import DOORS, Result

PAGE = Path(__file__).parents[2] / "docs" / "conversion.md"
START = "<!-- the table of foreign models: python -m benchmarks.foreign page -->\n"
END = "<!-- the end of the table of foreign models -->"
HEAD = """
| network | description | operators | arena | SQNR | TRANSPOSE |
| --- | --- | ---: | ---: | ---: | ---: |
"""


def with_table(page: str, results: Sequence[Result]) -> str:
    """Return the page with the table of the results between its marks. Raises ValueError if one is missing."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page has no {START.strip() if not start else END}")
    return f"{before}{start}{markdown(results)}{end}{after}"


def markdown(results: Sequence[Result]) -> str:
    """Return the totals, and a row for each network with the figures of the doors."""
    by_door = {door: [result for result in results if result.door == door] for door in DOORS}
    names = [name for name in NETWORKS if any(result.network == name for result in results)]
    counts = ", ".join(f"{sum(r.runs for r in rows)} of {len(rows)} from {door}" for door, rows in by_door.items())
    lines = "".join(f"{_line(name, [r for r in results if r.network == name])}\n" for name in names)
    return f"These run on TFLM: {counts}.\n{HEAD}{lines}"


def _line(name: str, results: Sequence[Result]) -> str:
    cells = [
        _cell([str(getattr(result, field)) if result.runs else "rejected" for result in results]) for field in FIELDS
    ]
    return f"| `{name}` | {NETWORKS[name].about} | {' | '.join(cells)} |"


FIELDS = ("operators", "arena_bytes", "sqnr_db", "transposes")


def _cell(values: Sequence[str]) -> str:
    """Return the values of the doors; one if they are the same."""
    return values[0] if len(set(values)) == 1 else " / ".join(values)
