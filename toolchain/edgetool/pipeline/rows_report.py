"""Plans of rows as reports describe them."""

from __future__ import annotations

from edgetool.codegen.native.row_plan import NativeRows
from edgetool.codegen.native.row_tables import table_bytes
from edgetool.memory.streaming.planner import segments_of
from edgetool.report.document import RowSegment, RowsInfo, RowTensorInfo
from edgetool.report.rows_picture import in_parts, rows_live


def rows_info(rows: NativeRows) -> RowsInfo:
    """Return the section of a report that describes a plan of rows."""
    problem, plan, fed = rows.problem, rows.plan, len(rows.fed)
    segment = segments_of(rows.cuts, len(problem.operators))
    steps: list[list[int]] = [[] for _ in rows.cuts]
    for step, number in enumerate(plan.schedule):
        steps[segment[number]].append(step)
    operators: list[list[int]] = [[] for _ in rows.cuts]
    for position, item in enumerate(rows.program.steps, fed):
        operators[segment[position]].append(item.operator)
    return RowsInfo(
        memory_bytes=plan.memory_bytes,
        lower_bound_bytes=plan.lower_bound or None,
        steps=len(plan.schedule),
        table_bytes=table_bytes(rows.program, problem, plan),
        row_inputs=tuple(rows.program.graph.tensors[index].name for index in rows.fed),
        segments=tuple(
            RowSegment(tuple(dict.fromkeys(items)), taken[0], taken[-1])
            for items, taken in zip(operators, steps, strict=True)
            if taken
        ),
        tensors=tuple(
            RowTensorInfo(item.name, item.tensor, item.rows, item.row_bytes, max(live, default=0), in_parts(live))
            for item, live in zip(problem.tensors, rows_live(problem, plan), strict=True)
        ),
    )
