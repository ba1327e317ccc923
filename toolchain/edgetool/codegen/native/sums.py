"""Sums over the rows of an image in two steps, for plans of rows: each row is added to one row of sums when it exists.

Otherwise AVERAGE_POOL_2D, MEAN and SUM need all rows at once. The sums are a tensor that only the native program has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from edgetool.codegen.native.program import FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import Site
from edgetool.model.types import DType, Graph, Tensor
from edgetool.operators.overlap import elements_distance

CODES = frozenset({"AVERAGE_POOL_2D", "MEAN", "SUM"})
SUM_BYTES = 4


@dataclass(frozen=True, slots=True)
class SummedRows:
    """How the rows of an image are added up: two loops over kept and two over reduced axes of a row, outer ones first.

    Attributes:
        rows: The number of rows that are added.
        row_bytes: The size of each.
        kept: The count and the step in elements of each loop over outputs.
        reduced: The same for the codes that are added to each output.
        start: The first code of a row that is added.
    """

    rows: int
    row_bytes: int
    kept: tuple[tuple[int, int], tuple[int, int]]
    reduced: tuple[tuple[int, int], tuple[int, int]]
    start: int = 0

    @property
    def outputs(self) -> int:
        """The number of sums."""
        return prod(count for count, _ in self.kept)

    @property
    def saves_memory(self) -> bool:
        """Whether the sums and one row take less than all rows."""
        return SUM_BYTES * self.outputs + self.row_bytes < self.rows * self.row_bytes


def sums_tensors(graph: Graph, first: int) -> dict[int, Tensor]:
    """Return a tensor for the sums of each operator that may need it, by operator, with indices from `first` on."""
    operators = [
        item for item in graph.operators if item.code in CODES and graph.tensors[item.inputs[0]].dtype is DType.INT8
    ]
    return {
        operator.index: Tensor(
            index=first + number,
            name=f"sums of {operator.label}",
            shape=(graph.tensors[operator.outputs[0]].element_count,),
            dtype=DType.INT32,
            data=None,
            quantization=None,
            is_variable=False,
        )
        for number, operator in enumerate(operators)
    }


def summed_rows_steps(site: Site, summed: SummedRows, **values: FieldValue) -> Iterator[Step]:
    """Return the two steps. values: the fields of edgetool_mean_of_sums_s8 that turn a sum into an output."""
    outputs = summed.outputs
    loops = {
        f"{kind}_{name}": tuple(loop[position] for loop in pairs)
        for kind, pairs in (("kept", summed.kept), ("reduced", summed.reduced))
        for position, name in enumerate(("count", "step"))
    }
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_add_rows_s8",
        op=describe("edgetool_add_rows_s8", start=summed.start, **loops),
        inputs=(RowInput(site.index(0), summed.row_bytes, rows=summed.rows),),
        output=site.sums,
        row_bytes=SUM_BYTES * outputs,
        rows=summed.rows,
        accumulates=True,
    )
    distance = elements_distance(range(outputs), input_bytes=SUM_BYTES, output_bytes=1)
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_mean_of_sums_s8",
        op=describe("edgetool_mean_of_sums_s8", count=outputs, **values),
        inputs=(RowInput(site.sums, SUM_BYTES * outputs),),
        output=site.operator.outputs[0],
        row_bytes=outputs,
        overlaps=(StepOverlap(0, distance),),
    )
