"""Loop counts of FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from collections import Counter
from math import prod

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.operators.loops import LoopCounts, repeated

MANY, GROUP, SHARE = 16, 4, 504  # as in edgetool_dense_s8.c
TOGETHER = 4  # as in edgetool_batch_matmul_s8.c


def _s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_dense_s8: units in groups of four, or alone."""
    depth, units, grouped = call["depth"], call["units"], call["grouped"]
    rest = max(0, units - grouped)
    loops = _others(call, depth, rest)
    loops["rows"] = 1
    few = units <= grouped <= MANY // 2
    finishes = 1 if few else -(-grouped // MANY) + (rest > 0) if grouped else -(-units // 2)
    if grouped:
        loops.update(_groups(call, depth, grouped))
    total = Counter(repeated(call.rows, loops))
    if few and call["scale_step"] == 0 and grouped == units:
        several = MANY // grouped
        total["finishes"] = call.step.batches * sum(-(-len(band) // several) for band in call.bands())
    else:
        total["finishes"] = call.rows * finishes
    total["outputs"] = call.rows * units
    if call.code.dsp:
        uneven = sum(call.row_start(row) != 0 for row in range(call.step.rows)) * call.step.batches
        total["copied rows"] = uneven
        total["copied bytes"] = uneven * depth
    form = call.form if call.form == "double" or call.is_full_range else f"{call.form} clamped"
    return LoopCounts(f"{form}{' grouped' if grouped else ''}", total)


def _groups(call: StepCall, depth: int, grouped: int) -> Counter[str]:
    """Return the loops of the groups of a row."""
    whole, last = depth // WORD * WORD, depth % WORD
    padded = whole + WORD * (last > 0)
    blocks = [min(MANY, grouped - unit) for unit in range(0, grouped, MANY)]
    groups = grouped // GROUP
    loops = Counter({"blocks": len(blocks), "pairs of sums": grouped // 2})
    if call.code.dsp:
        shares = [min(SHARE, padded - at) for at in range(0, padded, SHARE)]
        loops += Counter({"words": padded // WORD, "last words": last})
        loops["eights"] = sum(share // 8 for share in shares) * groups
        loops["fours"] = sum(share // WORD % 2 for share in shares) * groups
    else:
        shares = [whole] * (whole > 0) + [WORD] * (last > 0)
        loops += Counter({"summed fours": depth // WORD, "summed codes": last})
        eights = sum(block // 8 for block in blocks) if call.code.riscv else 0
        loops["codes of eights"] = eights * padded // WORD
        loops["codes of fours"] = (groups - 2 * eights) * padded // WORD
    loops["shares"] = len(shares) * len(blocks)
    loops["groups"] = len(shares) * groups
    return loops


def _others(call: StepCall, depth: int, units: int) -> Counter[str]:
    """Return the loops of units in no groups, two by two."""
    pairs, singles = units // 2, units % 2
    loops = Counter(
        {
            "pairs of units": pairs,
            "words of pairs": pairs * (depth // WORD),
            "codes of pairs": pairs * (depth % WORD),
            "single units": singles,
            "words of singles": singles * (depth // WORD),
            "codes of singles": singles * (depth % WORD),
        }
    )
    if call["weights_zero_point"] and not call.code.dsp:
        loops["summed fours"] = (pairs + singles) * (depth // WORD)
        loops["summed codes"] = (pairs + singles) * (depth % WORD)
    return loops


def _s16(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_dense_s16."""
    outputs = call.rows * call["units"]
    return LoopCounts(call.form, {"rows": call.rows, "outputs": outputs, "products": outputs * call["depth"]})


def _product_s16(call: StepCall) -> LoopCounts:
    """Return the loops of a product of two tensors of int16."""
    batches = prod(call.numbers("batches"))
    rows, outputs = batches * call["rows"], batches * call["rows"] * call["columns"]
    loops = {"batches of products": batches, "rows": rows, "outputs": outputs, "products": outputs * call["depth"]}
    return LoopCounts(call.form, loops)


def _product_s8(call: StepCall) -> LoopCounts:
    """Return the loops of a product of two tensors of int8: rows with four columns at once, if they are next."""
    batches, depth, columns = prod(call.numbers("batches")), call["depth"], call["columns"]
    contiguous = call["left_depth_step"] == 1 or bool(call["has_scratch"])
    straight = call["right_depth_step"] == 1
    words = call.code.dsp and contiguous and straight and depth % WORD == 0 and call.starts == (0, 0)
    fours, rest = (columns // 4, columns % 4) if contiguous else (0, columns)
    loops: Counter[str] = Counter({"rows": 1, "outputs": columns, "fours": fours})
    if call["left_depth_step"] != 1 and contiguous:
        loops["gathered codes"] = depth
    if call["right_zero_point"]:
        loops["summed codes"] = depth
    if words:
        loops["words of fours"] = fours * (depth // WORD)
        loops["pairs"] = rest // 2
        loops["words of pairs"] = rest // 2 * (depth // WORD)
        loops["singles"] = rest % 2
        loops["words of singles"] = rest % 2 * (depth // WORD)
        kind = "words"
    else:
        whole = int(straight and contiguous and rest == 3)
        singles = 0 if whole else rest
        loops["fours"] += whole
        loops["codes of fours"] = (fours + whole) * depth
        loops["singles"] = singles
        loops["codes of singles"] = singles * depth
        kind = "rows" if straight else "columns"
    rows = batches * call["rows"]
    path = f"{call.form} {kind}{'' if contiguous else ' apart'}"
    return LoopCounts(path, {"batches of products": batches, **repeated(rows, loops)})


RULES: dict[str, LoopRule] = {
    "edgetool_batch_matmul_s16": _product_s16,
    "edgetool_batch_matmul_s8": _product_s8,
    "edgetool_dense_s16": _s16,
    "edgetool_dense_s8": _s8,
}
