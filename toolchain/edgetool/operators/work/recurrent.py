"""Operators that keep a state between runs: which kernel runs, and how often its loops turn.

Sources: svdf_common.cc, lstm_eval.h, lstm_eval.cc, unidirectional_sequence_lstm.cc and CMSIS-NN's arm_svdf_s8.c,
arm_svdf_state_s16_s8.c, arm_lstm_unidirectional_s8.c, _s16.c, arm_nn_lstm_step_s8.c, _s16.c.
"""

from __future__ import annotations

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.inspection import integer
from edgetool.operators.prepare.recurrent import HIDDEN
from edgetool.operators.work.loops import Loops, named, repeated, together
from edgetool.operators.work.memory import fills
from edgetool.operators.work.types import Work, WorkRule
from edgetool.operators.work.vector_matrix import vector_product_s8, vector_product_s16, vector_product_svdf
from edgetool.target.platform import Platform

GATES = 4
INT16_BYTES = 2


def _svdf(call: Call) -> Work:
    source, features, times = (call.required_input(position) for position in range(3))
    batch, depth = source.shape
    filters, memory = features.shape[0], times.shape[1]
    units = filters // max(integer(call, "rank"), 1)
    cells = batch * filters * memory
    state = {DType.INT8: "int8", DType.INT16: "int16"}.get(times.dtype, "float32")
    if not call.platform.cmsis_nn or state == "float32":
        loops = {
            "batch": batch,
            "state shifted": cells,
            "filter": batch * filters,
            "product": batch * filters * depth,
            "state product": cells,
            "unit": batch * units,
        }
        return Work("reference float32" if state == "float32" else f"reference int8, {state} state", loops)
    product = vector_product_s8 if state == "int8" else vector_product_svdf
    loops = together(
        {"state shifted": cells, "batch": batch, "unit": batch * units, "filter": batch * filters},
        repeated(batch, product(filters, depth, call.platform)),
        repeated(batch * filters, named("filter", _times(memory, state, call.platform))),
        {"4 units written": -(-batch * units // 4) if call.platform.mve else 0},
    )
    # A rank of 1 adds the bias in a loop of its own.
    return Work(f"int8, {state} state" + (", rank 1" if units == filters else ""), loops)


def _times(memory: int, state: str, platform: Platform) -> Loops:
    if not platform.dsp or platform.mve:
        return {"by 1": memory}
    step = 4 if state == "int8" else 2
    return {f"by {step}": memory // step, "by 1": memory % step}


def _lstm(call: Call) -> Work:
    """Every step runs four gates over input and hidden state; all batches of a step at once where time comes first."""
    source, hidden = call.required_input(0), call.required_input(HIDDEN)
    major = bool(call.option("time_major", False))
    steps, batch = source.shape[:2] if major else source.shape[1::-1]
    depth, units = source.shape[2], hidden.shape[1]
    runs, at_once = (steps, batch) if major else (steps * batch, 1)
    cells = units * at_once
    dtype = source.dtype.name.lower()
    first = 1 if major else batch  # the steps that begin a sequence
    if not call.platform.cmsis_nn or source.dtype == DType.FLOAT32:
        step = {"step": 1, "row": at_once, "cell": cells, "product": GATES * cells * depth}
        hidden_steps = repeated(runs - first, {"product": GATES * cells * units})
        # The first run starts with a hidden state of zeros, by which floating point in software multiplies faster.
        zeros = {"product of zeros": first * GATES * cells * units}
        return Work(f"reference {dtype}", together(repeated(runs, step), hidden_steps, zeros))
    # Without a hidden state the first step of each sequence has no product with it.
    product = _gate_s8 if source.dtype == DType.INT8 else vector_product_s16
    step = together(
        {"step": 1, "cell": cells, "cells by 2": cells // 2, "last cell": cells % 2, "cells by 4": -(-cells // 4)},
        repeated(at_once, {"row": 1, "row by 2": units // 2, "row last": units % 2, "row by 4": -(-units // 4)}),
        fills(GATES, cells * INT16_BYTES, call.platform),
        repeated(GATES * at_once, product(units, depth, call.platform)),
    )
    hidden_steps = {"hidden step": 1, **repeated(GATES * at_once, product(units, units, call.platform))}
    sequences = {"sequence": batch, "sequence cell": batch * units} if not major else {}
    return Work(dtype, together(sequences, repeated(runs, step), repeated(runs - first, hidden_steps)))


def _gate_s8(units: int, depth: int, platform: Platform) -> Loops:
    return vector_product_s8(units, depth, platform, unrolled=False)


WORK: dict[str, WorkRule] = {
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
