"""Loop counts of CONV_2D and TRANSPOSE_CONV."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import numpy as np

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall
from edgetool.operators.loops import LoopCounts, check_steps

TAPS, ASIDE = 4, 16  # which are copied at once, and the most of a row that are copied twice
BLOCK = 8  # channels that edgetool_conv2d_lean_s8 computes at once


def _tiled_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_conv2d_tiled_s8: groups of pixels, whose taps are copied to scratch."""
    check_steps(call.step.rows * call["output_width"])
    # Bands differ in what the alignments of their rows are.
    bands: dict[tuple[object, ...], tuple[range, int]] = {}
    copies = _Copies(_columns(call))
    for band in call.bands():
        address = (call.output_start + band[0] * call.step.row_bytes) % WORD
        key = (address, *(_alignments(call, y) for y in band))
        bands[key] = band, bands.get(key, (band, 0))[1] + 1
    loops: Counter[str] = Counter()
    for band, times in bands.values():
        for name, count in _tiled_band(call, band, copies).items():
            loops[name] += times * count
    return LoopCounts(call.form, {name: call.step.batches * times for name, times in loops.items()})


@dataclass(frozen=True, slots=True)
class _Copies:
    """What the copies of groups of pixels depend on, as numbers, and what is known of them.

    Attributes:
        columns: A number from 0 on for each pixel of a row; equal ones have the same copies in the same rows.
        rows: A number for the alignments of the input rows of each output row so far.
        loops: Those that copy groups of pixels, by the numbers of the pixels and an input channel modulo 4.
    """

    columns: tuple[int, ...]
    rows: dict[tuple[int | None, ...], int] = field(default_factory=dict)
    loops: dict[tuple[tuple[int, ...], int], Counter[str]] = field(default_factory=dict)


def _tiled_band(call: StepCall, band: range, copies: _Copies) -> Counter[str]:
    """Return the loops of one band. copies: to which those of new groups of pixels are added."""
    loops: Counter[str] = Counter()
    width, groups, filters, depth = (call[name] for name in ("output_width", "groups", "filters", "depth"))
    channels, pixels = groups * filters, 2 if call.code.thumb1 else 4
    turns = -(-call["taps_y"] * call["taps_x"] * depth // TAPS) * 2
    is_line, count = _is_line(call, pixels), len(band) * width
    rows = [copies.rows.setdefault(_alignments(call, y), len(copies.rows)) for y in band]
    many = max(copies.columns, default=0) + 1
    kinds = [row * many + column for row in rows for column in copies.columns]
    rest = count % pixels
    first = rest if call.descending else 0
    groups_of = list(zip(*(kinds[first + i : first + count - rest : pixels] for i in range(pixels)), strict=True))
    times, places = Counter(groups_of), dict(zip(groups_of, range(first, count, pixels), strict=False))
    if rest:
        start = 0 if call.descending else count - rest
        last = tuple(kinds[start : start + rest])
        times[last], places[last] = 1, start
    channels_of = Counter(channel % WORD for channel in range(0, groups * depth, depth))
    for (key, number), (channel, others) in product(times.items(), channels_of.items()):
        if (key, channel) not in copies.loops:
            group = [(band[place // width], place % width) for place in range(places[key], places[key] + len(key))]
            copies.loops[key, channel] = _copies(call, group, channel, pixels)
        for name, turns_of in copies.loops[key, channel].items():
            loops[name] += number * others * turns_of
    pairs = groups * -(-filters // 2)
    for size, number in ((pixels, count // pixels), (count % pixels, 1)):
        if not size or not number:
            continue
        loops["groups in a line" if is_line and size == pixels else "groups"] += number
        loops["more groups of channels"] += number * (groups - 1)
        if size > pixels // 2 and call.form != "double":
            loops["pairs"] += number * pairs
            loops["pairs of one channel"] += number * groups * (filters % 2)
            loops["turns"] += number * pairs * turns
            if call.code.dsp:
                loops["eight turns"] += number * pairs * -(-(turns - 1) // 8)
        else:
            loops["pixels alone"] += number * size * groups
            loops["pairs alone"] += number * size * pairs
            loops["turns alone"] += number * size * pairs * turns
    if not call.is_full_range:
        address = call.output_start + band[0] * call.step.row_bytes
        words = count * channels // WORD if call.code.dsp and address % WORD == 0 else 0
        loops["clamps"] += 1
        loops["clamped words"] += words
        loops["clamped codes"] += count * channels - words * WORD
    return loops


def _alignments(call: StepCall, y: int) -> tuple[int | None, ...]:
    """Return the alignment of each input row that an output row needs."""
    return tuple(_alignment(call, row) for row in call.tap_rows(y))


def _alignment(call: StepCall, row: int | None) -> int | None:
    return None if row is None else call.row_start(row)


def _is_line(call: StepCall, pixels: int) -> bool:
    """Return whether the taps of whole groups follow each other in one row, and their outputs need nothing else."""
    is_point = (call["taps_y"], call["taps_x"], call["stride_x"], call["pad_x"]) == (1, 1, 1, 0)
    is_plain = call["groups"] == 1 and call["filters"] % 2 == 0 and call.form != "double"
    is_long = call.step.band == 1 and call["output_width"] >= pixels
    return is_point and is_plain and is_long and call["depth"] % WORD == 0


def _columns(call: StepCall) -> tuple[int, ...]:
    """Return numbers for what the copies of each pixel of a row depend on: whether all its columns are inside, their
    alignment or its place, and whether a group can begin with it in which all are.
    """
    stride, pad, pixel = call["stride_x"], call["pad_x"], call["groups"] * call["depth"]
    last = call["input_width"] - (call["taps_x"] - 1) * call["dilation_x"] - 1
    x = np.arange(call["output_width"])
    start, inside = x * stride - pad, _groups_inside(call, 2 if call.code.thumb1 else 4)
    kinds = np.where((start >= 0) & (start <= last), start * pixel % WORD, WORD + x)
    return tuple((2 * kinds + ((x >= inside.start) & (x < inside.stop))).tolist())


def _groups_inside(call: StepCall, pixels: int) -> range:
    """Return the pixels from which on a group is in one row, and all columns of its taps inside, without dilation."""
    stride, pad = call["stride_x"], call["pad_x"]
    reach = (pixels - 1) * stride + call["taps_x"]
    last = min((call["input_width"] - reach + pad) // stride, call["output_width"] - pixels)
    return range(-(-pad // stride), last + 1)


def _copies(call: StepCall, group: list[tuple[int, int]], channel: int, pixels: int) -> Counter[str]:
    """Return the loops that copy the taps of a group of pixels, from an input channel on."""
    (y, x), taps, width, depth = group[0], call["taps_x"], call["input_width"], call["depth"]
    stride, dilation, run, channels = call["stride_x"], call["dilation_x"], taps * depth, call["groups"] * depth
    start = x * stride - call["pad_x"]
    is_apart = dilation != 1 or call["groups"] != 1
    is_one_row = x in _groups_inside(call, pixels) and (not is_apart or taps == call["groups"] == 1)
    loops: Counter[str] = Counter()
    inside = [row for row in call.tap_rows(y) if row is not None]
    if len(group) == pixels and is_one_row and len(inside) == call["taps_y"]:
        for place in inside:
            address = call.row_start(place) + start * channels
            loops["rows of groups"] += 1
            loops.update(_taps(call, (address, address + stride * channels), run))
        return loops
    is_short = run <= ASIDE and not is_apart
    length = taps if is_short else 1
    places = [(call.tap_rows(row), (column * stride - call["pad_x"])) for row, column in group]
    places += [places[-1]] * (pixels - len(places))
    loops["groups anywhere"] += 1
    for ty in range(call["taps_y"]):
        for tx in range(0, taps, length):
            loops["rows anywhere" if is_short else "taps anywhere"] += 1
            addresses = []
            for rows, from_x in places:
                row, column = rows[ty], from_x + tx * dilation
                if row is not None and column >= 0 and column + length <= width:
                    addresses.append(call.row_start(row) + column * channels + channel)
                else:
                    # Taps aside are in rows of 16 bytes, and those outside in words.
                    addresses.append(0)
                    loops["bytes aside"] += run if is_short and row is not None else 0
            if is_short or is_apart or depth % TAPS == 0:
                loops.update(_taps(call, tuple(addresses), length * depth))
            else:
                loops.update({"copies of taps": 2, "single taps": depth})
    return loops


def _taps(call: StepCall, addresses: tuple[int, ...], count: int) -> dict[str, int]:
    """Return the loops that copy taps of all pixels of a group: fours of them, in words or not, and single taps.

    Args:
        call: The call.
        addresses: Those of the pixels' first taps, as far as their alignments differ.
        count: The number of taps of a pixel.
    """
    if call.code.dsp and count % TAPS == 0 and all(address % WORD == 0 for address in addresses):
        return {"copies of words": 1, "words": count // TAPS}
    return {
        "copies of fours": int(count >= TAPS),
        "fours": count // TAPS,
        "copies of taps": int(count % TAPS > 0),
        "single taps": count % TAPS,
    }


def _window(call: StepCall, *, double: bool = False) -> LoopCounts:
    """Return the loops of the plain kernels of CONV_2D: sums of all taps for each output."""
    groups = call["groups"]
    pixels, channels = call.rows * call["output_width"], call["output_channels"]
    taps = call["taps_y"] * call["taps_x"]
    inside = inside_taps(call)
    products = pixels * channels * taps * (call["input_channels"] // groups)
    path = call.form if not double else f"{call.form} sums"
    return LoopCounts(
        path,
        {
            "pixels": pixels,
            "outputs": pixels * channels,
            "tap rows": pixels * channels * call["taps_y"],
            "taps": pixels * channels * taps,
            "taps inside": inside * channels,
            "products": products,
            "products inside": inside * channels * (call["input_channels"] // groups),
        },
    )


def _lean_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_conv2d_s8: runs of taps that are beside each other, for several channels at once."""
    groups, channels, width = call["groups"], call["input_channels"], call["input_width"]
    depth, filters = channels // groups, call["output_channels"] // groups
    together = 2 if call.code.thumb1 else 4
    # A last channel is computed alone.
    singles = groups * (filters % together == 1)
    passes = groups * -(-filters // together) - singles
    taps, dilation = call["taps_x"], call["dilation_x"]
    can_run = groups == 1 and dilation == 1
    check_steps(call.step.rows * call["output_width"])
    loops: Counter[str] = Counter()
    starts = [x * call["stride_x"] - call["pad_x"] for x in range(call["output_width"])]
    for y in range(call.step.rows):
        for row in call.tap_rows(y):
            for start in starts:
                if can_run and row is not None and 0 <= start <= width - taps:
                    runs = [(call.row_start(row) + start * channels, taps * depth)]
                else:
                    columns = [start + tx * dilation for tx in range(taps)]
                    inside = [row is not None and 0 <= column < width for column in columns]
                    addresses = [0 if row is None else call.row_start(row) + column * channels for column in columns]
                    runs = [(at if is_in else 1, depth) for at, is_in in zip(addresses, inside, strict=True)]
                for address, count in runs:
                    is_even = call.code.dsp and count % WORD == 0 and address % WORD == 0
                    loops["runs"] += passes
                    loops["runs of one"] += singles
                    loops["fours of one"] += singles * (count // WORD)
                    loops["codes of one"] += singles * (count % WORD)
                    loops["words" if is_even else "codes"] += passes * (count // WORD if is_even else count)
    outputs = call.step.rows * call["output_width"] * call["output_channels"]
    loops["passes"] += call.step.rows * call["output_width"] * (passes + singles)
    loops["tap rows"] += call.step.rows * call["output_width"] * (passes + singles) * call["taps_y"]
    loops["outputs"] += outputs
    loops["pixels"] += call.step.rows * call["output_width"]
    return LoopCounts(call.form, {name: call.step.batches * times for name, times in loops.items()})


def _pixels_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_conv2d_lean_s8: runs of taps of each pixel, for eight channels at once or two."""
    # All batches are the same unless some calls are bare.
    batches = call.step.batches if call.step.bare else 1
    check_steps(batches * call.step.rows * call["taps_y"])
    # Rows differ in the alignments of what they read and write, and in whether their call is bare.
    alike: dict[tuple[object, ...], tuple[int, bool, int]] = {}
    for number in range(batches * call.step.rows):
        y, is_bare = number % call.step.rows, number // call.step.band in call.step.bare
        key = (_alignments(call, y), (call.output_start + y * call.step.row_bytes) % WORD, is_bare)
        alike[key] = y, is_bare, alike.get(key, (0, False, 0))[2] + 1
    loops: Counter[str] = Counter()
    for y, is_bare, times in alike.values():
        for name, count in _row_of_pixels(call, y, is_bare=is_bare).items():
            loops[name] += times * count
    return LoopCounts(call.form, {name: call.step.batches // batches * n for name, n in loops.items() if n})


def _row_of_pixels(call: StepCall, y: int, *, is_bare: bool) -> Counter[str]:
    """Return the loops of an output row of edgetool_conv2d_lean_s8. is_bare: whether its call has no scratch."""
    groups, depth, filters, width = call["groups"], call["depth"], call["filters"], call["output_width"]
    taps_y, taps_x = call["taps_y"], call["taps_x"]
    run, has_words = taps_x * depth, depth % WORD == 0
    fours = -(-taps_y * run // TAPS)
    blocks, rest = filters // BLOCK, filters % BLOCK
    can_run = groups == 1 and call["dilation_x"] == 1
    stride, pad, last = call["stride_x"], call["pad_x"], call["input_width"] - taps_x
    starts = list(range(-pad, width * stride - pad, stride))
    are_between = [can_run and 0 <= start <= last for start in starts]
    between = sum(are_between)
    # Those that are computed one by one; the others are two at once.
    ones = slice(None)
    if call.code.dsp and call["pixels"] == 2:
        ones = slice(width % 2) if call.descending else slice(width // 2 * 2, None)
    rows = call.tap_rows(y)
    is_aligned = not has_words or all(row is None or call.row_start(row) == 0 for row in rows)
    is_slow = call.form == "double" or not is_aligned
    if not (call.code.dsp or call.code.thumb1):
        is_slow = call.form == "double" and not call.code.riscv
    is_inside = rows[0] is not None and rows[-1] is not None
    inside = between if is_inside else 0
    loops = Counter(_clamps(call, y))
    if filters < BLOCK and taps_y == 1 and inside == width:
        is_single = call.code.dsp and filters == 1
        loops.update((_single_channel if is_single else _few_channels)(call, rows[0], starts))
        return loops
    outside = width - inside
    loops.update({"pixels": inside, "pixels outside": outside, "runs": inside * taps_y})
    loops["more groups"] += outside * (groups - 1)
    loops["taps outside"] += outside * groups * taps_y * taps_x
    for pixels, runs, length in ((inside, taps_y, run), (outside * groups, taps_y * taps_x, depth)):
        if not has_words:
            loops["copied fours"] += pixels * runs * (length // TAPS)
            loops["copies of codes"] += pixels * runs * (length % TAPS > 0)
            loops["copied codes"] += pixels * runs * (length % TAPS)
    if ones != slice(None) and not is_bare:
        loops.update(_two_pixels(call, rows, fours, starts, are_between if is_inside else [False] * width))
        inside = sum(are_between[ones]) if is_inside else 0
        outside = len(starts[ones]) - inside
    for pixels, runs, length in ((inside, taps_y, run), (outside * groups, taps_y * taps_x, depth)):
        listed, turns = (runs, length // TAPS) if has_words else (1, fours)
        if is_slow:
            loops["slow blocks"] += pixels * blocks
        else:
            loops["blocks"] += pixels * blocks
            loops["runs of blocks"] += pixels * blocks * listed
            loops["turns"] += pixels * blocks * fours
            if not (call.code.riscv or call.code.thumb1):
                loops["double turns"] += pixels * blocks * listed * -(-turns // 2)
        pairs = pixels * (is_slow * blocks * BLOCK // 2 + -(-rest // 2))
        kind = "words" if call.code.dsp and is_aligned else "codes"
        loops["pairs"] += pairs
        loops["runs of pairs"] += pairs * listed
        loops[f"fours of pairs in {kind}"] += pairs * fours
        loops["codes"] += pixels * (is_slow * blocks * BLOCK + rest)
    return loops


def _two_pixels(
    call: StepCall, rows: tuple[int | None, ...], fours: int, starts: list[int], are_inside: list[bool]
) -> Counter[str]:
    """Return the loops of the pixels of an output row that edgetool_conv2d_lean_s8 computes two at once.

    Args:
        call: The call.
        rows: The input rows.
        fours: How many fours of taps a pixel has.
        starts: The column at which the taps of each pixel begin.
        are_inside: For each pixel, whether all taps of a row are one run.
    """
    groups, depth, taps_y, taps_x = (call[name] for name in ("groups", "depth", "taps_y", "taps_x"))
    width = len(starts)
    two = slice(width % 2, None) if call.descending else slice(width // 2 * 2)
    halves = width // 2 * groups * 2 * (call["filters"] // BLOCK)
    loops = Counter({"two pixels": width // 2 * groups, "halves of blocks": halves})
    loops["turns of two"] = halves * fours
    loops["four turns of two"] = halves * -(-fours // 4)
    if depth % WORD:
        runs = [(width // 2 * 2 * groups, 0, TAPS * fours)]
    else:
        inside = sum(are_inside[two])
        outside = [start for start, is_inside in zip(starts[two], are_inside[two], strict=True) if not is_inside]
        columns = range(0, taps_x * call["dilation_x"], call["dilation_x"])
        taps = sum(0 <= start + column < call["input_width"] for start in outside for column in columns)
        # What is outside the input is at a multiple of 4.
        odd_rows = sum(row is not None and call.row_start(row) > 0 for row in rows)
        runs = [
            (inside * taps_y, inside * odd_rows, taps_x * depth),
            (len(outside) * groups * taps_y * taps_x, taps * groups * odd_rows, depth),
        ]
    for count, odd, length in runs:
        loops["extended runs"] += count
        loops["extended sixteens"] += (count - odd) * (length // 16)
        loops["extended words"] += (count - odd) * (length % 16 // WORD)
        loops["extended fours"] += odd * (length // TAPS)
    return loops


def _clamps(call: StepCall, row: int) -> dict[str, int]:
    """Return the loops that clamp the codes of an output row."""
    if call.is_full_range:
        return {}
    is_word = call.code.dsp and (call.output_start + row * call.step.row_bytes) % WORD == 0
    words = call.step.row_bytes // WORD if is_word else 0
    return {"clamps": 1, "clamped words": words, "clamped codes": call.step.row_bytes - words * WORD}


def _few_channels(call: StepCall, row: int | None, starts: list[int]) -> Counter[str]:
    """Return the loops of an output row in fewer channels than a block, whose pixels each read a run of one row."""
    assert row is not None
    run, filters = call["taps_x"] * call["depth"], call["filters"]
    singles = 0 if call.code.dsp else filters % 2
    pairs = -(-filters // 2) - singles
    loops = Counter({"pixels": len(starts)})
    ordered = starts[::-1] if call.descending else starts
    for first in range(0, len(ordered), 2):
        addresses = [call.row_start(row) + start * call["depth"] for start in ordered[first : first + 2]]
        is_word = call.code.dsp and all(address % WORD == 0 for address in addresses)
        loops.update({"few": 1, "few codes": 2 * filters})
        for kind, count in (("pairs", pairs), ("singles", singles)):
            loops[f"few {kind}"] += count
            loops[f"fours of few {kind} in {'words' if is_word else 'codes'}"] += count * (run // TAPS)
            loops[f"rests of few {kind}"] += count * (run % TAPS > 0)
            loops[f"taps of few {kind}"] += count * (run % TAPS)
    return loops


def _single_channel(call: StepCall, row: int | None, starts: list[int]) -> Counter[str]:
    """Return the loops of such a row in a single channel on cores with DSP instructions: pixel by pixel."""
    assert row is not None
    run = call["taps_x"] * call["depth"]
    places = [call.row_start(row) + start * call["depth"] for start in starts]
    words = sum(place % WORD == 0 for place in places)
    return Counter(
        {
            "single rows": 1,
            "single pixels": len(starts),
            "fours of single pixels in words": words * (run // TAPS),
            "fours of single pixels in codes": (len(starts) - words) * (run // TAPS),
            "rests of single pixels": len(starts) * (run % TAPS > 0),
            "taps of single pixels": len(starts) * (run % TAPS),
        }
    )


def inside_taps(call: StepCall) -> int:
    """Return the number of taps inside the input, of all pixels of all batches."""
    columns = (
        np.arange(call["output_width"], dtype=np.int64)[:, None] * call["stride_x"]
        - call["pad_x"]
        + np.arange(call["taps_x"], dtype=np.int64)[None] * call["dilation_x"]
    )
    across = int(((columns >= 0) & (columns < call["input_width"])).sum())
    check_steps(call.step.rows)
    down = sum(sum(row is not None for row in call.tap_rows(y)) for y in range(call.step.rows))
    return across * down * call.step.batches


def _transposed(call: StepCall, *, wide: bool = False) -> LoopCounts:
    """Return the loops of TRANSPOSE_CONV: for each output, the taps that meet an input pixel."""
    step, width, channels = call.step, call["output_width"], call["output_channels"]
    stride_x, taps_x, stride_y = call["stride_x"], call["taps_x"], call["stride_y"]
    columns = inside = 0
    check_steps(width * taps_x)
    for x in range(width):
        place = x + call["pad_x"]
        tap = range(place % stride_x, taps_x, stride_x)
        columns += len(tap)
        inside += sum(0 <= place // stride_x - i < call["input_width"] for i in range(len(tap)))
    rows = 0
    for y in range(step.rows):
        last = (y + call["pad_y"]) % stride_y
        taps = [last + (call["input_rows"] - 1 - i) * stride_y for i in range(call["input_rows"])]
        rows += sum(row is not None and tap < call["taps_y"] for row, tap in zip(call.tap_rows(y), taps, strict=True))
    rows *= step.batches
    return LoopCounts(
        f"{call.form} sums" if wide else call.form,
        {
            "outputs": call.rows * width * channels,
            "input rows": call.rows * width * channels * call["input_rows"],
            "rows of taps": rows * width * channels,
            "columns": rows * channels * columns,
            "columns inside": rows * channels * inside,
            "products": rows * channels * inside * call["input_channels"],
        },
    )


RULES: dict[str, LoopRule] = {
    "edgetool_conv2d_lean_s8": _pixels_s8,
    "edgetool_conv2d_s16": partial(_window, double=True),
    "edgetool_conv2d_s8": _lean_s8,
    "edgetool_conv2d_tiled_s8": _tiled_s8,
    "edgetool_transpose_conv_s16": partial(_transposed, wide=True),
    "edgetool_transpose_conv_s8": _transposed,
}
