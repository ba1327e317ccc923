"""How often a kernel reads its constants from one end to the other."""

from __future__ import annotations

from collections.abc import Callable

from edgetool.operators.kernel import Call

# Output pixels for which CMSIS-NN's general convolution reads the filters once: the columns that it collects
# (arm_convolve_s8.c), by whether the build has the vector extension.
COLUMNS = {True: 4, False: 2}


def convolution(call: Call) -> int:
    """A 1x1 convolution of CMSIS-NN walks the filters in its outer loop, any other once for a few output pixels."""
    filters, output = call.input(1), call.output()
    if filters is None or output is None or len(filters.shape) != 4 or len(output.shape) != 4:
        return 1
    pixels = output.shape[0] * output.shape[1] * output.shape[2]
    if not call.platform.cmsis_nn:
        return pixels
    if filters.shape[1] == filters.shape[2] == 1 and _stride(call) == 1:
        return 1
    return -(-pixels // COLUMNS[call.platform.mve])


def _stride(call: Call) -> int:
    strides = (call.option("stride_h", 1), call.option("stride_w", 1))
    return max(stride if isinstance(stride, int) else 1 for stride in strides)


PASSES: dict[str, Callable[[Call], int]] = {"CONV_2D": convolution}


def constant_passes(call: Call) -> int:
    """The times that one run of the operator reads all its constants."""
    rule = PASSES.get(call.operator.code)
    return 1 if rule is None else max(1, rule(call))
