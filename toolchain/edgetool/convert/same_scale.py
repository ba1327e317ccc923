"""A way out where TensorFlow's quantizer contradicts itself over scales.

It gives the inputs and outputs of CONCATENATION, MAXIMUM, MINIMUM and PACK one scale. Where several of them meet on one
tensor, or the tensor's scale is not free (TANH, a graph output), it chooses two ("quantization parameters violate the
same scale constraint") and refuses the model, or breaks the scale that a kernel demands. Here such operators hide from
it as custom ones, which it leaves in float and puts no constraint on. Then they come back in int8, with a QUANTIZE for
each input whose scale differs from the result's.

This is for SavedModels, whose graphs are converted as they are. In that of a Keras model lowering.own_scales gives such
tensors a second scale before the quantizer sees them; here such a model passes at the first try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetool.model.edit import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Operator, Quantization
from edgetool.model.writer import write_model

JOINING = frozenset(["CONCATENATION", "MAXIMUM", "MINIMUM", "PACK"])
# The scale of an int8 result that kernels demand.
DEMANDED = {"LOGISTIC": 1 / 256, "SOFTMAX": 1 / 256, "TANH": 1 / 128}
LEAST_VERSION = 2  # of these operators' int8 forms
MOST_TRIED = 16  # operators that are shown to the quantizer again, one at a time: each quantizes the whole model once
COVERED = 0.95  # of its range that a tensor's scale must reach, so that an operator need not hide
_HIDDEN = "edgetool.hidden."

Quantize = Callable[[bytes], bytes]  # of a calibrated .tflite; RuntimeError where the quantizer refuses it


@dataclass(frozen=True, slots=True)
class Quantized:
    """The bytes, and the operators of the calibrated model whose inputs were brought to one scale here."""

    content: bytes
    joined: tuple[Operator, ...] = ()


def quantize_around(quantize: Quantize, calibrated: bytes) -> Quantized:
    """What `quantize` makes of the model, with as few operators hidden from it as were found to suffice.

    Raises its RuntimeError where hiding does not help.
    """
    refusal: RuntimeError | None = None
    try:
        content = quantize(calibrated)
        if not _wrong_scales(read_model(content).main):
            return Quantized(content)
    except RuntimeError as error:
        refusal, content = error, b""
    model = read_model(calibrated)
    candidates = tuple(operator for operator in model.main.operators if operator.code in JOINING)
    best = _try(quantize, model, candidates) if candidates else None
    if best is None:
        if refusal is not None:
            raise refusal
        return Quantized(content)
    for operator in sorted(candidates, key=lambda one: -_elements(model.main, one))[:MOST_TRIED]:
        fewer = _try(quantize, model, tuple(one for one in best.joined if one is not operator))
        if fewer is not None and not _narrow(fewer.content, model.main):
            best = fewer
    return best


def _try(quantize: Quantize, model: Model, hidden: tuple[Operator, ...]) -> Quantized | None:
    """None where the quantizer refuses the model, or breaks what kernels demand, all the same."""
    try:
        content = quantize(_hide(model, hidden))
    except RuntimeError:
        return None
    shown = _show(read_model(content), {f"{_HIDDEN}{operator.index}": operator for operator in hidden})
    return None if _wrong_scales(shown.main) else Quantized(write_model(shown), hidden)


def _wrong_scales(graph: Graph) -> bool:
    """Whether an operator's result has another scale than its kernel demands."""
    for operator in graph.operators:
        result = graph.tensors[operator.outputs[0]] if operator.code in DEMANDED else None
        if result is not None and result.dtype is DType.INT8 and result.per_tensor is not None:
            scale, _ = result.per_tensor
            if abs(scale / DEMANDED[operator.code] - 1) > 1e-3:
                return True
    return False


def _narrow(content: bytes, calibrated: Graph) -> bool:
    """Whether a tensor's int8 values do not reach what calibration saw."""
    ranges = {tensor.name: tensor.quantization for tensor in calibrated.tensors if tensor.data is None}
    for tensor in read_model(content).main.tensors:
        own, seen = tensor.per_tensor, ranges.get(tensor.name)
        if tensor.dtype is not DType.INT8 or own is None or seen is None or not seen.maximum:
            continue
        scale, zero_point = own
        low, high = (scale * (end - zero_point) for end in (-128, 127))
        if low > COVERED * min(seen.minimum[0], 0.0) or high < COVERED * max(seen.maximum[0], 0.0):
            return True
    return False


def _hide(model: Model, operators: Sequence[Operator]) -> bytes:
    draft = Draft(model)
    for operator in operators:
        name = f"{_HIDDEN}{operator.index}"
        draft.replace(
            operator, replace(operator, code="CUSTOM", version=1, custom_code=name, options=None, options_in_2=False)
        )
    return write_model(draft.finish())


def _show(model: Model, hidden: Mapping[str, Operator]) -> Model:
    """The hidden operators as what they are: in int8 where their result becomes that, otherwise in float."""
    draft = Draft(model)
    for custom in draft.operators.copy():
        own = hidden.get(custom.custom_code or "")
        if own is None:
            continue
        form = replace(own, index=custom.index, inputs=custom.inputs, outputs=custom.outputs)
        draft.replace(custom, form)
        readers = draft.consumers(form.outputs[0])
        if len(readers) == 1 and readers[0].code == "QUANTIZE" and form.outputs[0] not in draft.outputs:
            _in_int8(draft, form, readers[0])
    return draft.finish()


def _in_int8(draft: Draft, operator: Operator, after: Operator) -> None:
    """Let the operator give what the QUANTIZE after it gives, each of its inputs with that scale."""
    result = draft.tensors[after.outputs[0]]
    common = result.quantization
    if result.dtype is not DType.INT8 or common is None or common.per_tensor is None:
        return
    before = [_quantized_input(draft, index, common) for index in operator.inputs]
    if None in before:
        return
    inputs: list[int] = []
    steps: dict[int, Operator] = {}
    for index in (index for index in before if index is not None):
        tensor = draft.tensors[index]
        if tensor.per_tensor == common.per_tensor:
            inputs.append(index)
            continue
        if index not in steps:
            made = draft.tensor(f"{tensor.name}_requantized", tensor.shape, DType.INT8, _plain(common))
            steps[index] = draft.make("QUANTIZE", [index], [made])
        inputs.append(steps[index].outputs[0])
    version = max(operator.version, LEAST_VERSION)
    form = replace(operator, inputs=tuple(inputs), outputs=after.outputs, version=version)
    old = [draft.producer(index) for index in dict.fromkeys(operator.inputs)]
    draft.replace(operator, *steps.values(), form)
    draft.replace(after)
    for maker in old:
        if maker is not None and not draft.consumers(maker.outputs[0]) and maker.outputs[0] not in draft.outputs:
            draft.replace(maker)


def _quantized_input(draft: Draft, index: int, common: Quantization) -> int | None:
    """The int8 tensor that a float input was, or that a constant becomes; None where there is none."""
    values = draft.values(index)
    if values is not None and common.per_tensor is not None:
        scale, zero_point = common.per_tensor
        codes = np.clip(np.round(values / scale) + zero_point, -128, 127)
        return draft.constant(f"{draft.tensors[index].name}_quantized", codes, _plain(common), DType.INT8)
    maker = draft.producer(index)
    if maker is None or maker.code != "DEQUANTIZE" or draft.tensors[maker.inputs[0]].dtype is not DType.INT8:
        return None
    return maker.inputs[0]


def _plain(quantization: Quantization) -> Quantization:
    return replace(quantization, minimum=(), maximum=())


def _elements(graph: Graph, operator: Operator) -> int:
    return sum(graph.tensors[index].element_count for index in (*operator.inputs, *operator.outputs) if index >= 0)
