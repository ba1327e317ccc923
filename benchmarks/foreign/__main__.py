"""Converts the networks and measures; see the package."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.foreign.networks import NETWORKS
from benchmarks.foreign.page import PAGE, with_table
from benchmarks.foreign.times import IMPORTERS, TIMES, Times, measure
from benchmarks.foreign.trial import DOORS, RESULTS, Result, convert, read_rows, replaced, write_rows
from tests.in_process import no_children


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foreign", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    converting = commands.add_parser("convert", help="convert and run on TFLM")
    converting.add_argument("folder", type=Path, help="folder of the models")
    converting.add_argument("names", nargs="*", metavar="NAME", help="all when none is given")
    converting.add_argument("--doors", nargs="+", choices=DOORS, default=list(DOORS))
    timing = commands.add_parser("times", help="measure the CPU time of conversions and their importers")
    timing.add_argument("folder", type=Path, help="folder of the models")
    timing.add_argument("names", nargs="+", metavar="NAME")
    commands.add_parser("page", help="write the table of docs/conversion.md")
    arguments = parser.parse_args()
    if arguments.command == "page":
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), read_rows(RESULTS, Result)), encoding="utf-8")
        return
    if arguments.command == "times":
        for name in arguments.names:
            for door in IMPORTERS:
                times = measure(name, door, arguments.folder)
                write_rows(TIMES, Times, replaced(read_rows(TIMES, Times), times, list(NETWORKS)))
                print(times, flush=True)
        return
    for name in arguments.names or NETWORKS:
        for door in arguments.doors:
            if not (arguments.folder / f"{name}{DOORS[door][0]}").exists():
                print(name, door, "not built", sep="  ", flush=True)
                continue
            with no_children():
                result = convert(name, door, arguments.folder)
            write_rows(RESULTS, Result, replaced(read_rows(RESULTS, Result), result, list(NETWORKS)))
            print(*(str(getattr(result, field)) for field in Result.__slots__), sep="  ", flush=True)


if __name__ == "__main__":
    main()
