"""The fixed-point multipliers of matrix products: what their making asks for, and which scales it takes.

Sources: CalculateOpDataFullyConnected (fully_connected_common.cc) and GetQuantizedConvolutionMultipler
(kernel_util.cc). Infinite multipliers pass on most builds, and so they do here.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call, Request, persistent
from edgetool.operators.prepare.inspection import demand
from edgetool.operators.prepare.quantization import float32, is_quantized, scale

INT32_BYTES = 4
BIAS_TOLERANCE = 0.02  # of the output's scale


def is_per_channel(weights: Tensor) -> bool:
    """Whether TFLM takes the weights for quantized with more than one scale."""
    return is_quantized(weights) and weights.quantization is not None and weights.quantization.per_channel


def check_product(call: Call, first: Tensor, second: Tensor) -> None:
    """The product of two scales is not negative. Raises KernelRefusal otherwise."""
    product = float32(scale(first) * scale(second))
    demand(call, product >= 0, f"does not support {product} as the product of scales")


def weight_multipliers(
    call: Call, source: Tensor, weights: Tensor, bias: Tensor | None, output_scale: float
) -> Iterator[Request]:
    """Multipliers for weights, in the arena when they are quantized per channel; nothing for a float source.

    Raises KernelRefusal when there are none.
    """
    if source.dtype == DType.FLOAT32:
        return
    quantization = weights.quantization
    if quantization is not None and is_per_channel(weights):
        scales, axis = quantization.scales, quantization.axis
        taken = source.dtype in (DType.INT8, DType.INT16) and weights.dtype != DType.INT4
        names = f"{source.dtype.name.lower()} with weights of {weights.dtype.name.lower()}"
        demand(call, taken, f"does not support {names} quantized per channel")
        alike = 0 <= axis < len(weights.shape) and weights.shape[axis] == len(scales)
        demand(call, alike, f"does not support {len(scales)} scales for weights of shape {weights.shape}")
        for what in ("per-channel multipliers", "per-channel shifts"):
            yield persistent(what, INT32_BYTES * len(scales))
        return
    if bias is not None:
        off = abs(scale(source) * scale(weights) - scale(bias))
        error = off / output_scale if output_scale else inf
        near = not isnan(error) and error <= BIAS_TOLERANCE
        demand(call, near, "requires the bias scale to be the product of the input scale and the weight scale")
    check_product(call, source, weights)
