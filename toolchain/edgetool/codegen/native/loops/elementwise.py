"""Loop counts of kernels whose innermost loop is one over elements: arithmetic, activations and normalizations."""

from __future__ import annotations

from math import prod

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.operators.loops import LoopCounts, count_near_largest, repeated


def runs_of(call: StepCall, operands: int) -> tuple[int, int, tuple[int, ...]]:
    """Return the runs of a row, their elements, and the step of each operand in a run: see edgetool_broadcast.h."""
    count, run, *rest = call.numbers("loops")
    steps, loops = tuple(rest[:operands]), rest[operands:]
    return prod(loops[i * (1 + operands)] for i in range(count)), run, steps


def _broadcast(call: StepCall, path: str, operands: int = 2) -> LoopCounts:
    runs, run, _ = runs_of(call, operands)
    loops = {"rows": call.rows, "runs": call.rows * runs, "elements": call.rows * runs * run}
    return LoopCounts(path, loops)


def _add_s8(call: StepCall) -> LoopCounts:
    """Return the loops of ADD and SUB of int8: with three roundings, or with a line, four at once if possible."""
    runs, run, steps = runs_of(call, 2)
    if call.form == "double":
        return _broadcast(call, "roundings")
    if steps != (1, 1) or not call.is_full_range:
        return _broadcast(call, "line")
    loops = {"rows": 1, "runs": runs, "fours": runs * (run // 4), "elements": runs * (run % 4)}
    return LoopCounts("line of fours", {name: call.rows * count for name, count in loops.items()})


def _mul_s8(call: StepCall) -> LoopCounts:
    """Return the loops of MUL of int8 by the form of its scale."""
    return _broadcast(call, call.form if call.form == "double" or call.is_full_range else f"{call.form} clamped")


def _by_bytes(name: str, operands: int = 2) -> LoopRule:
    """Return the rule of a kernel for elements of several sizes."""

    def rule(call: StepCall) -> LoopCounts:
        return _broadcast(call, f"{call[name]} bytes", operands)

    return rule


def _by_field(name: str, operands: int = 2) -> LoopRule:
    """Return the rule of a kernel with a path for each value of a field."""

    def rule(call: StepCall) -> LoopCounts:
        return _broadcast(call, f"{name.replace('_', ' ')} {call[name]}", operands)

    return rule


def _plain(call: StepCall) -> LoopCounts:
    return _broadcast(call, "all")


def _count(*names: str) -> LoopRule:
    """Return the rule of a kernel with one loop of `count` elements for each row, and a path for values of fields."""

    def rule(call: StepCall) -> LoopCounts:
        path = " ".join(f"{name.replace('_', ' ')} {call[name]}" for name in names) or "all"
        return LoopCounts(path, {"rows": call.rows, "elements": call.rows * call["count"]})

    return rule


def _vectors(call: StepCall) -> LoopCounts:
    """Return the loops of a normalization: several over the elements of each vector."""
    vectors = call.rows * call["vectors"]
    return LoopCounts("all", {"vectors": vectors, "elements": vectors * call["depth"]})


def _softmax_s8(call: StepCall) -> LoopCounts:
    """Return the loops of SOFTMAX of int8, in which codes far below the largest one count as 0."""
    vectors, depth = call.rows * call["vectors"], call["depth"]
    near = count_near_largest(depth, call["count"] - 1)
    loops = {"vectors": vectors, "elements": vectors * depth, "elements near the largest": round(vectors * near)}
    return LoopCounts(f"{call['output_bits']} bits", loops)


def _log_softmax(call: StepCall) -> LoopCounts:
    """Return the loops of LOG_SOFTMAX, in which codes far below the largest one count as 0."""
    vectors, depth = call.rows * call["vectors"], call["depth"]
    near = round(vectors * count_near_largest(depth, call["count"] - 1))
    above = round(vectors * count_near_largest(depth, -call["lowest"]))
    loops = {"vectors": vectors, "elements": vectors * depth, "elements of the sum": near, "elements above": above}
    return LoopCounts("int8", loops)


def _cumsum(call: StepCall) -> LoopCounts:
    """Return the loops of CUMSUM."""
    lanes = call.rows * call["blocks"] * call["lanes"]
    path = f"{'exclusive' if call['exclusive'] else 'inclusive'}{' reverse' if call['reverse'] else ''}"
    return LoopCounts(path, {"blocks": call.rows * call["blocks"], "lanes": lanes, "elements": lanes * call["depth"]})


def _add_n(call: StepCall) -> LoopCounts:
    """Return the loops of ADD_N."""
    elements = call.rows * call["count"]
    return LoopCounts("int8", {"rows": call.rows, "elements": elements, "operands": elements * call["operands"]})


def _svdf(call: StepCall) -> LoopCounts:
    """Return the loops of SVDF: the products of filters two by two, then their memories."""
    batches, depth = call["batches"], call["depth"]
    filters = call["units"] * call["rank"]
    pairs, singles = filters // 2, filters % 2
    loops = {
        "units": call["units"],
        "filters": filters,
        "blocks": -(-filters // 8),
        "words of pairs": pairs * (depth // WORD),
        "codes of pairs": pairs * (depth % WORD),
        "two words of singles": singles * (depth // (2 * WORD)),
        "words of singles": singles * (depth // WORD % 2),
        "codes of singles": singles * (depth % WORD),
        "memory": filters * call["memory"],
    }
    uneven = sum((call.row_start(0) + batch * depth) % WORD != 0 for batch in range(batches)) if call.code.dsp else 0
    total = {**repeated(batches, loops), "copied rows": uneven, "copied bytes": uneven * depth}
    return LoopCounts("int16" if call.has("times_s16") else "int8", total)


def _lstm(call: StepCall) -> LoopCounts:
    """Return the loops of an LSTM: four gates of each unit in each step."""
    cells = call["rows"] * call["units"]
    wide = call.has("scales")
    loops = {
        "steps": call["rows"],
        "cells": cells,
        "products": 4 * cells * (call["depth"] + call["units"]),
        "state bytes": cells * (2 if wide else 1),
    }
    return LoopCounts("int16" if wide else "int8", loops)


def _resize(call: StepCall) -> LoopCounts:
    """Return the loops of RESIZE_BILINEAR."""
    columns = call.rows * call["output_width"]
    return LoopCounts("int8", {"rows": call.rows, "columns": columns, "elements": columns * call["channels"]})


RULES: dict[str, LoopRule] = {
    "edgetool_add_n_s8": _add_n,
    "edgetool_add_s16": _plain,
    "edgetool_add_s8": _add_s8,
    "edgetool_arithmetic_s32": _plain,
    "edgetool_cast": _count("from", "to"),
    "edgetool_compare": _by_field("scaled"),
    "edgetool_compare_f32": _plain,
    "edgetool_cumsum_s8": _cumsum,
    "edgetool_dequantize": _count("bytes"),
    "edgetool_div_s8": _plain,
    "edgetool_l2_normalization_s8": _vectors,
    "edgetool_log_softmax_s8": _log_softmax,
    "edgetool_logistic_s16": _count("tanh"),
    "edgetool_lookup": _count(),
    "edgetool_lstm": _lstm,
    "edgetool_maximum": _by_bytes("bytes"),
    "edgetool_mul_s16": _plain,
    "edgetool_mul_s8": _mul_s8,
    "edgetool_prelu": _by_bytes("bytes"),
    "edgetool_quantize": _count("bytes"),
    "edgetool_requantize": _count("input_bytes", "output_bytes"),
    "edgetool_resize_bilinear_s8": _resize,
    "edgetool_select": _by_bytes("bytes", 3),
    "edgetool_softmax_s16": _vectors,
    "edgetool_softmax_s8": _softmax_s8,
    "edgetool_squared_difference": _plain,
    "edgetool_svdf_s8": _svdf,
}
