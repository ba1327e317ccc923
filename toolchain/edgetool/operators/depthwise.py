"""DEPTHWISE_CONV_2D: MACs, Prepare and loop counts.

Sources of Prepare: depthwise_conv.cc and depthwise_conv_common.cc, cmsis_nn/depthwise_conv.cc and
esp_nn/depthwise_conv.cc.

Sources of the loop counts: depthwise_conv.cc of TFLM and CMSIS-NN's arm_depthwise_conv_wrapper_s8.c,
arm_depthwise_conv_3x3_s8.c, arm_depthwise_conv_s8_opt.c, arm_depthwise_conv_s8.c, arm_nn_depthwise_conv_nt_t_s8.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

from edgetool.model.types import DType, Graph, Operator
from edgetool.operators import cmsis_nn, esp_nn
from edgetool.operators.call import (
    QUANTIZED_TYPES,
    Call,
    PrepareRule,
    Request,
    input_shapes,
    integer_option,
    output_elements,
    require,
    scratch,
)
from edgetool.operators.cmsis_nn import Convolution, cmsis_copy_loops, cmsis_fill_loops
from edgetool.operators.convolution import (
    TYPES,
    Operands,
    buffer_sizes,
    check_filter_scales,
    check_rank_4,
    check_same_type,
    check_symmetric,
    check_type_pair,
    convolve_int8,
    esp_nn_sizes,
    operand_tensors,
    reference_depthwise,
    request_channels,
    request_output_first,
    request_output_last,
    request_parameters,
    unpacked_filter,
    window_pads,
)
from edgetool.operators.entry import KernelFault, MacRule, entries
from edgetool.operators.loops import (
    LoopCounts,
    LoopRule,
    Loops,
    Windows,
    check_steps,
    combined,
    convolution_windows,
    nested,
    prefixed,
    repeated,
)
from edgetool.operators.overlap import InputOverlap, OverlapRules, channelwise_distance, window_overlap
from edgetool.operators.rows import RowRule, convolution_rows
from edgetool.target.platform import Platform

DEPTHWISE = Operands(0, 1, 2, 3)


def _prepare_depthwise_conv_2d(call: Call) -> Iterator[Request]:
    if call.platform.cmsis_nn:
        yield from _cmsis_depthwise_conv_2d(call)
        return
    source, weights, _ = operand_tensors(call, DEPTHWISE)
    yield from request_output_first(call, DEPTHWISE)
    yield from request_channels(call, weights, DEPTHWISE)
    if source.dtype == DType.INT8:
        check_filter_scales(call, weights, DEPTHWISE)
    check_type_pair(call, source, weights, {*TYPES, (source.dtype, source.dtype)})
    if weights.dtype == DType.INT4:
        yield unpacked_filter(weights)
    yield from _depthwise_parameters(call)
    if call.platform.esp_nn is not None and source.dtype == DType.INT8:
        yield from esp_nn.requested(esp_nn.depthwise_scratch(_esp_nn_depthwise(call), call.platform.esp_nn))


def _esp_nn_depthwise(call: Call) -> Convolution:
    return esp_nn_sizes(call, DEPTHWISE, integer_option(call, "depth_multiplier"))


def _cmsis_depthwise_conv_2d(call: Call) -> Iterator[Request]:
    source, weights, result = operand_tensors(call, DEPTHWISE)
    yield from request_output_last(call, DEPTHWISE)
    check_same_type(call, source, result)
    check_type_pair(call, source, weights, TYPES)
    packed = weights.dtype == DType.INT4 and call.platform.has("int4-of-cmsis-nn")
    if weights.dtype == DType.INT4 and not packed:
        yield unpacked_filter(weights)
    if source.dtype in QUANTIZED_TYPES:
        check_symmetric(call, source, result)
        check_filter_scales(call, weights, DEPTHWISE)
        yield from request_channels(call, weights, DEPTHWISE)
    yield from _depthwise_parameters(call)
    if source.dtype != DType.INT8:
        return
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    sizes = buffer_sizes(call, DEPTHWISE, (source.shape[3], min(result.shape[3], weights.shape[3]), 1))
    if packed:
        size = cmsis_nn.depthwise_s4(sizes, mve=call.platform.mve)
    else:
        size = cmsis_nn.depthwise_s8(sizes, call.platform)
    if size > 0:
        yield scratch("im2col buffer", size)


def _depthwise_parameters(call: Call) -> Iterator[Request]:
    """Yield the requests of CalculateOpData.

    The kernel releases a third input even if it is omitted, and then passes a null pointer.
    """
    require(
        call,
        tuple(call.operator.inputs[2:]) != (-1,),
        "crashes if the bias is omitted by setting its input index to -1",
    )
    yield from request_parameters(call, DEPTHWISE)


PREPARE: dict[str, PrepareRule] = {"DEPTHWISE_CONV_2D": _prepare_depthwise_conv_2d}


CHANNELS_AT_ONCE = 124  # CH_IN_BLOCK_MVE
COLUMNS_AT_ONCE = 4
INT16_BYTES = 2

Kernel = Callable[[Windows, int, Platform], LoopCounts]


def _depthwise_conv_2d_loops(call: Call) -> LoopCounts:
    """Return the loops of DEPTHWISE_CONV_2D."""
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    w = replace(convolution_windows(call, source, weights, result), filter_channels=1)
    multiplier = integer_option(call, "depth_multiplier", 1)
    kernel = CMSIS_KERNELS.get((source.dtype, weights.dtype)) if call.platform.cmsis_nn else None
    if kernel is None:
        return reference_depthwise(call, w)
    counts = kernel(w, multiplier, call.platform)
    biased = w.batch * w.positions * w.out_channels * (call.input(2) is not None)
    return LoopCounts(counts.path, combined(counts.loops, {"biased output": biased}))


def _int8(w: Windows, multiplier: int, platform: Platform) -> LoopCounts:
    """Return the loops of arm_depthwise_conv_wrapper_s8."""
    if platform.mve and w.in_channels == 1 and w.out_channels > 1:
        return _as_convolution(w, platform)
    if not _is_optimized(w, multiplier):
        return _general_int8(w, multiplier)
    if platform.mve:
        return LoopCounts("int8 blocks", _blocks(w, platform))
    if w.rows.kernel == w.columns.kernel == 3 and w.rows.pad <= 1 and w.columns.pad <= 1:
        return LoopCounts("int8 3x3", _three_by_three(w))
    return LoopCounts("int8 columns", _columns(w, platform)) if platform.dsp else _general_int8(w, multiplier)


def _is_optimized(w: Windows, multiplier: int) -> bool:
    return multiplier == 1 and w.batch == 1 and not w.dilated


def _as_convolution(w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of one channel into several: a convolution whose filters are reversed first."""
    convolution = convolve_int8(w, platform)
    reversal = {"turned": w.out_channels * w.kernel, "turned row": w.kernel, "turned column": w.rows.kernel}
    return LoopCounts(f"{convolution.path} turned", combined(convolution.loops, reversal))


def _three_by_three(w: Windows) -> Loops:
    """Return the loops of a 3x3 window, four channels at once.

    The kernel assumes that the middle column is always inside the image.
    """
    rows, columns = w.rows.inside, w.columns
    inner = {
        "by row": rows * columns.outputs,
        "by left": rows * sum(start >= 0 for start in columns.starts),
        "by right": rows * sum(start + columns.kernel <= columns.size for start in columns.starts),
    }
    four, rest = divmod(w.in_channels, 4)
    return combined(
        {"output row": w.rows.outputs, "window": w.positions},
        repeated(four, {"4 channels": w.positions, **prefixed("4 channels", inner)}),
        repeated(rest, {"last channel": w.positions, **prefixed("last channel", inner)}),
        {
            "window of 4": w.positions * (four > 0),
            "window of last": w.positions * (rest > 0),
            "window of both": w.positions * (four > 0 and rest > 0),
        },
    )


def _columns(w: Windows, platform: Platform) -> Loops:
    """Return the loops of windows widened to int16 (arm_depthwise_conv_s8_opt with DSP).

    Four channels and two elements are processed at once.
    """
    channels, rows = w.in_channels, w.rows
    four, rest = divmod(channels, 4)
    return combined(
        {"output row": rows.outputs, "window": w.positions, "window row": rows.inside * w.columns.outputs},
        _padded_row_loops(w, platform),
        _padded_column_loops(w, platform),
        repeated(w.inside, nested("widened", {"by 4": four, "by 1": rest})),
        repeated(four * w.positions, nested("4 channels", {"by 2": w.kernel // 2, "by 1": w.kernel % 2})),
        repeated(rest * w.positions, nested("last channel", {"by 1": w.kernel})),
    )


def _padded_row_loops(w: Windows, platform: Platform) -> Loops:
    """Return the fills of window rows above and below the image, which are filled together."""
    row = w.columns.kernel * w.in_channels * INT16_BYTES
    above = (max(0, -start) for start in w.rows.starts)
    below = (max(0, start + w.rows.kernel - w.rows.size) for start in w.rows.starts)
    return combined(
        *(cmsis_fill_loops(w.columns.outputs, row * rows, platform) for rows in above if rows),
        *(
            cmsis_fill_loops(w.columns.outputs, row * rows, platform, (w.rows.kernel - rows) * row)
            for rows in below
            if rows
        ),
    )


def _padded_column_loops(w: Windows, platform: Platform) -> Loops:
    """Return the fills of window elements to the left and right of the image."""
    size, columns = w.in_channels * INT16_BYTES, w.columns
    rows = [tap for start in w.rows.starts for tap in range(w.rows.kernel) if 0 <= start + tap < w.rows.size]
    taps = [x for start in columns.starts for x in range(columns.kernel) if not 0 <= start + x < columns.size]
    odd_rows = sum(tap * columns.kernel % 2 for tap in rows)
    odd_taps = sum(tap % 2 for tap in taps)
    odd = odd_rows * (len(taps) - odd_taps) + (len(rows) - odd_rows) * odd_taps
    return combined(
        cmsis_fill_loops(len(rows) * len(taps) - odd, size, platform), cmsis_fill_loops(odd, size, platform, size)
    )


def _blocks(w: Windows, platform: Platform) -> Loops:
    """Return the loops of up to 124 channels of four windows at once (arm_depthwise_conv_s8_opt with MVE)."""
    full, last = divmod(w.in_channels, CHANNELS_AT_ONCE)
    return combined(
        repeated(full, _block(w, CHANNELS_AT_ONCE, platform)),
        _block(w, last, platform) if last else {},
    )


def _block(w: Windows, channels: int, platform: Platform) -> Loops:
    four, rest = divmod(w.positions, COLUMNS_AT_ONCE)
    vectors = -(-channels // 4)
    return combined(
        {"block": 1, "output row": w.rows.outputs, "window": w.positions, "window row": w.positions * w.rows.kernel},
        cmsis_copy_loops(w.inside, channels, platform),
        cmsis_fill_loops(w.taps - w.inside, channels, platform),
        repeated(four, {"4 windows": 1, "4x4": vectors, "4x4 by 1": vectors * w.kernel}),
        repeated(rest, {"last window": 1, "1x4": vectors, "1x4 by 1": vectors * w.kernel}),
    )


def _general_int8(w: Windows, multiplier: int) -> LoopCounts:
    """Return the loops of arm_depthwise_conv_s8: four outputs of a channel at once, or each output alone."""
    if multiplier % 4 or w.batch > 1 or w.dilated:
        return _one_by_one("int8 one by one", w)
    fours = w.out_channels // 4
    loops = {
        "output row": w.rows.outputs,
        "window": w.positions,
        "channel": w.positions * w.in_channels,
        "4 outputs": w.positions * fours,
        "4 outputs by row": w.rows.inside * w.columns.outputs * fours,
        "4 outputs by 1": w.inside * fours,
    }
    return LoopCounts("int8 by 4", loops)


def _one_by_one(path: str, w: Windows) -> LoopCounts:
    """Return the loops of each output alone, over the part of its window that is inside the image."""
    outputs = w.positions * w.out_channels
    image = {
        "output row": w.rows.outputs,
        "window": w.positions,
        "channel": w.positions * w.in_channels,
        "output": outputs,
        "output dilated": outputs * ((w.rows.dilation > 1) + (w.columns.dilation > 1)),
        "window row": w.rows.inside * w.columns.outputs * w.out_channels,
        "window row inside": w.rows.inside * w.columns.reached * w.out_channels,
        "element": w.inside * w.out_channels,
    }
    return LoopCounts(path, repeated(w.batch, image))


def _int16(w: Windows, _: int, __: Platform) -> LoopCounts:
    """Return the loops of arm_depthwise_conv_s16: one output at a time."""
    return _one_by_one("int16 one by one", w)


def _int4(w: Windows, multiplier: int, platform: Platform) -> LoopCounts:
    """Return the loops of arm_depthwise_conv_wrapper_s4.

    Two outputs are computed at once if they are known to share bytes.
    """
    odd = " odd" if w.out_channels % 2 else ""
    if _is_optimized(w, multiplier):
        name, loops = ("blocks", _blocks) if platform.mve else ("columns", _columns)
        return LoopCounts(f"int4 {name}{odd}", loops(w, platform))
    if w.in_channels % 2 or (multiplier % 2 and multiplier > 1):
        return _one_by_one("int4 one by one odd" if w.in_channels % 2 else "int4 one by one", w)
    return _one_by_one("int4 two channels" if multiplier == 1 else "int4 two outputs", w)


CMSIS_KERNELS: dict[tuple[DType, DType], Kernel] = {
    (DType.INT8, DType.INT8): _int8,
    (DType.INT8, DType.INT4): _int4,
    (DType.INT16, DType.INT8): _int16,
}


LOOPS: dict[str, LoopRule] = {"DEPTHWISE_CONV_2D": _depthwise_conv_2d_loops}


def _depthwise_conv_2d_macs(operator: Operator, graph: Graph) -> int:
    """Return outputs x window. DEPTHWISE_CONV_2D filters are [1, h, w, out]."""
    shapes = input_shapes(operator, graph, 1)
    return output_elements(operator, graph) * prod(shapes[0][1:-1]) if shapes else 0


MACS: dict[str, MacRule] = {"DEPTHWISE_CONV_2D": _depthwise_conv_2d_macs}


Span = tuple[int, int]


def _spans(image: int, kernel: int, stride: int, dilation: int, pad: int, outputs: int) -> set[Span]:
    """Return the parts of the window, as half-open ranges, that lie within the image for some output."""
    starts = (at * stride - pad for at in range(outputs))
    return {(max(0, -(start // dilation)), min(kernel, -(-(image - start) // dilation))) for start in starts}


def reads_other_nibbles(
    channels: int, multiplier: int, kernel: tuple[int, int], spans: tuple[set[Span], set[Span]]
) -> bool:
    """Return whether arm_depthwise_conv_s4 reads the wrong weights if the number of channels is odd.

    Two weights share a byte. The kernel follows the nibbles with a flag that it toggles for every weight, and so loses
    its place if the image covers only a part of the window.

    Args:
        spans: the rows and the columns of the window that lie within the image.
    """
    per_tap, units = channels // 2 * multiplier, channels * multiplier
    for (top, bottom), (left, right) in product(*spans):
        low, base = True, 0
        for unit in range(units):
            base += unit > 0 and unit % 2 == 0
            crossed = 0
            for row in range(top, bottom):
                at = (row * kernel[1] + left) * per_tap + base + crossed
                for column in range(left, right):
                    weight = (row * kernel[1] + column) * units + unit
                    if (at, low) != (weight // 2, weight % 2 == 0):
                        return True
                    crossed += not low
                    low = not low
                    at += per_tap + low
            low = low == (kernel[0] * kernel[1] % 2 == 1)
    return False


def _reads_other_nibbles(call: Call) -> bool:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    multiplier = integer_option(call, "depth_multiplier")
    strides = integer_option(call, "stride_h"), integer_option(call, "stride_w")
    dilations = integer_option(call, "dilation_h_factor"), integer_option(call, "dilation_w_factor")
    if weights.dtype is not DType.INT4 or min(*strides, *dilations, multiplier) < 1:
        return False
    if multiplier == 1 and source.shape[0] == 1 and dilations == (1, 1):
        return call.platform.mve and weights.shape[3] > 1
    if source.shape[3] % 2 == 0:
        return False
    kernel = weights.shape[1], weights.shape[2]
    check_steps(weights.element_count)
    pads = window_pads(str(call.option("padding", "")), source.shape[1:3], kernel, strides, dilations)
    rows, columns = (
        _spans(source.shape[axis + 1], kernel[axis], strides[axis], dilations[axis], pads[axis], result.shape[axis + 1])
        for axis in (0, 1)
    )
    return reads_other_nibbles(source.shape[3], multiplier, kernel, (rows, columns))


def _exceeds_scratch(call: Call) -> bool:
    """Return whether the scratch buffer may be too small: one channel into several, along a row, with Helium.

    Prepare computes its size before it sets the strides (depthwise_conv.cc), which then have the value of whatever was
    on the stack.
    """
    source, weights = call.required_input(0), call.required_input(1)
    one_to_many = source.shape[3] == 1 and weights.shape[3] > 1
    along_row = source.shape[1] == 1 and weights.shape[1] == 1 and weights.shape[2] > 1
    return (
        call.platform.mve and weights.dtype is DType.INT8 and source.dtype is DType.INT8 and one_to_many and along_row
    )


def _exceeds_esp_nn_scratch(call: Call) -> bool:
    build = esp_nn.build_of(call)
    if build is None:
        return False
    sizes = _esp_nn_depthwise(call)
    return esp_nn.depthwise_written(sizes, build) > esp_nn.depthwise_scratch(sizes, build)


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "DEPTHWISE_CONV_2D": (
        KernelFault(
            name="depthwise-int4-nibbles",
            kernels=("cmsis-nn",),
            applies=_reads_other_nibbles,
            condition="with int4 weights",
            effect="reads the wrong int4 weights",
            remedy="use int8 weights",
            source="arm_depthwise_conv_s4.c, arm_nn_depthwise_conv_nt_t_s4.c",
            fixed_by="",
            wrong="int8-int4/1",
            right="int8-int4/0",
        ),
        KernelFault(
            name="depthwise-scratch",
            kernels=("cmsis-nn",),
            applies=_exceeds_scratch,
            condition="of one channel into several along a row",
            effect="writes beyond its scratch buffer, depending on the contents of the stack",
            remedy="use CONV_2D, which is the same for one input channel",
            source="cmsis_nn/depthwise_conv.cc",
            fixed_by="",
            wrong="int8/121",
            right="int8/0",
        ),
        KernelFault(
            name="esp-depthwise-scratch",
            kernels=("esp-nn",),
            applies=_exceeds_esp_nn_scratch,
            condition="whose scratch buffer is sized for another case of the kernel",
            effect="writes beyond its scratch buffer",
            remedy="build ESP-NN as plain C (NN_ANSI_C), or change the padding, the stride or the number of channels",
            source="esp_nn_depthwise_conv_s8_esp32s3.c",
            fixed_by="esp-nn pull request 37, for unequal padding",
            wrong="int8/7",
            right="int8/0",
        ),
    ),
}


def _sizes(call: Call) -> Convolution:
    source, weights, result = operand_tensors(call, DEPTHWISE)
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    return buffer_sizes(call, DEPTHWISE, (source.shape[3], result.shape[3], 1))


def _reference_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input: DepthwiseConvPerChannel computes one output after another
    (reference/integer_ops/depthwise_conv.h).
    """
    yield from window_overlap(call, _sizes(call).window, channelwise_distance)


def _cmsis_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input of int8 convolutions, whose kernels compute pixel by pixel.

    arm_depthwise_conv_s8_opt with MVE collects the inputs of four pixels, but starts over for each block of channels.
    A convolution of one channel runs as a product there.
    """
    sizes, weights = _sizes(call), call.required_input(DEPTHWISE.filter)
    if not cmsis_nn.has_certified_order(call) or weights.dtype != DType.INT8:
        return
    in_blocks = cmsis_nn.is_optimized_depthwise(sizes) and sizes.in_channels > CHANNELS_AT_ONCE
    if not (call.platform.mve and (in_blocks or sizes.in_channels == 1)):
        yield from window_overlap(call, sizes.window, channelwise_distance)


OVERLAPS: dict[str, OverlapRules] = {"DEPTHWISE_CONV_2D": {"reference": _reference_overlap, "cmsis-nn": _cmsis_overlap}}
ROWS: dict[str, RowRule] = {"DEPTHWISE_CONV_2D": convolution_rows}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, macs=MACS, overlaps=OVERLAPS, rows=ROWS, faults=FAULTS)
