"""Loop counts of steps that compute an expansion again for each output row."""

from __future__ import annotations

from edgetool.codegen.native.loops.call import WORD, LoopRule, StepCall, form_of
from edgetool.operators.loops import LoopCounts, check_steps

CHANNELS = 4  # which are computed at once


def _expand_depthwise_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_expand_depthwise_s8: blocks of channels, their columns, and their windows."""
    step, depth, channels = call.step, call["input_channels"], call["output_channels"]
    taps_y, taps_x, width, input_width = call["taps_y"], call["taps_x"], call["output_width"], call["input_width"]
    reach, stride, pad = (taps_x - 1) * call["dilation_x"] + 1, call["stride_x"], call["pad_x"]
    # Columns between windows are left out.
    visited = reach + (width - 1) * min(stride, reach)
    inside = sum(
        0 <= column - pad < input_width
        for x in range(width)
        for column in range(x * stride + (reach - min(stride, reach) if x else 0), x * stride + reach)
    )
    check_steps(step.rows * taps_y)
    starts = [call.row_start(row) for y in range(step.rows) for row in call.tap_rows(y) if row is not None]
    even = sum(call.code.dsp and depth % WORD == 0 and start == 0 for start in starts) * step.batches
    present = len(starts) * step.batches
    blocks = -(-channels // CHANNELS)
    # Without registers for four, two channels are computed at once.
    passes = -(-channels // 2) if call.code.thumb1 else blocks
    windows = call.rows * blocks * width
    return LoopCounts(
        f"{form_of(call['shift'])} {form_of(call['depthwise_shift'])}",
        {
            "blocks": call.rows * blocks,
            "columns": call.rows * blocks * visited,
            "pixels outside": blocks * (call.rows * taps_y * visited - present * inside),
            "pixels": blocks * present * inside,
            "passes": passes * present * inside,
            "words": passes * even * inside * (depth // WORD),
            "codes": passes * (present - even) * inside * depth,
            "expanded": channels * present * inside,
            "windows": windows,
            "columns of taps": windows * taps_x,
            "taps": windows * taps_x * taps_y,
            "outputs": call.rows * width * channels,
        },
    )


def _conv_sums_s8(call: StepCall) -> LoopCounts:
    """Return the loops of edgetool_conv_sums_s8: blocks of channels, and their pixels."""
    step, depth, channels, width = call.step, call["input_channels"], call["output_channels"], call["input_width"]
    check_steps(step.rows)
    passes = -(-channels // (2 if call.code.thumb1 else CHANNELS))
    even = sum(call.code.dsp and depth % WORD == 0 and call.row_start(row) == 0 for row in range(step.rows))
    return LoopCounts(
        call.form,
        {
            "blocks": step.rows * passes,
            "passes": step.rows * passes * width,
            "words": even * passes * width * (depth // WORD),
            "codes": (step.rows - even) * passes * width * depth,
            "expanded": step.rows * width * channels,
            "channels": step.rows * channels,
        },
    )


RULES: dict[str, LoopRule] = {
    "edgetool_conv_sums_s8": _conv_sums_s8,
    "edgetool_expand_depthwise_s8": _expand_depthwise_s8,
}
