"""Loop counts of DEPTHWISE_CONV_2D."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.codegen.native.loops.convolution import inside_taps
from edgetool.operators.loops import LoopCounts, check_steps, combined, repeated

CHANNELS = 4  # which are computed at once


def found_taps(call: StepCall) -> Counter[str]:
    """Return the loops of edgetool_find_taps for the pixels that do not have the taps of the one before."""
    taps_y, taps_x, stride = call["taps_y"], call["taps_x"], call["stride_x"]
    width, input_width, pad = call["output_width"], call["input_width"], call["pad_x"]
    last = (taps_x - 1) * call["dilation_x"]
    inside = [x * stride - pad >= 0 and x * stride - pad + last < input_width for x in range(width)]
    moved = sum(here and before for before, here in pairwise(inside))
    check_steps(call.step.rows * taps_y)
    found = whole = 0
    for y in range(call.step.rows):
        there = sum(row is not None for row in call.tap_rows(y))
        kept = moved if there == taps_y else 0
        found += width - kept
        whole += there * (sum(inside) - kept) + (taps_y - there) * (width - kept)
    found, whole = found * call.step.batches, whole * call.step.batches
    return Counter(
        {
            "pixels": call.rows * width,
            "found tables": found,
            "whole rows of taps": whole,
            "addresses of whole rows": whole * taps_x,
            "rows of taps": found * taps_y - whole,
            "addresses": (found * taps_y - whole) * taps_x,
        }
    )


def _clamped(call: StepCall) -> Counter[str]:
    """Return the loops that clamp the outputs of bands."""
    loops: Counter[str] = Counter()
    if call.is_full_range:
        return loops
    row_bytes = call.step.row_bytes
    batch_bytes = call.step.rows * row_bytes
    for batch in range(call.step.batches):
        for band in call.bands():
            start = call.output_start + batch * batch_bytes + band.start * row_bytes
            words = len(band) * row_bytes // WORD if call.code.dsp and start % WORD == 0 else 0
            loops["clamped words"] += words
            loops["clamped codes"] += len(band) * row_bytes - WORD * words
    return loops


def _tiled_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_tiled_s8: sections with planes of rows with DSP, else single pixels."""
    small = bool(call["is_3x3"])
    kind = "3x3" if small else "any window"
    loops: Counter[str] = Counter()
    if not call.code.dsp:
        addresses = call["taps_x"] * (call["taps_y"] if small else 2 * call["pairs"])
        single = _single_pixels(call, call["words"], addresses)
        return LoopCounts(kind, combined(repeated(call.step.batches, single), _clamped(call)))
    check_steps(call.step.rows * -(-call["output_width"] // call["tile"]))
    advance = call["advance"]
    for band in call.bands():
        rows = [call.tap_rows(y) for y in band]
        shared = advance > 0 and all(a[advance:] == b[: len(b) - advance] for a, b in pairwise(rows))
        most = call["groups"] * (2 if advance == 1 else 1) if shared else 1
        for first in range(0, len(rows), most):
            for x in range(0, call["output_width"], call["tile"]):
                loops.update(_section(call, rows[first : first + most], x))
    return LoopCounts(kind, combined(repeated(call.step.batches, loops), _clamped(call)))


def _section(call: StepCall, rows: Sequence[tuple[int | None, ...]], x: int) -> Counter[str]:
    """Return the loops of one section: some columns of some output rows, whose tap rows are given."""
    small, taps_y, stride, advance = bool(call["is_3x3"]), call["taps_y"], call["stride_x"], call["advance"]
    width, channels, pairs = min(call["tile"], call["output_width"] - x), call["input_channels"], call["pairs"]
    per_group = 2 if advance == 1 else 1
    groups, blocks = -(-len(rows) // per_group), -(-channels // CHANNELS)
    columns, start = (width - 1) * stride + call["taps_x"], x * stride - call["pad_x"]
    left = min(max(0, -start), columns)
    inside = min(columns - left, max(0, call["input_width"] - max(0, start)))
    inputs: list[int | None] = []
    for i in range(2 * (groups + pairs - 1)):
        y = 0 if i < taps_y else (i - taps_y + advance) >> (advance - 1) if advance else len(rows)
        inputs.append(rows[y][i - y * advance] if y < len(rows) and i - y * advance < taps_y else None)
    first_column = max(0, start) * channels
    words = channels % WORD == 0 and all(
        row is None or (call.row_start(row) + first_column) % WORD == 0 for row in inputs
    )
    loops: Counter[str] = Counter({"sections": 1, "rows of sections": len(inputs), "blocks": blocks})
    of_pairs = list(zip(inputs[::2], inputs[1::2], strict=True))
    for pair in of_pairs:
        loops["filled pairs"] += 1
        loops["filled columns"] += columns if pair == (None, None) else columns - inside
        if pair == (None, None):
            continue
        if words:
            loops["copies of words"] += blocks
            loops["copied columns"] += blocks * inside
        else:
            loops["copies of bytes"] += blocks
            loops["columns of bytes"] += blocks * inside
            loops["bytes"] += 2 * channels * inside
    loops["channels"] = channels
    if small:
        loops["groups"] = channels * groups
        loops["tiles"] = channels * groups * (width // 2)
        loops["last columns"] = channels * groups * (width % 2)
        return loops
    lists = [width * len(rows[row::per_group]) for row in range(per_group) if rows[row::per_group]]
    loops["listed outputs"] = sum(lists)
    loops["lists"] = len(lists)
    loops["lists of channels"] = channels * len(lists)
    loops["expanded words" if len(lists) == 1 else "words expanded twice"] = channels * call["words"]
    fours = sum(-(-count // 4) for count in lists)
    loops["fours"] = channels * fours
    columns_of_fours = channels * fours * call["taps_x"]
    loops["columns of fours"] = columns_of_fours
    loops["turns of fours"] = columns_of_fours * (pairs // 2)
    loops["half turns of fours"] = columns_of_fours * (pairs % 2)
    return loops


def _single_pixels(call: StepCall, words: int, addresses: int) -> Counter[str]:
    """Return the loops pixel by pixel of one batch: the addresses of the taps of each pixel, and its channels."""
    width, stride, channels = call["output_width"], call["stride_x"], call["input_channels"]
    starts = [x * stride - call["pad_x"] for x in range(width)]
    inside = [start >= 0 and start + call["taps_x"] <= call["input_width"] for start in starts]
    # Without rows outside of the input, the same addresses serve pixels of which all taps are inside.
    moved = sum(here and before for before, here in pairwise(inside))
    check_steps(call.step.rows)
    whole_rows = sum(None not in call.tap_rows(y) for y in range(call.step.rows))
    rows, pixels = call.step.rows, call.step.rows * width
    found = pixels - whole_rows * moved
    return Counter(
        {
            "rows": rows,
            "pixels": pixels,
            "found tables": found,
            "found columns": found * call["taps_x"],
            "found addresses": found * addresses,
            "fours": pixels * (channels // CHANNELS),
            "words of fours": pixels * (channels // CHANNELS) * words,
            "others": pixels * (channels % CHANNELS),
            "words of others": pixels * (channels % CHANNELS) * words,
        }
    )


def _3x3_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_3x3_s8: with DSP, the outputs of a channel together or one by one."""
    if not call.code.dsp:
        single = repeated(call.step.batches, _single_pixels(call, call["taps_x"], call["taps_x"] * call["taps_y"]))
        return LoopCounts("all", combined(single, _clamped(call)))
    width, channels, pad, loops = call["output_width"], call["input_channels"], call["pad_x"], _clamped(call)
    check_steps(call.rows)
    right = (width - 1) * call["stride_x"] + 2 - pad >= call["input_width"]
    for batch in range(call.step.batches):
        for y in range(call.step.rows):
            spans = _spans(call, _nearest(call, batch, y))
            loops["pixels together"] += spans
            loops["channels"] += spans * channels
            loops["outputs but the last"] += channels * (width - spans)
            loops["columns outside"] += channels * (min(pad, 1) + right)
            loops["channels without a row"] += spans * channels * (None in call.tap_rows(y))
    loops["rows"] = call.rows
    return LoopCounts(f"stride {call['stride_x']}", loops)


def _nearest(call: StepCall, batch: int, y: int) -> int | None:
    """Return the whole pixels to the nearest tap row that shares bytes at no multiple of a pixel, None without one."""
    if call.distance is None:
        return None
    item, row_bytes, channels = call.step.inputs[0], call.step.row_bytes, call["input_channels"]
    output = (batch * call.step.rows + y) * row_bytes
    rows = (row for row in call.tap_rows(y) if row is not None)
    distances = (call.distance + (batch * item.rows + row) * item.row_bytes - output for row in rows)
    found = [item for item in distances if -call.step.inputs[0].row_bytes < item < row_bytes and item % channels]
    return min((distance // channels for distance in found), default=None)


def _spans(call: StepCall, nearest: int | None) -> int:
    """Return in how many parts edgetool_depthwise_3x3_s8 computes a row."""
    spans = x = 0
    while x < call["output_width"]:
        first = max(0, x * call["stride_x"] - call["pad_x"])
        x = call["output_width"] if nearest is None else x + max(1, nearest + first - x if nearest >= 0 else 1)
        spans += 1
    return spans


def _s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_s8: the addresses of the taps, then channels in fours or alone."""
    multiplier, channels = call["depth_multiplier"], call["input_channels"]
    usual = "words" if call.code.dsp else "bytes"
    outputs, taps = channels * multiplier, call["taps_y"] * call["taps_x"]
    loops = found_taps(call)
    loops.update(_clamped(call))
    loops["rows"], loops["judged rows"] = call.rows, call.rows * call["taps_y"]
    fours = outputs // CHANNELS if multiplier == 1 or multiplier % CHANNELS == 0 else 0
    aligned = 0
    if call.code.dsp and multiplier == 1 and channels % WORD == 0:
        aligned = sum(
            all(row is None or call.row_start(row) == 0 for row in call.tap_rows(y)) for y in range(call.step.rows)
        )
    width, batches = call["output_width"], call.step.batches
    pixels, aligned_pixels = call.rows * width, aligned * width * batches
    for kind, count in (
        ("words", aligned_pixels),
        ("copies" if multiplier != 1 else "bytes", pixels - aligned_pixels),
    ):
        alone = taps % 3 if kind == usual else taps
        loops[f"pixels of {kind}"] = count if fours else 0
        loops[f"fours of {kind}"] = count * fours
        loops[f"threes of {kind}"] = count * fours * ((taps - alone) // 3)
        loops[f"rests of {kind}"] = count * fours * (alone > 0)
        loops[f"taps of {kind}"] = count * fours * alone
    others = pixels * (outputs - CHANNELS * fours)
    loops["pixels of others"] = pixels if others else 0
    loops["others"] = others
    loops["threes of others"] = others * (taps // 3)
    loops["taps of others"] = others * (taps % 3)
    return LoopCounts(call.form, loops)


def _few_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_few_s8: the taps of each pixel that are inside, for fours and for ones."""
    multiplier, channels, width = call["depth_multiplier"], call["input_channels"], call["output_width"]
    outputs, taps_x, dilation = channels * multiplier, call["taps_x"], call["dilation_x"]
    copies = multiplier % CHANNELS == 0
    fours = outputs // CHANNELS if copies or multiplier == 1 else 0
    ones, kind = outputs - CHANNELS * fours, "copies" if copies else "fours"
    starts = [x * call["stride_x"] - call["pad_x"] for x in range(width)]
    columns = [sum(0 <= start + tx * dilation < call["input_width"] for tx in range(taps_x)) for start in starts]
    check_steps(call.step.rows * call["taps_y"])
    rows = sum(row is not None for y in range(call.step.rows) for row in call.tap_rows(y)) * call.step.batches
    loops = _clamped(call)
    loops.update({"rows": call.rows, "rows outside": call.rows * call["taps_y"] - rows, "pixels": call.rows * width})
    loops["border pixels"] = call.rows * sum(count < taps_x for count in columns)
    loops["columns outside"] = call.rows * sum(taps_x - count for count in columns)
    loops["pixels with a rest"] = call.rows * width * (fours > 0 and ones > 0)
    loops[kind], loops["ones"] = call.rows * width * fours, call.rows * width * ones
    loops[f"rows of {kind}"], loops[f"taps of {kind}"] = rows * width * fours, rows * sum(columns) * fours
    for count in columns:
        few = {3: "threes", 2: "twos"}.get(count)
        loops[f"rows of {few or 'others'}"] += rows * ones
        loops["taps of others"] += rows * ones * count * (few is None)
    return LoopCounts(call.form, loops)


def _s16(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_s16."""
    outputs = call["input_channels"] * call["depth_multiplier"]
    pixels, taps = call.rows * call["output_width"], call["taps_y"] * call["taps_x"]
    return LoopCounts(
        call.form,
        {
            "pixels": pixels,
            "channels": pixels * call["input_channels"],
            "outputs": pixels * outputs,
            "tap rows": pixels * outputs * call["taps_y"],
            "taps": pixels * outputs * taps,
            "taps inside": inside_taps(call) * outputs,
        },
    )


RULES: dict[str, LoopRule] = {
    "edgetool_depthwise_3x3_s8": _3x3_s8,
    "edgetool_depthwise_few_s8": _few_s8,
    "edgetool_depthwise_s16": _s16,
    "edgetool_depthwise_s8": _s8,
    "edgetool_depthwise_tiled_s8": _tiled_s8,
}
