"""The stack that NAME_invoke needs: an upper bound for a named compiler, core and optimization level.

It is the frame of NAME_invoke with its table of row pointers, that of edgetool_run, and the largest of the kernels that
the program calls, each with what it calls itself. For plans of rows, they are NAME_invoke_rows, with what it calls in
NAME.c, and edgetool_fire. The frames are measured (stack.csv, by benchmarks/native/stack.py).
Interrupts and the caller's own frames come on top.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from edgetool.codegen.native.emit import table_rows
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.templates import read_file

POINTER_BYTES = 4  # on every core of the table
STACK_ALIGNMENT = 16  # of RISC-V; Arm's is 8
INVOKE, RUN, RUN_SEVERAL = "invoke", "edgetool_run", "edgetool_run_several"
INVOKE_ROWS, FIRE, FIRE_SEVERAL = "invoke_rows", "edgetool_fire", "edgetool_fire_several"


@dataclass(frozen=True, slots=True)
class StackBound:
    """The most bytes of stack below the caller of NAME_invoke, if this compiler builds the code at this level."""

    compiler: str
    core: str
    level: str
    stack_bytes: int


@cache
def _frames() -> dict[tuple[str, str, str], dict[str, int]]:
    """Return the measured bytes by compiler, core and level, and by function."""
    frames: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in csv.DictReader(read_file("native/stack.csv").splitlines()):
        key = row["compiler"], row["core"], row["level"]
        frames.setdefault(key, {})[row["function"]] = int(row["stack_bytes"])
    return frames


def stack_bounds(
    program: NativeProgram, core: str | None = None, *, row_wise: bool = False, placed: bool = False
) -> tuple[StackBound, ...]:
    """Return the bounds of a program on a core, or on every core that was measured.

    row_wise: with a plan of rows. placed: with an arena in several memories.
    """
    caller = INVOKE_ROWS if row_wise else INVOKE
    one, several = (FIRE, FIRE_SEVERAL) if row_wise else (RUN, RUN_SEVERAL)
    runtime = several if placed else one
    rows = max(1, table_rows(program)) * POINTER_BYTES
    bounds = []
    for (compiler, name, level), frames in _frames().items():
        if core is not None and name != core:
            continue
        invoke = -(-(frames[caller] + rows) // STACK_ALIGNMENT) * STACK_ALIGNMENT
        kernels = max((frames[kernel] for kernel in program.kernels), default=0)
        run = frames[runtime] if program.steps else 0
        bounds.append(StackBound(compiler, name, level, invoke + run + kernels))
    return tuple(bounds)
