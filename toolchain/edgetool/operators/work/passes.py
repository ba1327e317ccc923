"""How often a kernel reads its constants from one end to the other, where that is more than once.

Sources: arm_convolve_1x1_s8.c, arm_convolve_s8.c, arm_convolve_s16.c, arm_nn_mat_mult_nt_t_s8.c,
arm_fully_connected_s8.c, conv.h, fully_connected.h.
"""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.work.dense import is_pointwise

# Output pixels for which CMSIS-NN's general convolution reads the filters once: the columns that it collects, by
# whether the build has the vector extension.
COLUMNS = {True: 4, False: 2}
ROWS_AT_ONCE = 4  # of the vector extension's matrix product


def _convolution(call: Call) -> int:
    """Once for each pixel, or for the columns or rows of pixels that CMSIS-NN takes together."""
    source, filters, output = call.input(0), call.input(1), call.output()
    if source is None or filters is None or output is None or len(filters.shape) != 4 or len(output.shape) != 4:
        return 1
    batch, rows, columns, _ = output.shape
    pixels = batch * rows * columns
    if not _optimized(call):
        return pixels
    if filters.shape[1] == filters.shape[2] == 1 and source.dtype is DType.INT8:
        return _product(call, pixels) if _stride(call) == 1 else batch * rows * _product(call, columns)
    return -(-pixels // COLUMNS[call.platform.mve])


def _dense(call: Call) -> int:
    """Once for each row of the input, unless it runs as a convolution."""
    source, weights, output = call.input(0), call.input(1), call.output()
    if source is None or weights is None or output is None or not weights.shape or not all(output.shape[-1:]):
        return 1
    rows = output.element_count // (output.shape[-1] if output.shape else 1)
    return _product(call, rows) if _optimized(call) and is_pointwise(call) else rows


def _lstm(call: Call) -> int:
    """Once for each step of each sequence."""
    source = call.input(0)
    return 1 if source is None or len(source.shape) != 3 else source.shape[0] * source.shape[1]


def _product(call: Call, rows: int) -> int:
    """A matrix product walks the weights in its outer loop; with vectors, the rows of the input."""
    return rows // ROWS_AT_ONCE + rows % ROWS_AT_ONCE if call.platform.mve else 1


def _optimized(call: Call) -> bool:
    """Whether CMSIS-NN runs it: float32 runs the reference kernels everywhere."""
    source = call.input(0)
    return call.platform.cmsis_nn and source is not None and source.dtype is not DType.FLOAT32


def _stride(call: Call) -> int:
    strides = (call.option("stride_h", 1), call.option("stride_w", 1))
    return max(stride if isinstance(stride, int) else 1 for stride in strides)


PASSES: dict[str, Callable[[Call], int]] = {
    "CONV_2D": _convolution,
    "FULLY_CONNECTED": _dense,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}


def constant_passes(call: Call) -> int:
    """The times that one run of the operator reads all its constants; 1 of operators that PASSES does not name."""
    rule = PASSES.get(call.operator.code)
    return 1 if rule is None else max(1, rule(call))
