"""Matrix products: MACs, Prepare, loop counts and constant reads.

Sources of Prepare: fully_connected.cc, fully_connected_common.cc, batch_matmul.cc, batch_matmul_common.cc, their
counterparts in cmsis_nn/, and kernel_util.cc.

Sources of the loop counts: fully_connected.cc, batch_matmul.cc, integer_ops/fully_connected.h, batch_matmul.h,
transpose.h and CMSIS-NN's arm_fully_connected_s8.c, _per_channel_s8.c, _s16.c, _s4.c, arm_batch_matmul_s8.c, _s16.c,
arm_vector_sum_s8.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType, Graph, Operator, Tensor
from edgetool.operators import cmsis_nn, esp_nn
from edgetool.operators.call import (
    ACTIVATION_TYPES,
    INT32_BYTES,
    QUANTIZED_TYPES,
    Call,
    PrepareRule,
    Request,
    check_activation_range,
    check_scale_product,
    dimensions_copy,
    input_rank,
    input_shapes,
    input_type,
    is_per_channel,
    output_elements,
    per_tensor,
    persistent,
    require,
    same_input_types,
    same_output_type,
    scale,
    scratch,
    symmetric_int16,
    weight_multipliers,
    zero_point,
)
from edgetool.operators.cmsis_nn import (
    biased_tiles,
    grouped_units,
    product_input_reads,
    product_s8,
    product_weight_reads,
    uses_cmsis_nn,
    vector_product_s4,
    vector_product_s8,
    vector_product_s16,
)
from edgetool.operators.entry import KernelFault, MacRule, ReadsRule, entries
from edgetool.operators.loops import LoopCounts, LoopRule, Loops, combined, prefixed, product_loops, repeated
from edgetool.operators.overlap import InputOverlap, OverlapRules, Window, conv_distance, window_overlap
from edgetool.target.platform import Platform

# The weight types of each input type; the reference kernel passes inputs of other types on to the next check.
WEIGHT_TYPES = {
    DType.FLOAT32: (DType.FLOAT32,),
    DType.INT8: (DType.INT8, DType.INT4),
    DType.INT16: (DType.INT8,),
}
PRODUCT_TYPES = (DType.FLOAT32, DType.INT8, DType.INT16)
RANKS, CMSIS_RANKS = (2, 5), (2, 4)  # minimum and maximum of BATCH_MATMUL's operands


def _prepare_fully_connected(call: Call) -> Iterator[Request]:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    yield from call.temporary_inputs(0, 1, 2)
    yield from call.temporary_outputs(0)
    same_output_type(call)
    supported = weights.dtype in WEIGHT_TYPES.get(source.dtype, () if call.platform.cmsis_nn else (weights.dtype,))
    names = f"{source.dtype.name.lower()} with weights of {weights.dtype.name.lower()}"
    require(call, supported, f"does not support {names}")
    if weights.dtype == DType.INT4 and not _packs_int4(call):
        yield scratch("weights unpacked from int4", weights.element_count)
    if not call.platform.has("dense-per-channel"):
        refused = is_per_channel(weights) and call.platform.has("dense-per-channel-refused")
        require(call, not refused, "does not support weights quantized per channel (convert with --dense-per-tensor)")
        weights = per_tensor(weights)
    if source.dtype == DType.INT16 and is_per_channel(weights):
        known = call.platform.has("dense-int16-per-channel")
        require(call, known, "does not support int16 with weights quantized per channel")
    yield from weight_multipliers(call, source, weights, call.input(2), scale(result))
    if source.dtype != DType.FLOAT32:
        require(call, result.dtype in ACTIVATION_TYPES, f"does not support {result.dtype.name.lower()}")
        check_activation_range(call)
    if call.platform.cmsis_nn:
        yield from _prepare_cmsis_fully_connected(call, source, weights, result)


def _prepare_cmsis_fully_connected(call: Call, source: Tensor, weights: Tensor, result: Tensor) -> Iterator[Request]:
    """Yield the requests that only the CMSIS-NN kernel makes.

    An output of more than two dimensions is computed as a 1x1 convolution if the depth is a multiple of 4. Sums over
    constant weights are computed once and kept, in builds optimized for speed (the default).
    """
    per_channel = source.dtype != DType.FLOAT32 and is_per_channel(weights)
    supported = not per_channel or source.dtype == DType.INT8
    require(call, supported, "with CMSIS-NN kernels does not support int16 with weights quantized per channel")
    symmetric_int16(1)(call)
    packed = weights.dtype == DType.INT4 and call.platform.has("int4-of-cmsis-nn")
    if source.dtype != DType.INT8 or packed:
        return
    outputs, depth = (shape[-1] if shape else 0 for shape in (result.shape, weights.shape))
    if len(result.shape) > 2 and depth % 4 == 0:
        if not call.platform.has("dense-per-channel"):
            for what in ("per-channel multipliers", "per-channel shifts"):
                yield persistent(what, INT32_BYTES * outputs)
        elif not per_channel:
            yield scratch("per-channel multipliers and shifts", 2 * INT32_BYTES * outputs)
        return
    size = cmsis_nn.fully_connected_s8(outputs, mve=call.platform.mve)
    if size > 0:
        yield persistent("sums of weights", size) if _keeps_sums(call, weights) else scratch("sums of weights", size)


def _packs_int4(call: Call) -> bool:
    """Return whether the kernel reads two int4 weights from a byte, instead of unpacking them."""
    return call.platform.cmsis_nn and call.platform.has("int4-of-cmsis-nn")


def _keeps_sums(call: Call, weights: Tensor) -> bool:
    """Return whether CMSIS-NN's kernel computes the sums of weights once, in Prepare."""
    if not call.platform.has("kept-sums-of-weights"):
        return False
    if not call.platform.has("sums-of-constant-weights"):
        return True
    bias = call.input(2)
    needs_bias = call.platform.has("constant-weights-of-cmsis-nn")
    return weights.is_constant and (bias is None or bias.is_constant or not needs_bias)


def _multiplies_with_cmsis_nn(call: Call) -> bool:
    return call.platform.cmsis_nn and call.platform.has("batch-matmul-of-cmsis-nn")


def _prepare_batch_matmul(call: Call) -> Iterator[Request]:
    left, right, result = call.required_input(0), call.required_input(1), call.required_output()
    cmsis = _multiplies_with_cmsis_nn(call)
    ranks = CMSIS_RANKS if cmsis else RANKS
    yield from call.temporary_inputs(0, 1)
    yield from call.temporary_outputs(0)
    for condition in (same_input_types, same_output_type, input_type(0, *PRODUCT_TYPES), input_rank(0, *ranks)):
        condition(call)
    input_rank(1, *ranks)(call)
    shape = _product_shape(call, left, right)
    quantized = left.dtype in QUANTIZED_TYPES
    parameters = persistent("multiplier and zero points", call.platform.size_of("QuantizationOpDataBatchMatmul"))
    if quantized and not cmsis:
        yield parameters
    if call.option("adj_x", False):
        yield from _transpose_requests(call, "left", left)
    # A right operand that is already transposed in the model has the layout that the kernel requires.
    if not call.option("adj_y", False):
        yield from _transpose_requests(call, "right", right)
    require(call, len(shape) <= len(result.shape), f"cannot produce an output with {len(result.shape)} dimensions")
    yield dimensions_copy(result)
    require(call, prod(shape) == result.element_count, f"produces an output of shape {shape}, not {result.shape}")
    if not quantized:
        return
    if cmsis:
        yield parameters
    check_scale_product(call, left, right)
    symmetric_int16(2)(call)
    if cmsis and left.dtype == DType.INT8:
        size = cmsis_nn.fully_connected_s8(shape[-1], mve=call.platform.mve)
        if size > 0:
            yield scratch("sums of weights", size)


def _transpose_requests(call: Call, side: str, tensor: Tensor) -> Iterator[Request]:
    """Yield the requests for a transposed copy of the whole operand, whether it is constant or not."""
    yield persistent(f"tensor of the transposed {side} operand", call.platform.size_of("TfLiteEvalTensor"))
    yield persistent(f"dimensions of the transposed {side} operand", INT32_BYTES * (1 + len(tensor.shape)))
    yield persistent(f"transposed {side} operand", tensor.size_bytes)


def _product_shape(call: Call, left: Tensor, right: Tensor) -> tuple[int, ...]:
    """Return the output's shape: broadcast batch dimensions, then rows and columns.

    Raises KernelRefusal if the operands' shapes do not match.
    """
    rank = max(len(left.shape), len(right.shape))
    first, second = ((1,) * (rank - len(tensor.shape)) + tensor.shape for tensor in (left, right))
    rows, depth = first[:-3:-1] if call.option("adj_x", False) else first[-2:]
    other, columns = second[:-3:-1] if call.option("adj_y", False) else second[-2:]
    batches = list(zip(first[:-2], second[:-2], strict=True))
    fits = depth == other and all(a == b or 1 in (a, b) for a, b in batches)
    require(call, fits, f"cannot multiply the shapes {left.shape} and {right.shape}")
    return (*(b if a == 1 else a for a, b in batches), rows, columns)


PREPARE: dict[str, PrepareRule] = {
    "BATCH_MATMUL": _prepare_batch_matmul,
    "FULLY_CONNECTED": _prepare_fully_connected,
}


ROWS_SUMMED_AT_ONCE = 5
LANES = 16


def is_pointwise(call: Call) -> bool:
    """Return whether CMSIS-NN runs the dense layer as a 1x1 convolution (fully_connected.cc)."""
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    return source.dtype == weights.dtype == DType.INT8 and len(result.shape) > 2 and weights.shape[-1] % 4 == 0


def _fully_connected_loops(call: Call) -> LoopCounts:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    units, depth = result.shape[-1] if result.shape else 1, weights.shape[-1]
    rows = result.element_count // max(units, 1)
    if call.platform.cmsis_nn and source.dtype != DType.FLOAT32:
        return _cmsis_fully_connected_loops(call, rows, units, depth)
    bias = call.input(2)
    loops = {"row": rows, "unit": rows * units, **product_loops(call, rows * units * depth)}
    loops |= _bias_loops(rows * units, bias)
    path = f"reference {source.dtype.name.lower()}"
    if source.dtype == DType.INT16:
        path += " with int32 sums" if bias is not None and bias.dtype == DType.INT32 else ""
    if weights.dtype == DType.INT4:
        return LoopCounts(f"{path} with int4 weights", loops | {"unpacked pair": (weights.element_count + 1) // 2})
    return LoopCounts(f"{path} per channel" if _per_channel(source, weights) else path, loops)


def _cmsis_fully_connected_loops(call: Call, rows: int, units: int, depth: int) -> LoopCounts:
    source, weights = call.required_input(0), call.required_input(1)
    platform, bias = call.platform, call.input(2)
    biased = _bias_loops(rows * units, bias)
    if source.dtype == DType.INT16:
        return LoopCounts(
            "int16", combined(biased, repeated(rows, {"row": 1, **vector_product_s16(units, depth, platform)}))
        )
    if weights.dtype == DType.INT4:
        return LoopCounts(
            "int4", combined(biased, repeated(rows, {"row": 1, **vector_product_s4(units, depth, platform)}))
        )
    per_channel = _per_channel(source, weights)
    if is_pointwise(call):
        # The multipliers are first copied for each channel.
        written = {"unit": 0 if per_channel else units}
        return LoopCounts(
            "int8 1x1", combined(written, product_s8(rows, units, depth, platform), biased_tiles(call, rows, units))
        )
    path = "int8 per channel" if per_channel else "int8"
    path += " asymmetric" if zero_point(weights) != 0 else ""
    loops = combined(biased, repeated(rows, {"row": 1, **vector_product_s8(units, depth, platform)}))
    if platform.mve and not (weights.is_constant and (bias is None or bias.is_constant)):
        return LoopCounts(f"{path} with moving weights", combined(loops, _weight_sum_loops(units, depth, platform)))
    return LoopCounts(path, loops)


def _bias_loops(outputs: int, bias: Tensor | None) -> Loops:
    return {"bias": 1, "biased unit": outputs} if bias is not None else {}


def _per_channel(source: Tensor, weights: Tensor) -> bool:
    return source.dtype != DType.FLOAT32 and is_per_channel(weights)


def _weight_sum_loops(units: int, depth: int, platform: Platform) -> Loops:
    """Return the loops that sum each row of weights (arm_vector_sum_s8 with MVE)."""
    inner = {"by 16": -(-depth // LANES)}
    return prefixed("sum of", grouped_units(units, ROWS_SUMMED_AT_ONCE, inner)) if platform.mve else {}


def _batch_matmul_loops(call: Call) -> LoopCounts:
    """Return the loops of BATCH_MATMUL.

    An operand without the required layout is transposed first; a constant right operand in the first run only.
    """
    left, right, result = call.required_input(0), call.required_input(1), call.required_output()
    transposes = combined(
        _transpose_loops("left", left) if call.option("adj_x", False) else {},
        {} if call.option("adj_y", False) or right.is_constant else _transpose_loops("right", right),
    )
    rows, columns = result.shape[-2:]
    depth = left.shape[-2] if call.option("adj_x", False) else left.shape[-1]
    batches = prod(result.shape[:-2])
    dtype = left.dtype.name.lower()
    if len(left.shape) > 2 < len(right.shape) and right.shape[-3] == 1:
        # One right operand serves several left ones, whose rows are contiguous.
        rows, batches = rows * result.shape[-3], batches // result.shape[-3]
        transposes = combined(transposes, {"flattened": 1})
    if not _multiplies_with_cmsis_nn(call) or left.dtype == DType.FLOAT32:
        outputs = batches * rows * columns
        loops = {"batch": batches, "row": batches * rows, "output": outputs, "product": outputs * depth}
        return LoopCounts(f"reference {dtype}", combined(transposes, loops))
    product = vector_product_s8 if left.dtype == DType.INT8 else _vector_product_s16_s16
    sums = _weight_sum_loops(columns, depth, call.platform) if left.dtype == DType.INT8 else {}
    row = {"row": 1, **product(columns, depth, call.platform)}
    loops = repeated(batches, combined({"batch": 1}, sums, repeated(rows, row)))
    asymmetric = left.dtype == DType.INT8 and zero_point(right) != 0
    return LoopCounts(f"{dtype} asymmetric" if asymmetric else dtype, combined(transposes, loops))


def _transpose_loops(side: str, tensor: Tensor) -> Loops:
    """Return the loops that exchange the last two dimensions (transpose.h), with one call per resulting row."""
    matrices = prod(tensor.shape[:-2])
    return {
        f"turned {side}": 1,
        "turned matrix": matrices,
        "turned row": matrices * tensor.shape[-1],
        "turned element": tensor.element_count,
    }


def _vector_product_s16_s16(units: int, depth: int, platform: Platform) -> Loops:
    if platform.mve:
        return grouped_units(units, 4, {"by 8": -(-depth // 8)})
    if platform.dsp:
        return grouped_units(units, 2, {"by 4": depth // 4, "by 1": depth % 4})
    return {"unit": units, "unit by 1": units * depth}


LOOPS: dict[str, LoopRule] = {
    "BATCH_MATMUL": _batch_matmul_loops,
    "FULLY_CONNECTED": _fully_connected_loops,
}


def _fully_connected_macs(operator: Operator, graph: Graph) -> int:
    """Return outputs x depth. Filters are [out, depth]."""
    shapes = input_shapes(operator, graph, 1)
    return output_elements(operator, graph) * (shapes[0][-1] if shapes[0] else 1) if shapes else 0


def _batch_matmul_macs(operator: Operator, graph: Graph) -> int:
    """Return outputs x the contracted dimension of the left operand."""
    shapes = input_shapes(operator, graph, 0)
    if not shapes or len(shapes[0]) < 2:
        return 0
    transposed = operator.options is not None and bool(operator.options["adj_x"])
    return output_elements(operator, graph) * shapes[0][-2 if transposed else -1]


MACS: dict[str, MacRule] = {"BATCH_MATMUL": _batch_matmul_macs, "FULLY_CONNECTED": _fully_connected_macs}


def _fully_connected_constant_reads(call: Call) -> int:
    """Return one read per row of the input, unless the layer runs as a convolution."""
    source, weights, output = call.input(0), call.input(1), call.output()
    if source is None or weights is None or output is None or not weights.shape or not all(output.shape[-1:]):
        return 1
    rows = output.element_count // (output.shape[-1] if output.shape else 1)
    return product_weight_reads(call, rows) if uses_cmsis_nn(call) and is_pointwise(call) else rows


def _fully_connected_input_reads(call: Call) -> int:
    """Return the reads of a matrix product if the layer runs as a convolution; otherwise, each row is read once."""
    output = call.output()
    if output is None or not output.shape or not (uses_cmsis_nn(call) and is_pointwise(call)):
        return 1
    return product_input_reads(call, output.shape[-1])


CONSTANT_READS: dict[str, ReadsRule] = {"FULLY_CONNECTED": _fully_connected_constant_reads}
INPUT_READS: dict[str, ReadsRule] = {"FULLY_CONNECTED": _fully_connected_input_reads}


def _ignores_weights_zero_point(call: Call) -> bool:
    """Return whether the layer runs as a pointwise convolution, which assumes symmetric weights."""
    return is_pointwise(call) and zero_point(call.required_input(1)) != 0


def _has_several_scales(call: Call) -> bool:
    return call.required_input(0).dtype in QUANTIZED_TYPES and is_per_channel(call.required_input(1))


def _uses_unset_multiplier(call: Call) -> bool:
    return esp_nn.build_of(call) is not None and is_per_channel(call.required_input(1))


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "FULLY_CONNECTED": (
        KernelFault(
            name="dense-per-channel",
            kernels=("reference", "cmsis-nn"),
            applies=_has_several_scales,
            condition="with weights quantized per channel",
            effect="uses the scale of the first channel for all",
            remedy="convert the model with --dense-per-tensor, or use a version of TFLM from October 2024 or later",
            source="fully_connected_common.cc",
            fixed_by="71fba59b5",
            wrong="",
            right="",
        ),
        KernelFault(
            name="dense-weights-zero-point",
            kernels=("cmsis-nn",),
            applies=_ignores_weights_zero_point,
            condition="with a zero point of the weights and more than two dimensions",
            effect="ignores the zero point of its weights, because it runs as a pointwise convolution",
            remedy="use an output of two dimensions, or weights with a zero point of 0",
            source="cmsis_nn/fully_connected.cc",
            fixed_by="",
            wrong="int8/110",
            right="int8/0",
        ),
        KernelFault(
            name="esp-dense-per-channel",
            kernels=("esp-nn",),
            applies=_uses_unset_multiplier,
            condition="with weights quantized per channel",
            effect="uses one multiplier for all outputs",
            remedy="convert the model with --dense-per-tensor",
            source="esp_nn/fully_connected.cc",
            fixed_by="312a65a of esp-tflite-micro",
            wrong="int8/2",
            right="int8/0",
        ),
    ),
}


def _fully_connected_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input: each output reads a row of it (reference/integer_ops/fully_connected.h)."""
    source, result = call.required_input(0), call.required_output()
    units, depth = result.shape[-1] if result.shape else 1, call.required_input(1).shape[-1]
    rows = result.element_count // max(units, 1)
    if source.element_count == rows * depth:
        yield from window_overlap(call, Window(1, 1, rows, depth, 1, rows, units), conv_distance)


# CMSIS-NN's product reads all inputs of a row for each few outputs, and all rows for each few channels.
OVERLAPS: dict[str, OverlapRules] = {"FULLY_CONNECTED": {"reference": _fully_connected_overlap}}


OPERATORS = entries(
    prepare=PREPARE,
    loops=LOOPS,
    macs=MACS,
    constant_reads=CONSTANT_READS,
    input_reads=INPUT_READS,
    overlaps=OVERLAPS,
    faults=FAULTS,
)
