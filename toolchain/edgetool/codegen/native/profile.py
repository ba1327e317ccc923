"""NAME_profile.c: a program that runs the steps of native code, times each operator, and prints a log.

codegen/profile.py describes the log. It has a line for each operator of the model in the order of the file, with the
time of all its steps: 0 for an operator that became a view, or that the steps of another operator compute. In a plan of
rows, the steps of an operator run several times in each inference, and the program adds up their times.
"""

from __future__ import annotations

from edgetool.codegen.c_names import comment_text
from edgetool.codegen.native.emit import io_type, table_rows
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.row_tables import RowTables
from edgetool.codegen.profile import TickCounter, common_values, counter_of, filling_of, input_values, literal
from edgetool.codegen.spec import HeaderSpec
from edgetool.codegen.templates import fill
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType

# The runtime and the kernels in the log.
NAME = "native"
REALS = frozenset({DType.FLOAT32})
REAL_BYTES = 4
# The time of the C library.
CLOCK = TickCounter("clock", counts_cycles=False)


def profile_source(
    spec: HeaderSpec, program: NativeProgram, clock_hz: int | None, tables: RowTables | None = None
) -> str:
    """Return the text of NAME_profile.c, which uses the steps of NAME.c and replaces main.c.

    Args:
        spec: The contents of NAME.h.
        program: The steps of the model.
        clock_hz: The clock of the core; None if unknown.
        tables: Those of a plan of rows.

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
    feeds = () if tables is None else tables.feeds
    fills = {feed.position: filling_of(spec.inputs[feed.position], REALS) for feed in feeds}
    return fill(
        "native/model/profile.c",
        **common_values(spec, counter, clock_hz),
        **input_values(spec.inputs, REALS, fed=fills),
        MY_ROWWISE=tables is not None,
        MY_HANDED=bool(tables is not None and (tables.feeds or tables.takes)),
        MY_HANDEDCOUNT=0 if tables is None else len(tables.feeds) + len(tables.takes),
        MY_FIRINGS=0 if tables is None else tables.firings,
        MY_FEDS=[
            {
                "my_position": feed.position,
                "my_fill": fills[feed.position],
                "my_type": io_type(program.graph.tensors[program.graph.inputs[feed.position]]),
                "MY_AMOUNT": feed.row_bytes // (REAL_BYTES if fills[feed.position] == "random_reals" else 1),
                "MY_FEEDNUMBER": feed.number,
                "MY_TENSOR": feed.tensor,
                "MY_FIRST": feed.first,
            }
            for feed in feeds
        ],
        my_target=comment_text(f"{spec.target.name} ({spec.target.core})"),
        my_rate="one tick is one core cycle" if counter.counts_cycles else "its rate is CLOCKS_PER_SEC",
        my_runtime=NAME,
        MY_OPERATORCOUNT=len(operators),
        MY_OPERATORS=[{"my_operator": literal(operator.label)} for operator in operators],
        MY_STEPCOUNT=len(program.steps),
        MY_STEPS=[{"MY_PLACE": positions[step.operator]} for step in program.steps],
        MY_ROWS=max(1, table_rows(program)),
    )
