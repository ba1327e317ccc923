"""A tensor's quantization as TFLM's kernels see it, and the fixed-point multipliers that they can make of scales.

Sources: micro_allocator.cc (what a TfLiteTensor gets of the file) and quantization_util.cc.
"""

from __future__ import annotations

from math import inf
from struct import pack, unpack

from edgetool.model.types import Tensor
from edgetool.operators.kernel import Call, KernelRefusal

# Real values between which a fused activation clamps: the kernel quantizes each.
CLAMPED: dict[object, tuple[float, ...]] = {"RELU": (0.0,), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0)}
LARGEST_QUANTIZED = 2.0**31


def is_quantized(tensor: Tensor) -> bool:
    """Whether TFLM takes the tensor for quantized: the file gives it scales and zero points."""
    quantization = tensor.quantization
    return quantization is not None and bool(quantization.scales) and bool(quantization.zero_points)


def scale(tensor: Tensor) -> float:
    """The first scale; 0 for a tensor that is not quantized."""
    return tensor.quantization.scales[0] if tensor.quantization is not None and is_quantized(tensor) else 0.0


def zero_point(tensor: Tensor) -> int:
    """The first zero point; 0 for a tensor that is not quantized."""
    return tensor.quantization.zero_points[0] if tensor.quantization is not None and is_quantized(tensor) else 0


def ratio(dividend: float, divisor: float) -> float:
    """The quotient; infinite for a divisor of 0, so that no condition on it holds."""
    return dividend / divisor if divisor else inf


def is_below_one(multiplier: float) -> bool:
    """Whether QuantizeMultiplierSmallerThanOneExp takes it; it aborts the program otherwise.

    A fraction that would round to 2^31 / 2^31 is too large as well.
    """
    return 0.0 < multiplier < 1.0 - 2.0**-32


def float32(value: float) -> float:
    """The value rounded to single precision, in which some kernels calculate."""
    try:
        (rounded,) = unpack("<f", pack("<f", value))
    except OverflowError:
        return inf if value > 0 else -inf
    return float(rounded)


def check_activation_range(call: Call) -> None:
    """CalculateActivationRangeQuantized (kernel_util.cc): the bounds of the fused activation fit 32 bits.

    Raises KernelRefusal when they do not, as for an output without a scale.
    """
    own = scale(call.required_output())
    for bound in CLAMPED.get(call.option("fused_activation_function", "NONE"), ()):
        quantized = float32(bound / own) if own else inf
        if abs(quantized) > LARGEST_QUANTIZED:
            raise KernelRefusal(f"{call.operator.label} cannot clamp to {bound:g} with an output scale of {own}")
