"""Builds and converts networks; see the package."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.networks import NETWORKS
from benchmarks.networks.files import network_file

from edgetool.model.reader import read_model


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks", description="Build and convert networks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all when none is given")
    parser.add_argument("--work", type=Path, required=True, help="folder of the .tflite files; those there are kept")
    arguments = parser.parse_args()
    for name in arguments.names or NETWORKS:
        started = time.perf_counter()
        path = network_file(name, arguments.work)
        count = len(read_model(path.read_bytes()).main.operators)
        print(f"{name:<20} {count:>4} operators {time.perf_counter() - started:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
