"""Where the results belong: the page with the tables, the table of factors, the plots."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
PLOTS = ROOT / "docs" / "accuracy"
FACTORS = ROOT / "targets" / "factors.csv"

START = "<!-- the tables: python -m benchmarks.latency ../shared/data --update -->\n"
END = "<!-- the end of the tables -->"


def tables_of(page: str) -> str:
    """What the page has between its two marks. Raises ValueError when one of them is missing."""
    _, start, rest = page.partition(START)
    inside, end, _ = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page has no {START.strip() if not start else END}")
    return inside


def with_tables(page: str, tables: str) -> str:
    """The page with these tables between its two marks. Raises ValueError when one of them is missing."""
    return page.replace(f"{START}{tables_of(page)}{END}", f"{START}{tables}{END}")
