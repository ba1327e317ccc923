"""Prove and measure the generated C of native programs.

python -m benchmarks.native bits FILE_OR_FOLDER... [--into CSV]    outputs of models, compared with TFLM's
python -m benchmarks.native cores --models FILE...                  the same on emulated cores, and their stack
python -m benchmarks.native code FILE... [--into CSV]              flash of code, as counted and in objects
python -m benchmarks.native coverage [--into CSV]                  branches of the kernels that models reach
python -m benchmarks.native rows-bits [--into CSV]                 plans of rows of random networks, and their rows
python -m benchmarks.native instructions all                         instructions, and the tables of the estimates
python -m benchmarks.native rows FILE_OR_FOLDER... [--into CSV]    plans of rows, and their lower bounds
python -m benchmarks.native speed models FILE...                    instructions, compared with those of TFLM
"""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = ("bits", "code", "cores", "coverage", "instructions", "rows", "rows-bits", "speed")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(__doc__)
        return 2
    command = sys.argv.pop(1)
    result: int = import_module(f"benchmarks.native.{command.replace('-', '_')}").main()
    return result


if __name__ == "__main__":
    sys.exit(main())
