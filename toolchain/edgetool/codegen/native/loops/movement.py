"""Loop counts of kernels that copy, whose time is mostly that of the C library's memcpy."""

from __future__ import annotations

from collections import Counter
from math import prod

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.operators.loops import LoopCounts, Loops, check_steps, memcpy_loops, memset_loops, prefixed, repeated


def _copies(call: StepCall, size: int, times: int, *, step: int | None = None) -> Loops:
    """Return the loops of copies of a size to addresses that follow each other, from any alignment.

    step: from a source to the next one, if it is always the same.
    """
    if size == 1:
        return {"single bytes": times}
    if size % WORD == 0:
        return repeated(times, memcpy_loops(size))
    advance = size if step is None else step
    loops: Counter[str] = Counter()
    for offset in range(min(times, WORD)):
        share = len(range(offset, times, WORD))
        loops.update(repeated(share, memcpy_loops(size, [(offset * size % WORD, offset * advance % WORD)])))
    return loops


def _nested(counts: tuple[int, ...]) -> dict[str, int]:
    """Return how often nested loops are entered, the outermost first."""
    inner = prod(counts[:-1])
    return {"inner loops": inner, "loops around": prod(counts[:-2])}


def _copy(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_copy and edgetool_copy_table: runs of five nested loops."""
    counts = call.numbers("count")
    loops = Counter(_nested(counts)) + Counter(_copies(call, call["run"], prod(counts)))
    return LoopCounts("bytes" if call["run"] == 1 else "runs", {"rows": call.rows, **repeated(call.rows, loops)})


def _concat(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_concat: copies of each input in turn."""
    sizes = call.numbers("bytes")
    loops: Counter[str] = Counter()
    for size in sizes:
        loops.update(memcpy_loops(size) if size else {})
    blocks = call.rows * call["blocks"]
    path = "words" if all(size % WORD == 0 for size in sizes) else "bytes"
    return LoopCounts(path, {"rows": call.rows, "blocks": blocks, **repeated(blocks, loops)})


def _pad(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_pad: copies and fills in four nested loops."""
    there = sum(row is not None for y in range(call.step.rows) for row in call.tap_rows(y)) * call.step.batches
    counts, run = call.numbers("count"), call["run"]
    check_steps(prod(counts))
    inside: Counter[str] = Counter(_nested(counts))
    for (size, offset), times in _fills_of_row(call).items():
        inside.update(repeated(times, _fill(call, size, offset)))
    inside.update(_copies(call, run, prod(counts)))
    outside = repeated(call.rows - there, _fill(call, call["row_bytes"], 0))
    loops = Counter(repeated(there, inside)) + Counter(outside)
    return LoopCounts("same" if call["uniform"] else "elements", {"rows": call.rows, **loops})


def _fills_of_row(call: StepCall) -> Counter[tuple[int, int]]:
    """Return the fills of a row by their size and their address modulo 4."""
    end, at = call["row_bytes"], 0
    fills: Counter[tuple[int, int]] = Counter()

    def fill(size: int) -> None:
        nonlocal at
        size = min(size, end - at)
        fills[size, at % WORD] += 1
        at += size

    fill(call["lead"])
    counts, gaps = call.numbers("count"), call.numbers("gap")
    for place in range(1, prod(counts) + 1):
        at += call["run"]
        inner = 1
        for axis in (3, 2, 1, 0):
            if place % inner == 0:
                fill(gaps[axis])
            inner *= counts[axis]
    fill(end)
    return fills


def _fill(call: StepCall, size: int, offset: int) -> Loops:
    """Return the loops of a fill with equal bytes, or byte by byte."""
    if call["uniform"]:
        return {"calls of fill": 1, **memset_loops(size, offset)}
    return {"calls of fill": 1, "filled one by one": size}


def _gather(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_gather: a copy for each position."""
    positions = call.rows * call["outer"] * call["positions"]
    loops = {
        "tables": call.rows * call["outer"],
        "positions": positions,
        "indices": positions * call["depth"],
        **repeated(positions, memcpy_loops(call["run"])),
    }
    return LoopCounts("all", loops)


def _update_slice(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_update_slice: a copy of the whole operand, and runs of the update."""
    counts = call.numbers("count")
    runs = Counter(_copies(call, call["run"], prod(counts))) + Counter(_nested(counts))
    whole = prefixed("whole", memcpy_loops(call["bytes"]))
    return LoopCounts("all", {**repeated(call.rows, runs), **repeated(call.rows, whole), "axes": call["axes"]})


def _assign(call: StepCall) -> LoopCounts:
    """Return the loops of one copy."""
    return LoopCounts("all", memcpy_loops(call.elements))


RULES: dict[str, LoopRule] = {
    "edgetool_assign": _assign,
    "edgetool_concat": _concat,
    "edgetool_copy": _copy,
    "edgetool_copy_table": _copy,
    "edgetool_gather": _gather,
    "edgetool_pad": _pad,
    "edgetool_update_slice": _update_slice,
}
