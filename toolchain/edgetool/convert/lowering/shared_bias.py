"""A bias of its own, in its own scale, for each operator that shares one with others.

With int16 activations TensorFlow's converter keeps one constant for the bias of a layer that is called more than
once, as each step of an unrolled GRU does, in the scale of the first call. Kernels take it for the product of the
scales of input and weights, whatever its own says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetool.model.edit import STORED, Draft
from edgetool.model.types import Model, Operator, Quantization

# Where operators take input, weights and bias.
PLACES = {
    "CONV_2D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
SAME = 1e-4  # relative: products of float32 numbers


def own_biases(model: Model) -> Model:
    """The model with every bias of the main graph in the scale in which kernels read it; itself where all are."""
    draft, changed = Draft(model), False
    for operator in tuple(draft.operators):
        mended = _mended(draft, operator)
        if mended is not None:
            draft.replace(operator, mended)
            changed = True
    return draft.finish() if changed else model


def _mended(draft: Draft, operator: Operator) -> Operator | None:
    places = PLACES.get(operator.code)
    if places is None or len(operator.inputs) <= places[2] or operator.inputs[places[2]] < 0:
        return None
    source, weights, bias = (draft.tensors[operator.inputs[place]] for place in places)
    if source.quantization is None or weights.quantization is None or bias.quantization is None or bias.data is None:
        return None
    product = _scales(source.quantization)[0] * _scales(weights.quantization)
    read = product.astype(np.float32).astype(np.float64)  # as the file stores it
    written = _scales(bias.quantization)
    if not written.size or np.allclose(read, written, rtol=SAME, atol=0):
        return None
    kind = STORED[bias.dtype]
    values = np.frombuffer(bias.data, np.dtype(kind).newbyteorder("<")) * written
    limits = np.iinfo(kind)
    stored = np.clip(np.rint(values / read), limits.min, limits.max).astype(kind).reshape(bias.shape)
    scales = tuple(float(scale) for scale in read)
    own = draft.constant(f"{bias.name}/{operator.index}", stored, Quantization(scales, (0,) * len(scales), 0))
    inputs = list(operator.inputs)
    inputs[places[2]] = own
    return replace(operator, inputs=tuple(inputs))


def _scales(quantization: Quantization) -> npt.NDArray[np.float64]:
    return np.asarray(quantization.scales, np.float64)
