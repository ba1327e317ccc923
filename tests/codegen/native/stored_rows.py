"""What a plan of rows keeps in memory, row by row: compared with the tensors that TFLM computes.

Before each call of a kernel, a program writes the rows that the call reads, and after it those that it has completed,
from where the plan has them, which it does not take from the tables of the generated code. TFLM runs the same model
with all these tensors as outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.rows import step_operators
from edgetool.memory.problem import place_in_parts
from edgetool.memory.streaming.problem import RowPlan, RowProblem, steps_of
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model

Array = np.ndarray[Any, np.dtype[Any]]

DRIVER = """
#include "edgetool_rows.h"

static const uint32_t *all_rows, *next_row;
static FILE *row_results;

/* Reads the list of rows: for each call, how many it reads and completes, and in which arena and where they are. */
static int open_rows(int number, FILE *results)
{
    char name[32];
    sprintf(name, "%d.rows", number);
    FILE *file = fopen(name, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        return 1;
    }
    const size_t bytes = (size_t)ftell(file);
    uint32_t *list = (uint32_t *)malloc(bytes + 1);
    rewind(file);
    const int is_read = list != NULL && fread(list, 1, bytes, file) == bytes;
    fclose(file);
    all_rows = list;
    row_results = results;
    return !is_read;
}

static void write_rows(uint8_t *const *arenas, uint32_t count)
{
    for (; count != 0; count--, next_row += 3) {
        fwrite(arenas[next_row[0]] + next_row[1], 1, next_row[2], row_results);
    }
}

static void observed_fire(const edgetool_row_tables *tables, uint32_t step, uint16_t *done, uint8_t *arena,
                          const void **rows)
{
    const uint32_t reads = *next_row++, writes = *next_row++;
    write_rows(&arena, reads);
    edgetool_fire(tables, step, done, arena, rows);
    write_rows(&arena, writes);
}
#define edgetool_fire observed_fire

static void observed_fire_several(const edgetool_row_tables *tables, uint32_t step, uint16_t *done,
                                  uint8_t *const *arenas, const void **rows)
{
    const uint32_t reads = *next_row++, writes = *next_row++;
    write_rows(arenas, reads);
    edgetool_fire_several(tables, step, done, arenas, rows);
    write_rows(arenas, writes);
}
#define edgetool_fire_several observed_fire_several
"""


@dataclass(frozen=True)
class StoredRows:
    """The rows that the calls of kernels read and complete, except those that only the native program has."""

    blob: bytes
    program: NativeProgram
    problem: RowProblem
    plan: RowPlan

    @cached_property
    def model(self) -> Model:
        """The model as TFLM reads it."""
        return read_model(self.blob)

    @cached_property
    def tensors(self) -> tuple[int, ...]:
        """The tensors whose rows are compared: not state, which calls change, and not sums."""
        states = {self.program.places[index].root for step in self.program.steps for index in step.states}
        known = self.model.main.tensors
        return tuple(
            item.tensor
            for item in self.problem.tensors
            if 0 <= item.tensor < len(known) and not known[item.tensor].is_variable and item.tensor not in states
        )

    @cached_property
    def observed(self) -> bytes:
        """The model with these tensors as further outputs, except its inputs; a memory plan has no place for them."""
        main = self.model.main
        outputs = (*main.outputs, *self._added)
        subgraphs = (replace(main, outputs=outputs), *self.model.subgraphs[1:])
        return write_model(without_metadata(replace(self.model, subgraphs=subgraphs), METADATA_NAME))

    @cached_property
    def _added(self) -> tuple[int, ...]:
        main = self.model.main
        return tuple(index for index in self.tensors if index not in main.inputs and index not in main.outputs)

    @cached_property
    def calls(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """The rows that each call of a kernel reads, and those that it completes."""
        problem, tensor_of = self.problem, self.problem.tensor_of_rows()
        compared = {index for index, item in enumerate(problem.tensors) if item.tensor in self.tensors}
        missing = Counter(row for item in problem.operators for firing in item.firings for row in firing.writes)
        calls = []
        steps = set(step_operators(problem))
        for number, firing in steps_of(problem, self.plan.schedule):
            missing.subtract(firing.writes)
            complete = tuple(row for row in firing.writes if tensor_of[row] in compared and not missing[row])
            if number in steps:
                calls.append((tuple(row for row in firing.reads if tensor_of[row] in compared), complete))
        return tuple(calls)

    @property
    def rows(self) -> Iterator[int]:
        """All rows in the order in which the program writes them."""
        for call in self.calls:
            for part in call:
                yield from part

    def file(self) -> bytes:
        """Return the list that the program reads."""
        numbers: list[int] = []
        sizes = self.problem.row_sizes()
        for reads, writes in self.calls:
            numbers += (len(reads), len(writes))
            for row in (*reads, *writes):
                numbers += (*place_in_parts(self.plan.parts, self.plan.offsets[row]), sizes[row])
        return np.array(numbers, "<u4").tobytes()

    @cached_property
    def row_bytes(self) -> int:
        """What the program writes for each sample, besides the outputs."""
        sizes = self.problem.row_sizes()
        return sum(sizes[row] for row in self.rows)

    def difference(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array], written: Array) -> str | None:
        """Return which row differs from the tensor that it belongs to.

        inputs, outputs: the bytes of each tensor by its index, with a line for each sample. written: those of rows.
        """
        values = {**inputs, **outputs}
        sizes, tensor_of = self.problem.row_sizes(), self.problem.tensor_of_rows()
        at = 0
        for row in self.rows:
            index = tensor_of[row]
            tensor, size = self.problem.tensors[index], sizes[row]
            number = row - self.problem.first_row(index)
            expected = values[tensor.tensor][:, number * size : (number + 1) * size]
            if not np.array_equal(expected, written[:, at : at + size]):
                return f"row {number} of {tensor.rows} of tensor {tensor.tensor}, {tensor.name}, differs"
            at += size
        return None

    def outputs_of(self, data: Array) -> tuple[Array, dict[int, Array]]:
        """Return the outputs of the model, and the bytes of each of its tensors, from those of the observed model."""
        main = self.model.main
        starts: dict[int, Array] = {}
        at = 0
        for index in (*main.outputs, *self._added):
            size = main.tensors[index].size_bytes
            starts[index] = data[:, at : at + size]
            at += size
        return data[:, : sum(main.tensors[index].size_bytes for index in main.outputs)], starts
