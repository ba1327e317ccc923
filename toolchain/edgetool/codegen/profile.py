"""Programs that time each operator of a model on the device: the log that they print, their counters and their inputs.

The log consists of lines "edgetool-profile NUMBER KIND key=value ... *CRC". Lines are numbered from 0 so that a lost
one is noticed; each ends in the CRC-16 of everything before " *" so that a damaged one is detected.
pipeline/device_log.py reads the log.

Time is counted by start_ticks(), read_ticks() and stop_ticks(), which each file in counters/ defines for some cores.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgetool.codegen import c_names
from edgetool.codegen.spec import HeaderSpec, IoSpec
from edgetool.codegen.templates import TemplateValue, fill
from edgetool.model.types import DType

LOG_VERSION = 1
WORD_LENGTH = 48
DEFAULT_RUNS = 10

_NOT_IN_A_WORD = re.compile(r"[^!-~]")


@dataclass(frozen=True, slots=True)
class TickCounter:
    """A counter that the profile reads.

    Attributes:
        name: Its name in the log, and that of its file in counters/.
        counts_cycles: Whether a tick is a cycle of the core.
        locked: Whether the debug unit must be unlocked first.
    """

    name: str
    counts_cycles: bool = True
    locked: bool = False


_DWT, _SYSTICK, _CCOUNT = TickCounter("dwt"), TickCounter("systick"), TickCounter("ccount")
_BY_CORE = {
    "cortex-m0": _SYSTICK,
    "cortex-m0plus": _SYSTICK,
    "cortex-m23": _SYSTICK,
    "cortex-m3": _DWT,
    "cortex-m4": _DWT,
    "cortex-m33": _DWT,
    "cortex-m55": _DWT,
    "cortex-m85": _DWT,
    "cortex-m7": TickCounter("dwt", locked=True),
    "riscv32": TickCounter("mcycle"),
    "xtensa-lx6": _CCOUNT,
    "xtensa-lx7": _CCOUNT,
}
# The names in the log of the counters whose ticks are cycles of the core.
CYCLE_COUNTERS = frozenset(counter.name for counter in _BY_CORE.values())


def counter_of(core: str, other: TickCounter) -> TickCounter:
    """Return the cycle counter of a core; `other` if none is known."""
    return _BY_CORE.get(core, other)


def word(text: str) -> str:
    """Return the text as it appears in the log: without blanks, ASCII, at most 48 characters; "-" if it is empty."""
    return _NOT_IN_A_WORD.sub("_", text.encode("utf-8", "surrogatepass").decode("latin-1"))[:WORD_LENGTH] or "-"


def literal(text: str) -> str:
    """Return a word for the inside of a string literal."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", word(text))


def common_values(spec: HeaderSpec, counter: TickCounter, clock_hz: int | None) -> dict[str, TemplateValue]:
    """Return the values of the placeholders that the programs for all runtimes have."""
    return {
        **c_names.model_names(spec.name),
        "my_label": c_names.comment_text(spec.name),
        "my_version": c_names.comment_text(spec.tool_version),
        "my_sha256": spec.model_sha256,
        "my_counter": counter.name,
        "MY_RUNS": DEFAULT_RUNS,
        "MY_CLOCK": clock_hz or 0,
        "MY_CYCLES": counter.counts_cycles,
        "MY_COUNTER": _counter(spec, counter),
        "MY_LOGVERSION": LOG_VERSION,
        "my_tool": literal(spec.tool_version),
        "my_core": literal(spec.target.core),
    }


def _counter(spec: HeaderSpec, counter: TickCounter) -> str:
    """Return the code of the counter, which is C and C++."""
    file = f"counters/{counter.name}.{'cc' if counter.name == 'tflm' else 'c'}"
    if not counter.counts_cycles:
        return fill(file)
    locked: dict[str, TemplateValue] = {"MY_LOCKED": counter.locked} if counter.name == "dwt" else {}
    return fill(file, MY_MODEL=c_names.model_macro(spec.name), my_core=literal(spec.target.core), **locked)


Filling: TypeAlias = Literal["random_bytes", "random_reals", "zeros"]
# Integers have their whole range, so that no kernel runs a special case; values that may be an index or a count are 0.
_RANDOM_BYTES = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})


def input_values(
    inputs: Sequence[IoSpec], reals: frozenset[DType], fed: Collection[int] = ()
) -> dict[str, TemplateValue]:
    """Return the values of the placeholders with which a program fills its inputs.

    reals: the types that its function random_reals supports. fed: the positions of inputs that are left out.
    """
    fills = {position: filling_of(tensor, reals) for position, tensor in enumerate(inputs) if tensor.size_bytes}
    used = set(fills.values())
    return {
        "MY_RANDOM": bool(used - {"zeros"}),
        "MY_RANDOMBYTES": "random_bytes" in used,
        "MY_RANDOMREALS": "random_reals" in used,
        "MY_ZEROS": "zeros" in used,
        "MY_INPUTS": [
            {"my_position": position, "my_fill": filling, "MY_UNITS": _units(inputs[position], filling)}
            for position, filling in fills.items()
            if position not in fed
        ],
    }


def filling_of(tensor: IoSpec, reals: frozenset[DType]) -> Filling:
    """Return the function that fills the input."""
    if tensor.dtype in _RANDOM_BYTES:
        return "random_bytes"
    return "random_reals" if tensor.dtype in reals else "zeros"


def _units(tensor: IoSpec, filling: Filling) -> str:
    # TFLM stores each INT4 in a byte (memory_helpers.cc).
    return "ELEMENTS" if filling == "random_reals" or tensor.dtype is DType.INT4 else "BYTES"
