"""NAME_profile.c: a program that runs the steps of native code, times each operator, and prints a log.

codegen/profile.py describes the log. It has a line for each operator of the model in the order of the file, with the
time of all its steps: 0 for an operator that became a view, or that the steps of another operator compute.
"""

from __future__ import annotations

from edgetool.codegen.c_names import comment_text
from edgetool.codegen.native.emit import table_rows
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.profile import TickCounter, common_values, counter_of, input_values, literal
from edgetool.codegen.spec import HeaderSpec
from edgetool.codegen.templates import fill
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType

# The runtime and the kernels in the log.
NAME = "native"
REALS = frozenset({DType.FLOAT32})
# The time of the C library.
CLOCK = TickCounter("clock", counts_cycles=False)


def profile_source(spec: HeaderSpec, program: NativeProgram, clock_hz: int | None) -> str:
    """Return the text of NAME_profile.c, which uses the steps of NAME.c and replaces main.c.

    Args:
        spec: The contents of NAME.h.
        program: The steps of the model.
        clock_hz: The clock of the core; None if unknown.

    Raises:
        UnsupportedModelError: The model has no steps.
    """
    if not program.steps:
        raise UnsupportedModelError(
            "its native code executes nothing that could be timed", where=spec.name, fix="omit --profile"
        )
    counter = counter_of(spec.target.core, CLOCK)
    operators = program.graph.operators
    positions = {operator.index: position for position, operator in enumerate(operators)}
    return fill(
        "native/model/profile.c",
        **common_values(spec, counter, clock_hz),
        **input_values(spec.inputs, REALS),
        my_target=comment_text(f"{spec.target.name} ({spec.target.core})"),
        my_rate="one tick is one core cycle" if counter.counts_cycles else "its rate is CLOCKS_PER_SEC",
        my_runtime=NAME,
        MY_OPERATORCOUNT=len(operators),
        MY_OPERATORS=[{"my_operator": literal(operator.label)} for operator in operators],
        MY_STEPCOUNT=len(program.steps),
        MY_STEPS=[{"MY_PLACE": positions[step.operator]} for step in program.steps],
        MY_ROWS=max(1, table_rows(program)),
    )
