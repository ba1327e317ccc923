"""Loop counts of FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from collections import Counter
from math import gcd, prod

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.operators.loops import LoopCounts, repeated

MANY, GROUP, SHARE = 16, 4, 504  # as in edgetool_dense_s8.c
TOGETHER, FEW, DEEP = 4, 8, 16  # as in edgetool_batch_matmul_s8.c


def _s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_dense_s8: units in groups of four, or alone."""
    depth, units, grouped = call["depth"], call["units"], call["grouped"]
    rest = max(0, units - grouped)
    loops = _others(call, depth, rest)
    loops["rows"] = 1
    width = max(units, grouped)
    few = width <= MANY
    finishes = 1 if few else -(-grouped // MANY) + (rest > 0) if grouped else -(-units // 2)
    if grouped:
        loops.update(_groups(call, depth, grouped))
    rows = call.rows * call["rows"]
    total = Counter(repeated(rows, loops))
    if few:
        total["blocks of rows"] = call.rows * -(-call["rows"] // (MANY // width))
    if few and call["scale_step"] == 0 and width == units:
        total["finishes"] = total["blocks of rows"]
    else:
        total["finishes"] = rows * finishes
    total["outputs"] = rows * units
    if call.code.dsp:
        places = [call.row_start(row) for row in range(call.step.rows)]
        uneven = sum((place + row * depth) % WORD != 0 for place in places for row in range(call["rows"]))
        uneven *= call.step.batches
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
        loops += Counter(
            {"two words": depth // (2 * WORD), "words": whole // WORD % 2 + (last > 0), "last words": last}
        )
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
    twos = depth // (2 * WORD)
    # With DSP, the words of two units are multiplied one by one.
    twos_of_pairs = 0 if call.code.dsp else twos
    loops = Counter(
        {
            "pairs of units": pairs,
            "two words of pairs": pairs * twos_of_pairs,
            "words of pairs": pairs * (depth // WORD - 2 * twos_of_pairs),
            "codes of pairs": pairs * (depth % WORD),
            "single units": singles,
            "two words of singles": singles * twos,
            "words of singles": singles * (depth // WORD % 2),
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
    """Return the loops of a product of two tensors of int8."""
    batches, rows, depth, columns = prod(call.numbers("batches")), call["rows"], call["depth"], call["columns"]
    gathers = call["left_depth_step"] != 1
    scratch, straight = bool(call["has_scratch"]), call["right_depth_step"] == 1
    zero_point = call["right_zero_point"]
    aligned = (depth | call["left_row_step"]) % WORD == 0 and call.starts[1] == 0
    aligned = aligned and (scratch if gathers else call.starts[0] == 0)
    words = call.code.dsp and straight and aligned and (not zero_point or columns < 3)
    blocks = [min(MANY, columns - column) for column in range(0, columns, MANY)]
    loops: Counter[str] = Counter({"rows": 1, f"{call.form} outputs": columns, "blocks": len(blocks)})
    if call.code.dsp and scratch and straight and columns >= (FEW if words else 2) and depth >= DEEP:
        loops["expanded words"] = depth // WORD if not gathers else 0
        loops["expanded ends"] = 2 if not gathers else depth // WORD + 2
        period = WORD // gcd(depth, WORD)
        lines = [len(range(first, block, period)) for block in blocks for first in range(min(period, block))]
        pairs, singles = sum(line // 2 for line in lines), sum(line % 2 for line in lines)
        loops += Counter({"lines": len(lines), "pairs": pairs, "singles": singles})
        loops["words of pairs"] = pairs * -(-(depth + 1) // WORD)
        loops["words of singles"] = singles * -(-(depth + 1) // WORD)
        return LoopCounts("pairs", {"batches of products": batches, **repeated(batches * rows, loops)})
    apart = gathers and not scratch
    if gathers and scratch:
        loops["gathered codes"] = depth
    if zero_point and not words:
        loops["summed codes"] = depth
    fours, rest = (columns // TOGETHER, columns % TOGETHER) if not apart else (0, columns)
    if straight and not words and not apart and rest == 3:
        fours, rest = fours + 1, 0
    twos, ones = (rest // 2, rest % 2) if not apart else (0, rest)
    size, unit = (WORD, "words") if words else (1, "codes")
    for name, count in (("fours", fours), ("twos", twos), ("ones", ones)):
        loops[name] = count
        loops[f"{unit} of {name}"] = count * (depth // size)
    kind = unit if words else "rows" if straight else "columns"
    path = f"{kind}{' apart' if apart else ''}"
    return LoopCounts(path, {"batches of products": batches, **repeated(batches * rows, loops)})


RULES: dict[str, LoopRule] = {
    "edgetool_batch_matmul_s16": _product_s16,
    "edgetool_batch_matmul_s8": _product_s8,
    "edgetool_dense_s16": _s16,
    "edgetool_dense_s8": _s8,
}
