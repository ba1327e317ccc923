"""TRANSPOSE_CONV: MACs, Prepare and loop counts.

Sources of Prepare: transpose_conv.cc, and cmsis_nn/transpose_conv.cc.

Sources of the loop counts: transpose_conv.cc, transpose_conv.h, integer_ops/transpose_conv.h and CMSIS-NN's
arm_transpose_conv_wrapper_s8.c, arm_transpose_conv_s8.c, arm_nn_transpose_conv_row_s8_s32.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from edgetool.model.types import DType, Graph, Operator
from edgetool.operators import cmsis_nn
from edgetool.operators.call import (
    CLAMP_BOUNDS,
    INT32_BYTES,
    QUANTIZED_TYPES,
    Call,
    PrepareRule,
    Request,
    input_rank,
    input_shapes,
    integer_option,
    output_rank,
    require,
    scale,
    scratch,
    zero_point,
)
from edgetool.operators.cmsis_nn import cmsis_copy_loops, cmsis_fill_loops, im2col_loops
from edgetool.operators.convolution import (
    INT64_BYTES,
    TYPES,
    Operands,
    buffer_sizes,
    check_filter_scales,
    check_rank_4,
    check_same_type,
    check_type_pair,
    columns_product,
    operand_tensors,
    padding_loops,
    request_channels,
    request_output_first,
    request_parameters,
    window_pads,
)
from edgetool.operators.entry import KernelFault, MacRule, entries
from edgetool.operators.loops import (
    Axis,
    LoopCounts,
    LoopRule,
    Loops,
    Windows,
    check_steps,
    combined,
    nested,
    prefixed,
    product_loops,
    repeated,
)
from edgetool.operators.overlap import InputOverlap, OverlapRules
from edgetool.operators.rows import RowInput, RowRule, multiplied_rows
from edgetool.target.platform import Platform

Pair = tuple[int, int]
IMAGE_RANK = 4

TRANSPOSE = Operands(2, 1, 3, 0, clamps_in_cmsis_nn=False)


def _prepare_transpose_conv(call: Call) -> Iterator[Request]:
    """Yield the requests of TRANSPOSE_CONV.

    The shape of the output is the tensor's; Prepare does not read the input that repeats it.
    """
    source, weights, result = operand_tensors(call, TRANSPOSE)
    yield from request_output_first(call, TRANSPOSE)
    cmsis = call.platform.cmsis_nn and call.platform.has("transpose-conv-of-cmsis-nn")
    if cmsis:
        check_same_type(call, source, result)
        check_type_pair(call, source, weights, TYPES - {(DType.INT8, DType.INT4)})
    else:
        check_type_pair(call, source, weights, {(source.dtype, source.dtype), (DType.INT16, DType.INT8)})
    yield from request_channels(call, weights, TRANSPOSE)
    if source.dtype == DType.INT8 and cmsis:
        for tensor in (source, weights, result):
            check_rank_4(call, tensor)
        if not call.platform.has("small-transpose-conv"):
            taps = weights.shape[1] * weights.shape[2]
            inputs, outputs = (tensor.shape[1] * tensor.shape[2] for tensor in (source, result))
            yield scratch("products", INT32_BYTES * taps * inputs * result.shape[3])
            yield scratch("accumulators", INT32_BYTES * outputs * result.shape[3])
    if source.dtype == DType.INT8 and cmsis and call.platform.has("small-transpose-conv"):
        depth = min(source.shape[3], weights.shape[3])
        sizes = buffer_sizes(call, TRANSPOSE, (depth, min(result.shape[3], weights.shape[0]), depth))
        yield scratch("im2col buffer or accumulators", cmsis_nn.transpose_s8(sizes, call.platform))
        # TFLM requests and counts it even if it is empty.
        yield scratch("reversed filter", cmsis_nn.transpose_reversed_filter_s8(sizes))
    elif source.dtype in QUANTIZED_TYPES and not (source.dtype == DType.INT8 and cmsis):
        width = INT32_BYTES if source.dtype == DType.INT8 else INT64_BYTES
        yield scratch("accumulators", width * result.element_count)
    if source.dtype in QUANTIZED_TYPES:
        check_filter_scales(call, weights, TRANSPOSE)
    if source.dtype == DType.FLOAT32:
        return
    yield from request_parameters(call, TRANSPOSE)
    bias = call.input(TRANSPOSE.bias)
    if source.dtype != DType.INT16:
        return
    crashes = cmsis and bias is None
    require(call, not crashes, "crashes without a bias in int16")
    if bias is not None and bias.dtype == DType.INT16:
        yield scratch("bias as int64", INT64_BYTES * bias.element_count)


PREPARE: dict[str, PrepareRule] = {"TRANSPOSE_CONV": _prepare_transpose_conv}


REVERSED_CHANNELS = 16  # REVERSE_TCOL_EFFICIENT_THRESHOLD: more input channels run as a convolution
REVERSED_STRIDE = 2


def _transpose_conv_loops(call: Call) -> LoopCounts:
    """Return the loops of TRANSPOSE_CONV.

    Raises KernelRefusal if the tensors are not images: the kernel does not check this, and would go out of bounds.
    """
    for check in (input_rank(1, 4), input_rank(2, 4), output_rank(0, 4)):
        check(call)
    weights, source, result = call.required_input(1), call.required_input(2), call.required_output()
    rows, columns = (
        _transposed_axis(source.shape[i], weights.shape[i], integer_option(call, stride), result.shape[i])
        for i, stride in enumerate(("stride_h", "stride_w"), start=1)
    )
    # The windows are on the output, one for each element of the input.
    w = Windows(result.shape[0], rows, columns, source.shape[3], result.shape[3], source.shape[3])
    if source.dtype == DType.INT8 and call.platform.cmsis_nn:
        small = rows.stride <= REVERSED_STRIDE and columns.stride <= REVERSED_STRIDE
        if small and w.in_channels > REVERSED_CHANNELS:
            stretched = rows.stride > 1 or columns.stride > 1
            return LoopCounts("int8 stretched" if stretched else "int8 reversed", _reversed_loops(w, call.platform))
        return LoopCounts("int8 rows", _row_loops(w, call.platform))
    return LoopCounts(f"reference {source.dtype.name.lower()}", _reference_loops(call, w))


def _transposed_axis(inputs: int, kernel: int, stride: int, outputs: int) -> Axis:
    """Return an axis of the output, whose windows are those of the input's elements."""
    pad = max((inputs - 1) * stride + kernel - outputs, 0) // 2
    return Axis(outputs, kernel, stride, 1, inputs, pad)


def _reference_loops(call: Call, w: Windows) -> Loops:
    """Return the loops of the reference kernel.

    It adds each input to all outputs in its window, and visits those outside the image, too.
    """
    inputs = w.batch * w.in_channels
    return {
        "input row": w.batch * w.rows.outputs,
        "input pixel": w.batch * w.positions,
        "input": inputs * w.positions,
        "window row": inputs * w.positions * w.rows.kernel,
        "element": inputs * w.taps,
        **product_loops(call, inputs * w.inside * w.out_channels, 2),
        **repeated(inputs * w.out_channels, padding_loops(w)),
        "output row": w.batch * w.rows.size,
        "output pixel": w.batch * w.rows.size * w.columns.size,
        "output": w.batch * w.rows.size * w.columns.size * w.out_channels,
    }


def _reversed_loops(w: Windows, platform: Platform) -> Loops:
    """Return the loops of a convolution of the stretched image with the reversed filter."""
    check_steps(max(axis.size * axis.kernel for axis in (w.rows, w.columns)))
    outputs, depth = w.rows.size * w.columns.size, w.kernel * w.in_channels
    filter_copies = cmsis_copy_loops(w.out_channels * w.kernel, w.in_channels, platform)
    image = combined(
        {"output row": w.rows.size, "window": outputs, "window row": outputs * w.rows.kernel},
        columns_product(outputs, w.out_channels, depth, platform),
        _stretched_windows(w, platform)
        if w.rows.stride > 1 or w.columns.stride > 1
        else _unstretched_windows(w, platform),
    )
    filters = {"turned filter": w.out_channels, "turned row": w.out_channels * w.rows.kernel}
    return combined(filters, prefixed("turned", filter_copies), repeated(w.batch, {"group": 1, **image}))


def _unstretched_windows(w: Windows, platform: Platform) -> Loops:
    """Return the copies of windows of the image itself, which has no gaps between the inputs."""
    rows, columns = (
        Axis(axis.outputs, axis.kernel, 1, 1, axis.size, axis.kernel - 1 - axis.pad) for axis in (w.rows, w.columns)
    )
    return im2col_loops(replace(w, rows=rows, columns=columns), 1, platform)


def _stretched_windows(w: Windows, platform: Platform) -> Loops:
    """Return the loops that fill each window, and then copy the inputs in it, leaving out the gaps."""
    row_inputs, column_inputs = _stretched_inputs(w.rows), _stretched_inputs(w.columns)
    rows = row_inputs * w.columns.size
    return combined(
        cmsis_copy_loops(row_inputs * column_inputs, w.in_channels, platform),
        cmsis_fill_loops(w.rows.size * w.columns.size, w.kernel * w.in_channels, platform),
        {"stretched row": rows, "stretched": rows * w.columns.kernel},
    )


def _stretched_inputs(axis: Axis) -> int:
    """Return the number of elements of all windows on the stretched axis that are inputs, not gaps or padding."""
    pad = axis.kernel - 1 - axis.pad
    inputs = range(0, axis.outputs * axis.stride, axis.stride)
    return sum(start - pad + offset in inputs for start in range(axis.size) for offset in range(axis.kernel))


def _row_loops(w: Windows, platform: Platform) -> Loops:
    """Return the loops that add rows of the input to a ring of rows of 32-bit sums.

    Four, then two, then one of a row's elements are processed at once.
    """
    rows, columns = w.rows, w.columns
    width = (columns.outputs - 1) * columns.stride + max(columns.kernel, columns.stride)
    height = max(rows.kernel, rows.stride)
    reached = sum(
        max(0, rows.kernel - max(0, -start) - max(0, start + rows.kernel - rows.size - 1)) for start in rows.starts
    )
    # Rows leave the ring after each input row that does not begin above the image; the last rows leave at the end.
    written = rows.stride * sum(start >= 0 for start in rows.starts)
    end = rows.outputs * rows.stride - rows.pad
    last_rows = sum(0 <= end + row < rows.size for row in range(rows.kernel - rows.stride))
    inner = _depth_loops(w.in_channels, platform)
    groups = {"4": columns.outputs // 4, "2": columns.outputs % 4 // 2, "1": columns.outputs % 2}
    group_loops = [
        {
            f"any {size} inputs": rows.outputs * (count > 0),
            f"{size} inputs": w.out_channels * rows.outputs * count,
            f"{size} inputs by row": w.out_channels * reached * count,
            **repeated(w.out_channels * reached * columns.kernel * count, nested(f"{size} inputs by element", inner)),
        }
        for size, count in groups.items()
    ]
    vectors = -(-w.out_channels // 4) if platform.mve else 0
    pixels = (written + last_rows) * columns.size
    image = combined(
        {"image": 1, "input row": rows.outputs, "output row": written, "last output row": last_rows},
        cmsis_copy_loops(width * (height + written), w.out_channels * INT32_BYTES, platform),
        {"output pixel": pixels, "output": 0 if vectors else pixels * w.out_channels, "output by 4": pixels * vectors},
        *group_loops,
    )
    return repeated(w.batch, image)


def _depth_loops(channels: int, platform: Platform) -> Loops:
    if platform.mve:
        return {"by 16": -(-channels // 16)}
    if platform.dsp:
        return {"by 4": channels // 4, "by 1": channels % 4}
    return {"by 2": channels // 2, "by 1": channels % 2}


LOOPS: dict[str, LoopRule] = {"TRANSPOSE_CONV": _transpose_conv_loops}


def _transpose_conv_macs(operator: Operator, graph: Graph) -> int:
    """Return inputs x window x output channels.

    Filters are [out, h, w, in], inputs (shape, filter, data).
    """
    shapes = input_shapes(operator, graph, 1, 2)
    return prod(shapes[1]) * prod(shapes[0][:-1]) if shapes else 0


MACS: dict[str, MacRule] = {"TRANSPOSE_CONV": _transpose_conv_macs}


SCRATCH_ALIGNMENT = 16  # MicroArenaBufferAlignment
ScheduledRow = frozenset[tuple[int, int]]  # the rows of the input and of the filter whose products are added


def _scheduled_rows(inputs: int, kernel: int, stride: int, pad: int, outputs: int) -> list[ScheduledRow]:
    """Return the rows that arm_transpose_conv_s8 writes to the output, in order.

    The kernel adds the products of one row of the input after the other to a ring of rows, and writes `stride` rows
    after each row of the input, once the input is below the padding.
    """
    ring: list[set[tuple[int, int]]] = [set() for _ in range(max(kernel, stride))]
    at, written = 0, []
    for row in range(inputs):
        above = max(0, pad - row * stride)
        below = max(0, row * stride + kernel - (pad + outputs) - 1)
        for step in range(kernel - above - below):
            ring[(at + step) % len(ring)].add((row, above + step))
        for _ in range(stride if above == 0 else 0):
            written.append(frozenset(ring[at]))
            ring[at].clear()
            at = (at + 1) % len(ring)
    for rest in range(kernel - stride):
        if pad <= inputs * stride + rest < pad + outputs:
            written.append(frozenset(ring[at]))
        at = (at + 1) % len(ring)
    return written


def _expected_rows(inputs: int, kernel: int, stride: int, pad: int, outputs: int) -> list[ScheduledRow]:
    """Return the rows of a transposed convolution, which adds each input to all outputs in its window."""
    return [
        frozenset((row, step) for row in range(inputs) if 0 <= (step := at + pad - row * stride) < kernel)
        for at in range(outputs)
    ]


def misplaces_rows(image: Pair, kernel: Pair, strides: Pair, pads: Pair, outputs: Pair) -> bool:
    """Return whether arm_transpose_conv_s8 computes something other than a transposed convolution.

    It does if its rows are not those of the output, or if columns of the output lie outside the row of sums.
    """
    rows = image[0], kernel[0], strides[0], pads[0], outputs[0]
    sums = (image[1] - 1) * strides[1] + max(kernel[1], strides[1])
    return pads[1] + outputs[1] > sums or _scheduled_rows(*rows) != _expected_rows(*rows)


def exceeds_scratch(image: Pair, kernel: Pair, strides: Pair, channels: int) -> bool:
    """Return whether arm_transpose_conv_s8 writes beyond its scratch buffer, which TFLM aligns to 16 bytes.

    The size of the buffer is computed with the vertical stride in place of the horizontal one.
    """
    row_bytes = channels * max(kernel[0], strides[0]) * INT32_BYTES
    needed, requested = (
        ((image[1] - 1) * strides[1] + max(kernel[1], stride)) * row_bytes for stride in (strides[1], strides[0])
    )
    return needed > -(-requested // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def _misplaces_rows(call: Call) -> bool:
    source, weights, result = operand_tensors(call, TRANSPOSE)
    image, kernel, outputs = _pair(source.shape), _pair(weights.shape), _pair(result.shape)
    strides = integer_option(call, "stride_h"), integer_option(call, "stride_w")
    if source.dtype is not DType.INT8 or min(*image, *kernel, *outputs, *strides) < 1:
        return False
    if max(strides) <= REVERSED_STRIDE and source.shape[3] > REVERSED_CHANNELS:
        return False
    check_steps(max(outputs[0] * kernel[0], image[0] * kernel[0]))
    if exceeds_scratch(image, kernel, strides, result.shape[3]):
        return True
    pads = window_pads(str(call.option("padding", "")), outputs, kernel, strides, (1, 1))
    return misplaces_rows(image, kernel, strides, pads, outputs)


def _pair(shape: tuple[int, ...]) -> Pair:
    return shape[1], shape[2]


def _ignores_activation(call: Call) -> bool:
    """Return whether the kernel ignores a fused activation that would clamp: its bounds lie within the type's range."""
    source, result = call.required_input(TRANSPOSE.source), call.required_output()
    bounds = CLAMP_BOUNDS.get(call.option("fused_activation_function", "NONE"), ())
    if source.dtype not in QUANTIZED_TYPES or not bounds or not scale(result):
        return False
    lowest, highest = (-128, 127) if result.dtype is DType.INT8 else (-32768, 32767)
    codes = [zero_point(result) + round(bound / scale(result)) for bound in bounds]
    return codes[0] > lowest or (len(codes) > 1 and codes[1] < highest)


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "TRANSPOSE_CONV": (
        KernelFault(
            name="transpose-conv-rows",
            kernels=("cmsis-nn",),
            applies=_misplaces_rows,
            condition="with this kernel size, stride and padding",
            effect="computes wrong rows, and writes too few or too many of them",
            remedy="use VALID padding with a kernel that is not smaller than its strides, or the reference kernel",
            source="arm_transpose_conv_s8.c",
            fixed_by="CMSIS-NN 4a8f5b5d (rows above the image only)",
            wrong="int8/1",
            right="int8/0",
        ),
        KernelFault(
            name="transpose-conv-activation",
            kernels=("cmsis-nn",),
            applies=_ignores_activation,
            condition="with a fused activation",
            effect="ignores its fused activation",
            remedy="apply the activation in an operator of its own",
            source="cmsis_nn/transpose_conv.cc",
            fixed_by="",
            wrong="int16/1",
            right="int16/0",
        ),
    ),
}


def _reference_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input wherever it is: integers are summed in scratch, and written when all inputs have been read
    (reference/integer_ops/transpose_conv.h). Floats are summed in the output.
    """
    result = call.required_output()
    if call.required_input(2).dtype == result.dtype and result.dtype in QUANTIZED_TYPES:
        yield InputOverlap(2, -result.size_bytes)


def _spread_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the image if each of its rows spreads to rows of its own: the filter is as high as the step of rows."""
    source, weights, result = (graph.tensors[i] for i in (*operator.inputs[2:0:-1], operator.outputs[0]))
    if operator.options is None or {len(tensor.shape) for tensor in (source, weights, result)} != {IMAGE_RANK}:
        return
    stride = operator.options.integer("stride_h")
    if weights.shape[1] == stride > 0 and result.shape[1] == stride * source.shape[1]:
        yield from multiplied_rows(operator, graph, 2)


OVERLAPS: dict[str, OverlapRules] = {"TRANSPOSE_CONV": {"reference": _reference_overlap}}
ROWS: dict[str, RowRule] = {"TRANSPOSE_CONV": _spread_rows}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, macs=MACS, overlaps=OVERLAPS, rows=ROWS, faults=FAULTS)
