"""A plan of rows in several memories of a board: all rows of a tensor are in one of them, and the scratch of a step is.

The schedule and the kernels are those of a plan in one memory. What a tensor costs in a memory is what it costs as a
whole (native_places.py): kernels read each row of an input once, as far as the estimate knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgetool.codegen.native.row_plan import NativeRows, rows_memory
from edgetool.codegen.native.rows import step_operators
from edgetool.memory.several import NoChoice
from edgetool.memory.streaming.checker import require_valid_placed_rows
from edgetool.memory.streaming.problem import NO_SCRATCH, PlacedRows, SeveralRows
from edgetool.memory.streaming.several import live_items, place_rows, place_rows_lowest
from edgetool.pipeline.native_places import (
    Move,
    PlacedArena,
    are_known,
    memories_beside_code,
    moves_of,
    waiting_bound,
    waiting_cycles,
)
from edgetool.report.document import BufferPlaceInfo
from edgetool.target.native_places import NativePlaces


def place_rows_of(
    rows: NativeRows, places: NativePlaces, stopped: Callable[[], bool]
) -> tuple[NativeRows, PlacedArena] | NoChoice:
    """Return the rows in the memories with the least waiting, or with the fewest bytes of one memory.

    stopped: whether to end the search with the best placement so far.
    """
    several, moves = _several(rows, places)
    if places.minimized is None:
        placed = place_rows(several, stopped=stopped)
    else:
        placed = place_rows_lowest(several, places.arena.index(places.minimized), stopped=stopped)
    if isinstance(placed, NoChoice):
        return placed
    require_valid_placed_rows(several, placed)
    moved = replace(rows, plan=placed.plan)
    chosen = [places.arena[number] for number in placed.choice.memories]
    buffers, used = _buffers(moved, placed, [region.name for region in chosen])
    arena = PlacedArena(
        rows.program,
        rows_memory(moved),
        places,
        placed.choice,
        placed.lowest,
        waiting_cycles((move, chosen[item]) for item, items in enumerate(moves) for move in items),
        waiting_bound(placed.choice, places, (move for items in moves for move in items)),
        are_known(chosen[item] for item in used),
        buffers,
        row_wise=True,
    )
    return moved, arena


def _several(rows: NativeRows, places: NativePlaces) -> tuple[SeveralRows, list[list[Move]]]:
    """Return the problem of placing the rows, and what an inference moves of each of its items."""
    problem, count = rows.problem, len(rows.problem.tensors)
    tensors = {tensor.tensor: item for item, tensor in enumerate(problem.tensors)}
    scratch = [count + number for number in step_operators(problem)]
    moves: list[list[Move]] = [[] for _ in range(count + len(problem.operators))]
    for move in moves_of(rows.program):
        moves[scratch[move.position] if move.tensor is None else tensors[move.tensor]].append(move)
    allowed = [places.tensors.get(tensor.name, places.arena) for tensor in problem.tensors]
    allowed += [places.arena] * len(problem.operators)
    costs = tuple(
        tuple(
            sum(move.cost(region, rank) for move in items) if region in regions else None
            for rank, region in enumerate(places.arena)
        )
        for items, regions in zip(moves, allowed, strict=True)
    )
    memories = tuple(memories_beside_code(rows.program, places, row_wise=True))
    return SeveralRows(problem, rows.plan, memories, costs), moves


def _buffers(rows: NativeRows, placed: PlacedRows, names: list[str]) -> tuple[tuple[BufferPlaceInfo, ...], list[int]]:
    """Return what is live at some moment, for reports, and the numbers of these items.

    The size of a buffer reaches from its lowest byte to its highest one. names: the memories of all items.
    """
    problem, plan, count = rows.problem, placed.plan, len(rows.problem.tensors)
    operators = dict(zip(step_operators(problem), rows.program.steps, strict=True))
    buffers, used = [], []
    for item in np.flatnonzero(live_items(problem, plan.schedule).any(axis=1)).tolist():
        if item < count:
            tensor = problem.tensors[item]
            name, number, places = tensor.name, tensor.tensor, [plan.offsets[row] for row in problem.rows_of(item)]
            size = max(places) - min(places) + tensor.row_bytes
        else:
            operator = problem.operators[item - count]
            name, number = operators[item - count].kernel, -1
            places = [place for place in plan.scratch[item - count] if place != NO_SCRATCH]
            size = max(places) - min(places) + operator.scratch_bytes
        buffers.append(BufferPlaceInfo(name, number, names[item], placed.choice.offsets[item], size))
        used.append(item)
    return tuple(buffers), used
