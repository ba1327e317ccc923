"""Inputs of types that TensorFlow Lite Micro cannot cast become inputs of a type that it can read. Pure.

Keras casts what it is given to the type that its layers compute in. TFLM casts no uint8, no int64 and no float64, and a
picture cast to float32 takes four times its memory before it is quantized.
"""

from __future__ import annotations

from dataclasses import replace

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Model, Operator, Quantization, Tensor

# Types whose values a narrower type holds, as far as a device has them, and that type.
NARROWER = {
    DType.FLOAT64: DType.FLOAT32,
    DType.FLOAT16: DType.FLOAT32,
    DType.INT64: DType.INT32,
    DType.UINT64: DType.INT32,
    DType.UINT16: DType.INT32,
}
# Types that QUANTIZE reads as codes: the numbers themselves, with a scale of 1.
CODES = frozenset([DType.INT8, DType.UINT8])
PLAIN = Quantization((1.0,), (0,), 0)


def readable_inputs(model: Model) -> tuple[Model, tuple[str, ...]]:
    """The model with a CAST behind an input left out, and a sentence for each input whose type changed.

    A float64, float16, int64, uint64 or uint16 input becomes float32 or int32: equal for values that those hold. An
    int8 or uint8 input that is cast to float to be quantized is quantized from its own codes, with scale 1 and zero
    point 0: equal but for numbers in the middle of two codes. Inputs that anything but CAST reads stay as they are.
    """
    draft = Draft(model)
    notes: list[str] = []
    changed = False
    for index in dict.fromkeys(draft.inputs):
        tensor = draft.tensors[index]
        casts = draft.consumers(index)
        if not casts or index in draft.outputs or any(cast.code != "CAST" for cast in casts):
            continue
        if tensor.dtype in NARROWER:
            narrow = NARROWER[tensor.dtype]
            _narrow(draft, tensor, casts, narrow)
            name = draft.model.argument_name(draft.subgraph, index) or tensor.name
            notes.append(
                f"input {name!r} is {narrow.name.lower()} instead of {tensor.dtype.name.lower()}: TFLM cannot cast it"
            )
            changed = True
        elif tensor.dtype in CODES and tensor.quantization is None and _only_to_quantize(draft, casts):
            _quantize_directly(draft, tensor, casts)
            changed = True
    return draft.finish() if changed else model, tuple(notes)


def _narrow(draft: Draft, tensor: Tensor, casts: list[Operator], narrow: DType) -> None:
    draft.tensors[tensor.index] = replace(tensor, dtype=narrow)
    for cast in casts:
        made = cast.outputs[0]
        if draft.tensors[made].dtype is narrow and made not in draft.outputs:
            draft.redirect(made, tensor.index)
            draft.replace(cast)
        else:  # from the new type; the options repeat the types where a file has them
            draft.replace(cast, replace(cast, options=None, version=1))


def _only_to_quantize(draft: Draft, casts: list[Operator]) -> bool:
    """Whether the casts give float32 that nothing but QUANTIZE to int8 reads."""
    made = [cast.outputs[0] for cast in casts]
    if any(draft.tensors[index].dtype is not DType.FLOAT32 or index in draft.outputs for index in made):
        return False
    readers = [draft.consumers(index) for index in made]
    quantized = [draft.tensors[reader.outputs[0]] for group in readers for reader in group if reader.code == "QUANTIZE"]
    all_quantize = all(readers) and len(quantized) == sum(map(len, readers))
    return all_quantize and all(tensor.dtype is DType.INT8 for tensor in quantized)


def _quantize_directly(draft: Draft, tensor: Tensor, casts: list[Operator]) -> None:
    draft.tensors[tensor.index] = replace(tensor, quantization=PLAIN)
    for cast in casts:
        draft.redirect(cast.outputs[0], tensor.index)
        draft.replace(cast)
