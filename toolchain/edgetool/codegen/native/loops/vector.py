"""Loop counts of the kernels for cores with Helium."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import prod

from edgetool.codegen.native.loops.call import LoopRule, StepCall
from edgetool.codegen.native.loops.depthwise import found_taps
from edgetool.codegen.native.loops.elementwise import runs_of
from edgetool.codegen.native.loops.pooling import pool_columns
from edgetool.operators.loops import LoopCounts, check_steps, combined, repeated

LANES, WORDS = 16, 4  # codes and sums of a vector
SUM_LANES, SUM_CODES = 8, 256  # EDGETOOL_SUM_LANES and EDGETOOL_SUM_CODES


def _vectors(count: int) -> int:
    return -(-count // LANES)


def _signed(call: StepCall) -> str:
    return "signed" if call["is_signed"] else "unsigned"


def _conv2d(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_conv2d_vector_s8: groups of pixels, whose columns are copied to scratch."""
    width, filters, rows = call["output_width"], call["filters"], call.step.rows
    depth, direct = call["taps_y"] * call["taps_x"] * call["depth"], bool(call["is_direct"])
    loops: Counter[str] = Counter({"rows": rows})
    tiles = [width] if direct else [min(call["tile"], width - x) for x in range(0, width, call["tile"])]
    loops["tiles"] = len(tiles) * rows
    if filters == 1:
        kind = "single"
        loops["groups"] = sum((count >= WORDS) + (count % WORDS > 0) for count in tiles) * rows
        for count in tiles:
            loops.update(repeated(rows, _fours(count, depth)))
        loops["signed blocks"] = (loops["fours"] + loops["pairs"]) * call["is_signed"]
    elif depth <= 2 * LANES:
        kind, size = ("one vector", 3) if depth <= LANES else ("two vectors", 2)
        loops["tiles with a rest"] = sum(count % size > 0 for count in tiles) * rows
        loops["groups"] = sum(-(-count // size) for count in tiles) * rows
        loops["blocks"] = loops["groups"] * -(-filters // WORDS)
    else:
        kind, blocks = "long", -(-filters // WORDS)
        threes, twos = sum(count // 3 for count in tiles), sum(count % 3 == 2 for count in tiles)
        for of_two, groups in (("", threes * rows), (" of two", twos * rows)):
            loops[f"groups{of_two}"] = groups
            loops[f"blocks{of_two}"] = groups * blocks
            loops[f"pairs of channels{of_two}"] = groups * -(-filters // 2)
            loops[f"vectors{of_two}"] = groups * -(-filters // 2) * _vectors(depth)
        loops["pixels alone"] = sum(count % 3 == 1 for count in tiles) * rows
        loops.update(repeated(loops["pixels alone"], _fours(filters, depth)))
    if not direct:
        loops.update(_columns(call))
    elif kind == "long" and call.shares_bytes:
        loops["copied pixels"] = rows * width
        loops["copied vectors"] = rows * width * _vectors(depth)
    path = kind if kind == "single" else f"{kind} {_signed(call)}"
    return LoopCounts(path, repeated(call.step.batches * call["groups"], loops))


def _fours(count: int, depth: int) -> dict[str, int]:
    """Return the loops of products of vectors with one that they share: in fours, but for the last one or two."""
    pairs = int(count % WORDS in (1, 2))
    fours = -(-count // WORDS) - pairs
    vectors = _vectors(depth)
    return {"fours": fours, "vectors of fours": fours * vectors, "pairs": pairs, "vectors of pairs": pairs * vectors}


def _columns(call: StepCall) -> Counter[str]:
    """Return the loops that copy the columns of the input of one batch to scratch."""
    loops: Counter[str] = Counter()
    width, taps, stride, dilation = call["output_width"], call["taps_x"], call["stride_x"], call["dilation_x"]
    check_steps(call.step.rows * width)
    column, input_width = call["taps_y"] * call["depth"], call["input_width"]
    blocks = _vectors(call["depth"])
    copies = []
    for x in range(0, width, call["tile"]):
        count = min(call["tile"], width - x)
        if dilation == 1:
            copies.append((x * stride - call["pad_x"], (count - 1) * stride + taps))
        else:
            copies += [((x + i) * stride - call["pad_x"], taps) for i in range(count)]
    for start, count in copies:
        places = range(start, start + count * dilation, dilation)
        before, inside = sum(place < 0 for place in places), sum(0 <= place < input_width for place in places)
        after = count - before - inside
        loops["copies"] += 1
        loops["fills"] += (before > 0) + (after > 0)
        loops["filled vectors"] += _vectors(before * column) + _vectors(after * column)
        if inside:
            loops["copied rows"] += call["taps_y"]
            loops["copied blocks"] += call["taps_y"] * blocks
            loops["copied columns"] += call["taps_y"] * blocks * inside
    return Counter(repeated(call.step.rows, loops))


def _depthwise(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_vector_s8: one output row, or two that share rows of taps."""
    loops: Counter[str] = Counter()
    check_steps(call.step.rows * -(-call["output_width"] // call["tile"]))
    pairs = Counter(pair for band in call.bands() for pair in _pairs_of_rows(call, band))
    for is_pair, times in pairs.items():
        for name, count in _rows(call, is_pair=is_pair).items():
            loops[name] += times * count
    counts = combined(repeated(call.step.batches, loops), _clamped(call))
    return LoopCounts(f"{call['vectors']} vectors {_signed(call)}", counts)


def _clamped(call: StepCall) -> dict[str, int]:
    """Return the loop that clamps the outputs of bands."""
    vectors = 0 if call.is_full_range else sum(_vectors(len(band) * call.step.row_bytes) for band in call.bands())
    return {"clamped vectors": call.step.batches * vectors}


def _lanes(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_lanes_s8: the addresses of the taps of each pixel, then its channels."""
    loops = found_taps(call)
    blocks = loops["pixels"] * -(-call["input_channels"] // 8)
    loops["rows"], loops["judged rows"] = call.rows, call.rows * call["taps_y"]
    loops["blocks"], loops["taps of blocks"] = blocks, blocks * call["taps_y"] * call["taps_x"]
    return LoopCounts("all", loops)


def _depthwise_3x3(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_depthwise_3x3_vector_s8: runs of outputs whose taps follow each other."""
    channels, lanes, stride, width = call["input_channels"], call["lanes"], call["stride_x"], call["input_width"]
    starts = [x * stride - call["pad_x"] for x in range(call["output_width"])]
    reach = 2 * call["dilation_x"]
    inside = sum(start >= 0 and start + reach < width for start in starts)
    is_moved = stride > 1 or lanes % LANES > 0
    check_steps(call.step.rows)
    runs: Counter[int] = Counter()
    for y in range(call.step.rows):
        rows = call.tap_rows(y)
        together = 0 if None in rows else inside
        runs.update({1: len(starts) - together, together: together > 0})
    loops: Counter[str] = Counter({"rows": call.rows})
    for pixels, in_batch in runs.items():
        times = call.step.batches * in_batch
        periods, rest = divmod(pixels * channels, lanes)
        loops["found tables"] += times
        loops["runs"] += times * ((periods > 0) + (rest > 0))
        loops["periods"] += times * (periods + (rest > 0))
        loops["moved periods"] += times * periods * is_moved
        loops["blocks"] += times * (periods * _vectors(lanes) + _vectors(rest))
    return LoopCounts(_signed(call), combined(loops, _clamped(call)))


def _pairs_of_rows(call: StepCall, band: range) -> Iterator[bool]:
    """Yield for each row, or pair of rows, of a call whether it is a pair."""
    y = band.start
    while y < band.stop:
        is_pair = bool(call["paired"]) and y + 1 < band.stop
        is_pair = is_pair and call.tap_rows(y + 1)[:2] == call.tap_rows(y)[1:]
        yield is_pair
        y += 1 + is_pair


def _rows(call: StepCall, *, is_pair: bool) -> Counter[str]:
    """Return the loops of one output row, or of two."""
    width, stride, channels, groups = call["output_width"], call["stride_x"], call["channels"], call["groups"]
    taps_y, reach = 4 if is_pair else call["taps_y"], (call["taps_x"] - 1) * call["dilation_x"] + 1
    kind, size = ("pairs", 2) if is_pair else ("windows", 4)
    loops: Counter[str] = Counter({f"rows of {kind}": 1})
    lanes = [min(LANES, channels - channel) for channel in range(0, channels, LANES)]
    for x in range(0, width, call["tile"]):
        pixels, start = min(call["tile"], width - x), x * stride - call["pad_x"]
        columns = (pixels - 1) * stride + reach
        before = min(columns, max(0, -start))
        inside = min(columns - before, max(0, call["input_width"] - start - before))
        loops["tiles"] += 1
        loops["filled vectors"] += (columns - inside) * 4 * groups
        loops["blocks"] += len(lanes)
        copies = -(-taps_y // 4) if inside else 0
        loops["copies"] += len(lanes) * copies
        loops["copied columns"] += len(lanes) * copies * inside
        loops["copied words"] += sum(-(-lane // WORDS) for lane in lanes) * copies * inside
        loops[f"channels of {kind}"] += channels
        loops[f"groups of {kind}"] += channels * -(-pixels // size)
        loops[f"tiles of {kind} with a rest"] += channels * (pixels % size > 0)
        loops[f"lanes of {kind}"] += channels * pixels
    return loops


def _multiplications(times: int, others: int, depth: int) -> Counter[str]:
    """Return the loops of edgetool_multiply_vector."""
    return Counter(repeated(times, {"rows": 1, **_fours(others, depth)}))


def _summed(times: int, depth: int) -> Counter[str]:
    """Return the loops of sums of codes."""
    return Counter({"summed rows": times, "summed vectors": times * _vectors(depth)})


def _dense(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_dense_vector_s8: rows times units, or one unit times rows."""
    rows, units, depth = call["rows"], call["units"], call["depth"]
    zero_point = call["weights_zero_point"]
    times, others = (1, rows) if units == 1 and not zero_point else (rows, units)
    loops = _multiplications(times, others, depth)
    if zero_point:
        loops += _summed(rows, depth)
    return LoopCounts("all", repeated(call.rows, loops))


def _product(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_batch_matmul_vector_s8."""
    rows, columns, depth, batches = call["rows"], call["columns"], call["depth"], prod(call.numbers("batches"))
    loops = _multiplications(rows, columns, depth)
    loops["batches of products"] = 1
    loops["columns"] = columns
    if call["left_zero_point"]:
        loops += _summed(columns, depth)
    if call["right_zero_point"]:
        loops += _summed(rows, depth)
    copies = rows * (call["left_depth_step"] != 1) + columns * (call["right_depth_step"] != 1)
    loops += Counter({"copies": copies, "copied codes": copies * depth})
    return LoopCounts("all", repeated(batches, loops))


def _add(call: StepCall) -> LoopCounts:
    """Return the loop of edgetool_add_vector_s8."""
    return LoopCounts("line", {"rows": call.rows, "vectors": call.rows * -(-call["count"] // WORDS)})


def _lookup(call: StepCall) -> LoopCounts:
    """Return the loop of edgetool_lookup_vector."""
    return LoopCounts("all", {"rows": call.rows, "vectors": call.rows * _vectors(call["count"])})


def _mul(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_mul_vector_s8: runs of codes by codes, or by a single code."""
    runs, run, steps = runs_of(call, 2)
    kind = "vectors by one code" if 0 in steps else "vectors"
    return LoopCounts("all", {"rows": call.rows, "runs": call.rows * runs, kind: call.rows * runs * -(-run // WORDS)})


def _pool(call: StepCall, *, lanes: int) -> Counter[str]:
    """Return the loops of pooling of one batch: vectors of channels of each window."""
    columns, vectors = pool_columns(call), -(-call["channels"] // lanes)
    loops: Counter[str] = Counter()
    for y in range(call.step.rows):
        rows = sum(row is not None for row in call.tap_rows(y))
        loops["rows of taps"] += call["taps_y"]
        loops["columns"] += len(columns)
        loops["vectors"] += len(columns) * vectors
        loops["tap rows"] += len(columns) * vectors * rows
        loops["taps"] += sum(columns) * vectors * rows
        if lanes == SUM_LANES:
            loops["parts of rows"] += sum(-(-count // SUM_CODES) for count in columns) * vectors * rows
    return loops


def _max_pool(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_max_pool_vector_s8."""
    return LoopCounts("all", repeated(call.step.batches, _pool(call, lanes=LANES)))


def _average_pool(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_average_pool_vector_s8, which divides again if the number of pixels changes."""
    loops, columns = _pool(call, lanes=SUM_LANES), pool_columns(call)
    inside = sum(a != b for a, b in pairwise(columns))
    for band in call.bands():
        rows = [sum(row is not None for row in call.tap_rows(y)) for y in band]
        between = sum(a * columns[-1] != b * columns[0] for a, b in pairwise(rows))
        loops["reciprocals"] += 1 + between + len(rows) * inside
    return LoopCounts("all", repeated(call.step.batches, loops))


def _softmax(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_softmax_vector_s8: sixteen codes at once, then twice four."""
    vectors, depth = call.rows * call["vectors"], call["depth"]
    loops = {"rows": call.rows, "vectors": vectors, "sixteens": vectors * _vectors(depth)}
    return LoopCounts("all", loops | {"fours": vectors * -(-depth // WORDS)})


def _sum(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_sum_vector_s8: groups of outputs with codes in lanes, or in vectors."""
    turns, count = call.numbers("reduced_count")
    kept, outputs = call.numbers("kept_count")
    taps, groups = call["taps"], kept * -(-outputs // SUM_LANES)
    # Shifts to the left and to the right have code of their own.
    loops = {"kept": kept, "groups shifted right" if call["shift"] < 0 else "groups shifted left": groups}
    if call.numbers("kept_step")[1] == 1:
        tap_rows = groups * turns * taps
        loops |= {"turns": groups * turns, "tap rows": tap_rows, "taps": tap_rows * count}
        loops["parts of rows"] = tap_rows * -(-count // SUM_CODES)
        return LoopCounts("lanes", repeated(call.rows, loops))
    sums = kept * outputs
    loops |= {"sums": sums, "turns": sums * turns, "tap rows": sums * turns * taps}
    loops["vectors"] = loops["tap rows"] * _vectors(count)
    return LoopCounts("vectors", repeated(call.rows, loops))


RULES: dict[str, LoopRule] = {
    "edgetool_add_vector_s8": _add,
    "edgetool_average_pool_vector_s8": _average_pool,
    "edgetool_batch_matmul_vector_s8": _product,
    "edgetool_conv2d_vector_s8": _conv2d,
    "edgetool_dense_vector_s8": _dense,
    "edgetool_depthwise_lanes_s8": _lanes,
    "edgetool_depthwise_3x3_vector_s8": _depthwise_3x3,
    "edgetool_depthwise_vector_s8": _depthwise,
    "edgetool_lookup_vector": _lookup,
    "edgetool_max_pool_vector_s8": _max_pool,
    "edgetool_mul_vector_s8": _mul,
    "edgetool_softmax_vector_s8": _softmax,
    "edgetool_sum_vector_s8": _sum,
}
