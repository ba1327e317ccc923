"""Convolutions: which kernel runs, and how often its loops turn.

Sources: conv.cc and conv_common.cc, and CMSIS-NN's arm_convolve_wrapper_s8.c, _s16.c and _s4.c.
"""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.work.convolution_int4 import convolve_int4
from edgetool.operators.work.convolution_int8 import convolve_int8
from edgetool.operators.work.convolution_int16 import convolve_int16
from edgetool.operators.work.convolution_reference import reference_convolution
from edgetool.operators.work.loops import together
from edgetool.operators.work.matrix import biased_tiles
from edgetool.operators.work.types import Work, WorkRule
from edgetool.operators.work.windows import Windows, windows
from edgetool.target.platform import Platform

Kernel = Callable[[Windows, Platform, Tensor | None], Work]


def _conv_2d(call: Call) -> Work:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    w = windows(call, source, weights, result)
    kernel = CMSIS_KERNELS.get((source.dtype, weights.dtype)) if call.platform.cmsis_nn else None
    if kernel is None:
        return reference_convolution(call, w)
    work = kernel(w, call.platform, call.input(2))
    loops = together(work.loops, biased_tiles(call, w.batch * w.positions, w.out_channels))
    return Work(work.path, loops, work.gives_up)


CMSIS_KERNELS: dict[tuple[DType, DType], Kernel] = {
    (DType.INT8, DType.INT8): lambda w, platform, _: convolve_int8(w, platform),
    (DType.INT8, DType.INT4): lambda w, platform, _: convolve_int4(w, platform),
    (DType.INT16, DType.INT8): convolve_int16,
}

WORK: dict[str, WorkRule] = {"CONV_2D": _conv_2d}
