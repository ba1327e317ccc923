"""Loop counts of pooling and reductions."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise
from math import prod

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.operators.loops import LoopCounts, check_steps, repeated

MAX_PAIRS = 256  # EDGETOOL_MAX_PAIRS


def pool_columns(call: StepCall) -> list[int]:
    """Return the number of input columns of each output column."""
    width, pad, taps = call["input_width"], call["pad_x"], call["taps_x"]
    check_steps(call["output_width"])
    starts = (x * call["stride_x"] for x in range(call["output_width"]))
    return [min(start + taps, pad + width) - max(start, pad) for start in starts]


def _pool(call: StepCall, *, average: bool) -> LoopCounts:
    """Return the loops of pooling of int8: four channels at once, or one."""
    channels, columns = call["channels"], pool_columns(call)
    fours, rest = channels // WORD, channels % WORD
    loops: Counter[str] = Counter()
    for y in range(call.step.rows):
        rows = [row for row in call.tap_rows(y) if row is not None]
        aligned = call.code.dsp and rest == 0 and all(call.row_start(row) == 0 for row in rows)
        if average:
            aligned = aligned and call["taps_y"] * call["taps_x"] <= MAX_PAIRS
        else:
            aligned = aligned and (call.output_start + y * call.step.row_bytes) % WORD == 0
        kind = "words" if aligned else "fours"
        taps, places = len(rows), len(columns)
        loops["rows of taps"] += call["taps_y"]
        loops["columns"] += places
        loops[kind] += places * fours
        loops[f"tap rows of {kind}"] += places * fours * taps
        loops[f"taps of {kind}"] += sum(columns) * fours * taps
        loops["ones"] += places * rest
        loops["tap rows of ones"] += places * rest * taps
        loops["taps of ones"] += sum(columns) * rest * taps
        if not call.is_full_range:
            loops["clamped"] += places * channels
        if average:
            counts = [count * taps for count in columns]
            loops["reciprocals"] += 1 + sum(a != b for a, b in pairwise(counts))
            large = sum(count * taps > MAX_PAIRS for count in columns)
            loops["divisions"] += large * channels
            loops["products"] += (places - large) * channels
    return LoopCounts("int8", repeated(call.step.batches, loops))


def _pool_s16(call: StepCall) -> LoopCounts:
    """Return the loops of pooling of int16: one channel after the other."""
    columns = pool_columns(call)
    there = sum(sum(row is not None for row in call.tap_rows(y)) for y in range(call.step.rows)) * call.step.batches
    outputs = call.rows * len(columns) * call["channels"]
    return LoopCounts(
        "int16",
        {
            "columns": call.rows * len(columns),
            "outputs": outputs,
            "tap rows": outputs * call["taps_y"],
            "tap rows inside": there * len(columns) * call["channels"],
            "taps": there * sum(columns) * call["channels"],
        },
    )


def _sum_s8(call: StepCall) -> LoopCounts:
    """Return the loops of MEAN and SUM of int8: four outputs at once, or one."""
    turns, count = call.numbers("reduced_count")
    turn, step = call.numbers("reduced_step")
    kept, lanes = call.numbers("kept_count")
    outer, inner = call.numbers("kept_step")
    taps = call["taps"]
    fours = lanes // WORD if inner == 1 else 0
    aligned = (
        call.code.dsp
        and (outer | turn | step) % WORD == 0
        and taps * count <= MAX_PAIRS
        and all(row is None or call.row_start(row) == 0 for y in range(call.step.rows) for row in call.tap_rows(y))
    )
    kind = "words" if aligned else "fours"
    ones = kept * (lanes - WORD * fours)
    loops = {
        "rows of taps": taps,
        "kept": kept,
        kind: kept * fours,
        f"turns of {kind}": kept * fours * turns,
        f"tap rows of {kind}": kept * fours * turns * taps,
        f"taps of {kind}": kept * fours * turns * taps * count,
        "ones": ones,
        "turns of ones": ones * turns,
        "tap rows of ones": ones * turns * taps,
        "taps of ones": ones * turns * taps * count,
    }
    return LoopCounts("int8", repeated(call.rows, loops))


def _add_rows_s8(call: StepCall) -> LoopCounts:
    """Return the loops of sums of one row after the other: eight outputs at once, four or one."""
    turns, count = call.numbers("reduced_count")
    turn, step = call.numbers("reduced_step")
    kept, lanes = call.numbers("kept_count")
    outer, inner = call.numbers("kept_step")
    helium = call.code.helium and inner == 1
    eights = lanes // 8 if helium and count <= MAX_PAIRS else 0
    fours = -(-(lanes - 8 * eights) // WORD) if helium else lanes // WORD if inner == 1 else 0
    ones = 0 if helium else kept * (lanes - WORD * fours)
    is_even = (outer | turn | step | call["start"]) % WORD == 0
    pairs = call.code.dsp and not helium and is_even and count <= MAX_PAIRS
    loops: Counter[str] = Counter()
    for row in range(call.step.rows):
        kind = "words" if pairs and call.row_start(row) == 0 else "fours"
        loops["kept"] += kept
        loops["turns"] += kept * turns
        loops["eights"] += kept * eights * turns
        loops["taps of eights"] += kept * eights * turns * count
        loops[kind] += kept * fours * turns
        loops[f"taps of {kind}"] += kept * fours * turns * count
        loops["turns of ones"] += ones * turns
        loops["taps of ones"] += ones * turns * count
    loops["cleared"] = kept * lanes
    return LoopCounts("int8", loops)


def _mean_of_sums_s8(call: StepCall) -> LoopCounts:
    """Return the loops of outputs of sums."""
    return LoopCounts("mean" if call["pixels"] else "scaled", {"outputs": call["count"]})


def _sum_s16(call: StepCall) -> LoopCounts:
    """Return the loops of reductions that visit all codes of each output in turn."""
    turns, count = call.numbers("reduced_count")
    outputs = prod(call.numbers("kept_count"))
    taps = call["taps"]
    loops = {
        "kept": call.numbers("kept_count")[0],
        "outputs": outputs,
        "tap rows": outputs * taps,
        "turns": outputs * taps * turns,
        "taps": outputs * taps * turns * count,
    }
    return LoopCounts("all", repeated(call.rows, loops))


def _arg_extremum(call: StepCall) -> LoopCounts:
    """Return the loops of ARG_MAX and ARG_MIN."""
    outputs = prod(call.numbers("kept_count"))
    loops = {"kept": call.numbers("kept_count")[0], "outputs": outputs, "codes": outputs * (call["count"] - 1)}
    return LoopCounts("all", repeated(call.rows, loops))


RULES: dict[str, LoopRule] = {
    "edgetool_add_rows_s8": _add_rows_s8,
    "edgetool_arg_extremum_s8": _arg_extremum,
    "edgetool_average_pool_s16": _pool_s16,
    "edgetool_average_pool_s8": partial(_pool, average=True),
    "edgetool_extremum_s8": _sum_s16,
    "edgetool_max_pool_s16": _pool_s16,
    "edgetool_max_pool_s8": partial(_pool, average=False),
    "edgetool_mean_of_sums_s8": _mean_of_sums_s8,
    "edgetool_sum_s16": _sum_s16,
    "edgetool_sum_s8": _sum_s8,
}
