"""A step as its kernel sees it, and the loop counts that all steps have.

The executed instructions of a step are linear in the counts of its loops. A rule of a kernel returns the path that the
step takes through it and how many times each of its loops iterates in one inference. The instructions per iteration are
data (targets/cores/instructions/CORE.native.csv), fitted to counts on emulated cores by benchmarks/native.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from edgetool.codegen.native.fixed_point import DOUBLE_ROUNDING, SIGN, WIDE
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step
from edgetool.operators.loops import LoopCounts, Loops, check_steps

WORD = 4


@dataclass(frozen=True, slots=True)
class Code:
    """The variant of the kernels that a compiler builds for a core, by its macros.

    dsp: with Arm's DSP extension. helium: with Helium. thumb1: for Armv6-M. riscv: for RISC-V.
    """

    dsp: bool = False
    helium: bool = False
    thumb1: bool = False
    riscv: bool = False

    @classmethod
    def of(cls, isa: str, *, dsp: bool, mve: bool) -> Code:
        """Return the variant of a core."""
        return cls(dsp, mve, thumb1=isa.startswith("armv6"), riscv=isa.startswith("rv"))


@dataclass(frozen=True)
class StepCall:
    """A step and where its rows are.

    Attributes:
        step: The step.
        code: The variant of its kernel.
        descending: Whether it runs with the field of its descriptor set that its overlap needs.
        starts: The address of each input's first row, modulo 4.
        output_start: That of the output's first row.
        shares_bytes: Whether the output has bytes of an input.
        distance: The bytes from the output's first row to that of the first input if they share bytes, else None.
    """

    step: Step
    code: Code
    descending: bool = False
    starts: tuple[int, ...] = ()
    output_start: int = 0
    shares_bytes: bool = False
    distance: int | None = None

    @cached_property
    def fields(self) -> Mapping[str, FieldValue]:
        """The values of the descriptor by field."""
        return dict(self.step.op.values)

    def __getitem__(self, name: str) -> int:
        """Return a number of the descriptor."""
        value = self.fields[name]
        assert isinstance(value, int)
        return value

    def has(self, name: str) -> bool:
        """Return whether a pointer of the descriptor is not null."""
        return self.fields[name] is not None

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return an array of the descriptor, or one in flash, as numbers."""
        value = self.fields[name]
        if isinstance(value, Constant):
            return tuple(self.array(name).tolist())
        assert isinstance(value, tuple)
        return value

    def array(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """Return an array of integers in flash."""
        value = self.fields[name]
        assert isinstance(value, Constant)
        unsigned = value.c_type.startswith("u")
        bits = int("".join(filter(str.isdigit, value.c_type)))
        return np.frombuffer(value.data, f"<{'u' if unsigned else 'i'}{bits // 8}")

    @property
    def rows(self) -> int:
        """The number of output rows of all batches."""
        return self.step.rows * self.step.batches

    @property
    def calls(self) -> int:
        """The number of calls of the kernel."""
        return self.step.batches * -(-self.step.rows // self.step.band)

    @property
    def elements(self) -> int:
        """The number of output bytes."""
        return self.rows * self.step.row_bytes

    def bands(self) -> Iterator[range]:
        """Yield the output rows of each call of one batch."""
        check_steps(self.step.rows)
        for first in range(0, self.step.rows, self.step.band):
            yield range(first, min(first + self.step.band, self.step.rows))

    def tap_rows(self, row: int, position: int = 0) -> tuple[int | None, ...]:
        """Return the input rows that an output row needs; None is a row outside the input."""
        item = self.step.inputs[position]
        places = (row * item.stride - item.pad + tap * item.dilation for tap in range(item.taps))
        return tuple(place // item.divisor if 0 <= place < item.rows * item.divisor else None for place in places)

    def row_start(self, row: int, position: int = 0) -> int:
        """Return the address of an input row, modulo 4."""
        return (self.starts[position] + row * self.step.inputs[position].row_bytes) % WORD

    @property
    def form(self) -> str:
        """The name of the form of the scales."""
        return form_of(self["shift"])

    @property
    def is_full_range(self) -> bool:
        """Whether the fused activation clamps to nothing but int8."""
        return self["low"] == -128 and self["high"] == 127


def form_of(shift: int) -> str:
    """Return the name of the form of scales with a shift: see edgetool_scale."""
    return {DOUBLE_ROUNDING: "double", WIDE: "wide", SIGN: "sign"}.get(shift, "line")


LoopRule = Callable[[StepCall], LoopCounts]


def run_loops(call: StepCall) -> Loops:
    """Return the loops of edgetool_run for a step: the calls of its kernel, and the table of pointers to rows."""
    step = call.step
    inside = sum(_inside(item, step.rows) for item in step.inputs)
    pointers = step.rows * sum(item.taps for item in step.inputs)
    return {
        "batches": step.batches,
        "kernel calls": call.calls,
        "rows of inputs": call.rows * len(step.inputs),
        "rows inside": step.batches * inside,
        "rows outside": step.batches * (pointers - inside),
    }


def _inside(item: RowInput, rows: int) -> int:
    """Return how many of the pointers to an input's rows are not null."""
    first = np.arange(rows, dtype=np.int64)[:, None] * item.stride - item.pad
    places = first + np.arange(item.taps, dtype=np.int64)[None] * item.dilation
    return int(((places >= 0) & (places < item.rows * item.divisor)).sum())
