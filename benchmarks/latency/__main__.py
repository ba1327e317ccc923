"""Hold published measurements against the estimates.

python -m benchmarks.latency ../shared/data               the tables
python -m benchmarks.latency ../shared/data --markdown    the tables of docs/accuracy.md
python -m benchmarks.latency ../shared/data --factors     targets/factors.csv
python -m benchmarks.latency ../shared/data --fit         the figures for the profiles
python -m benchmarks.latency ../shared/data --plots DIR   scatter plots (needs matplotlib)
python -m benchmarks.latency ../shared/data --update      write page, factors and plots where they belong
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.latency.fit import fitted_text
from benchmarks.latency.page import FACTORS, PAGE, PLOTS, with_tables
from benchmarks.latency.report import compare, markdown, tables, text
from benchmarks.latency.runtimes import factors_csv


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="the folder with latency/ and models/")
    parser.add_argument("--markdown", action="store_true", help="print the tables as markdown")
    parser.add_argument("--factors", action="store_true", help="print the table of other runtimes' factors")
    parser.add_argument("--fit", action="store_true", help="print cycles per instruction and bands per core")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write scatter plots there")
    parser.add_argument("--update", action="store_true", help=f"write {PAGE.name}, {FACTORS.name} and the plots")
    given = parser.parse_args()
    if given.fit:
        print(fitted_text(given.data), end="")
        return 0
    results = compare(given.data)
    if given.update:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), markdown(tables(results))), encoding="utf-8")
        FACTORS.write_text(factors_csv(results.shares), encoding="utf-8")
    if given.plots or given.update:
        from benchmarks.latency.plots import draw

        for path in draw(results, given.plots or PLOTS):
            print(path, file=sys.stderr)
    if given.factors:
        print(factors_csv(results.shares), end="")
    elif not given.update:
        found = tables(results)
        print(markdown(found) if given.markdown else text(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
