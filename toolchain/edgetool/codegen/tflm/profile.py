"""NAME_profile.cc: firmware that runs the model with TFLM, times each operator, and prints a log."""

from __future__ import annotations

from edgetool.codegen import c_names
from edgetool.codegen.c_names import comment_text
from edgetool.codegen.profile import WORD_LENGTH, TickCounter, common_values, counter_of, input_values, literal
from edgetool.codegen.spec import ProgramSpec
from edgetool.codegen.templates import fill
from edgetool.model.types import DType

# The number of events to record (32 bytes each): if it depends on the data, and the maximum (loops can have many
# iterations).
UNKNOWN_EVENTS, MAX_EVENTS = 128, 1024
REALS = frozenset({DType.FLOAT32, DType.FLOAT64})
# The time that TFLM's port to a platform reports.
PORT = TickCounter("tflm", counts_cycles=False)


def profile_source(spec: ProgramSpec) -> str:
    """Return the text of NAME_profile.cc, which uses NAME_runner.h and replaces main.cc."""
    head, shared = spec.header, spec.shared_arena
    counter = counter_of(head.target.core, PORT)
    return fill(
        "tflm/profile.cc",
        **common_values(head, counter, spec.clock_hz),
        **input_values(head.inputs, REALS),
        my_target=comment_text(f"{head.target.name} ({head.target.core}, {head.target.kernels} kernels)"),
        my_rate="one tick is one core cycle" if counter.counts_cycles else "its rate is tflite::ticks_per_second()",
        MY_SHARED=shared is not None,
        my_arena="" if shared is None else c_names.model_identifier(shared),
        MY_ARENA="" if shared is None else c_names.model_macro(shared),
        MY_EVENTS=UNKNOWN_EVENTS if spec.events is None else max(1, min(spec.events, MAX_EVENTS)),
        MY_WORDLENGTH=WORD_LENGTH,
        my_kernels=literal(head.target.kernels),
        my_runtime=literal(head.target.runtime or "-"),
    )
