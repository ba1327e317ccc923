"""Prove and measure generated native code.

python -m benchmarks.native bits|cores|coverage ...
"""

from __future__ import annotations

import sys
from importlib import import_module

SUITES = ("bits", "cores", "coverage")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in SUITES:
        print(f"usage: python -m benchmarks.native {'|'.join(SUITES)} ...", file=sys.stderr)
        return 2
    result: int = import_module(f"benchmarks.native.{sys.argv[1]}").main(sys.argv[2:])
    return result


if __name__ == "__main__":
    raise SystemExit(main())
