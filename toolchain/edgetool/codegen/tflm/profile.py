"""NAME_profile.cc: firmware that runs the model, times each operator, and prints a log.

The log consists of lines "edgetool-profile NUMBER KIND key=value ... *CRC". Lines are numbered from 0 so that a lost
one is noticed; each ends in the CRC-16 of everything before " *" so that a damaged one is detected.
pipeline/device_log.py reads the log.

Time is counted by start_ticks(), read_ticks() and stop_ticks(), which each file in counters/ defines for some cores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgetool.codegen import c_names
from edgetool.codegen.c_names import comment_text
from edgetool.codegen.spec import IoSpec, ProgramSpec
from edgetool.codegen.templates import TemplateValue, fill
from edgetool.model.types import DType

LOG_VERSION = 1
WORD_LENGTH = 48
DEFAULT_RUNS = 10
# The number of events to record (32 bytes each): if it depends on the data, and the maximum (loops can have many
# iterations).
UNKNOWN_EVENTS, MAX_EVENTS = 128, 1024

# Integers have their whole range, so that no kernel runs a special case; values that may be an index or a count are 0.
_RANDOM_BYTES = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})
_RANDOM_REALS = frozenset({DType.FLOAT32, DType.FLOAT64})
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
_TFLM = TickCounter("tflm", counts_cycles=False)
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
CYCLE_COUNTERS = frozenset(counter.name for counter in _BY_CORE.values() if counter.counts_cycles)


def counter_of(core: str) -> TickCounter:
    """Return the counter for a core; that of TFLM's port if the core is unknown."""
    return _BY_CORE.get(core, _TFLM)


def word(text: str) -> str:
    """Return the text as it appears in the log: without blanks, ASCII, at most 48 characters; "-" if it is empty."""
    return _NOT_IN_A_WORD.sub("_", text.encode("utf-8", "surrogatepass").decode("latin-1"))[:WORD_LENGTH] or "-"


def profile_source(spec: ProgramSpec) -> str:
    """Return the text of NAME_profile.cc, which uses NAME_runner.h and replaces main.cc."""
    head, shared = spec.header, spec.shared_arena
    counter = counter_of(head.target.core)
    fills = {position: _fill(tensor) for position, tensor in enumerate(head.inputs) if tensor.size_bytes}
    used = set(fills.values())
    return fill(
        "tflm/profile.cc",
        **c_names.model_names(head.name),
        my_label=comment_text(head.name),
        my_version=comment_text(head.tool_version),
        my_sha256=head.model_sha256,
        my_target=comment_text(f"{head.target.name} ({head.target.core}, {head.target.kernels} kernels)"),
        my_counter=counter.name,
        my_rate="one tick is one core cycle" if counter.counts_cycles else "its rate is tflite::ticks_per_second()",
        MY_SHARED=shared is not None,
        my_arena="" if shared is None else c_names.model_identifier(shared),
        MY_ARENA="" if shared is None else c_names.model_macro(shared),
        MY_RUNS=DEFAULT_RUNS,
        MY_EVENTS=UNKNOWN_EVENTS if spec.events is None else max(1, min(spec.events, MAX_EVENTS)),
        MY_CLOCK=spec.clock_hz or 0,
        MY_CYCLES=counter.counts_cycles,
        MY_COUNTER=_counter(spec, counter),
        MY_WORDLENGTH=WORD_LENGTH,
        MY_RANDOM=bool(used - {"zeros"}),
        MY_RANDOMBYTES="random_bytes" in used,
        MY_RANDOMREALS="random_reals" in used,
        MY_ZEROS="zeros" in used,
        MY_INPUTS=[
            {"my_position": position, "my_fill": function, "MY_UNITS": _units(head.inputs[position], function)}
            for position, function in fills.items()
        ],
        MY_LOGVERSION=LOG_VERSION,
        my_tool=_literal(head.tool_version),
        my_core=_literal(head.target.core),
        my_kernels=_literal(head.target.kernels),
        my_runtime=_literal(head.target.runtime or "-"),
    )


def _counter(spec: ProgramSpec, counter: TickCounter) -> str:
    """Return the C++ of the counter."""
    file = f"tflm/counters/{counter.name}.cc"
    if not counter.counts_cycles:
        return fill(file)
    locked: dict[str, TemplateValue] = {"MY_LOCKED": counter.locked} if counter.name == "dwt" else {}
    macro = c_names.model_macro(spec.header.name)
    return fill(file, MY_MODEL=macro, my_core=_literal(spec.header.target.core), **locked)


def _fill(tensor: IoSpec) -> str:
    """Return the function in C++ that fills the input."""
    if tensor.dtype in _RANDOM_BYTES:
        return "random_bytes"
    return "random_reals" if tensor.dtype in _RANDOM_REALS else "zeros"


def _units(tensor: IoSpec, function: str) -> str:
    # TFLM stores each INT4 in a byte (memory_helpers.cc).
    return "ELEMENTS" if function == "random_reals" or tensor.dtype is DType.INT4 else "BYTES"


def _literal(text: str) -> str:
    """Return a word for the inside of a string literal."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", word(text))
