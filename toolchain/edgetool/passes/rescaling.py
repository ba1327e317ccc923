"""Arithmetic at a model's start that only changes the meaning of its input's codes, folded into the input's scale.

Rescaling pixels by 1/255 makes a MUL whose output has the codes of its input, with another scale. Whether operators do
that is tested with every code and every constant; if a result is so close to the middle of two codes that kernels may
round it either way, they remain. (x / 127.5 - 1 is such a case: its codes lie half-way between those of x.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.rules import common_shape
from edgetool.model.types import DType, Model, Operator, Tensor
from edgetool.passes.elementwise import Reals
from edgetool.passes.validation import is_consistent

ScaleAndZeroPoint = tuple[float, int]

# The minimum distance of a result from the middle of two codes: the kernels' fixed-point error is below 1e-5.
TIE = 1e-3
# The lowest and the highest code of 8-bit types.
CODES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
LIMIT_CONSTANTS = 2**16
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"MUL": np.multiply, "ADD": np.add, "SUB": np.subtract}


@dataclass(frozen=True, slots=True)
class Affine:
    """The new contents of a graph input: x * scale + offset, where x is the old contents."""

    scale: float
    offset: float

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the new contents of the input for old values."""
        return np.asarray(values.astype(np.float64) * self.scale + self.offset, np.float32)


@dataclass(frozen=True, slots=True)
class RescaledModel:
    """The model; for each graph input, the map from its old real values to the new ones, None if they are the same."""

    model: Model
    inputs: tuple[Affine | None, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Operators at an input, in order, that do not change its codes, and the tensor that the last one writes."""

    operators: tuple[Operator, ...]
    last: int
    affine: Affine


def fold_rescaling(model: Model) -> RescaledModel:
    """Return the model without leading operators that leave each code of an 8-bit input unchanged.

    MUL, ADD, SUB with constants and QUANTIZE are removed, and the input tensor gets the quantization of their result:
    for the same codes, the outputs stay the same. A uint8 input keeps its type, and one QUANTIZE.
    """
    draft = Draft(model)
    affine: list[Affine | None] = []
    notes: list[str] = []
    for index in draft.inputs:
        before = draft.tensors[index]
        chain = _longest_chain(draft, index)
        affine.append(None if chain is None else chain.affine)
        if chain is not None:
            _fold(draft, before, chain)
            notes.append(_note(model, before, chain))
    return RescaledModel(draft.finish() if notes else model, tuple(affine), tuple(notes))


def _longest_chain(draft: Draft, index: int) -> _Chain | None:
    """Return the longest removable chain from the input; None if there is none."""
    start = draft.tensors[index]
    start_scale = start.per_tensor
    if start.dtype not in CODES or start_scale is None or index in draft.outputs:
        return None
    low, high = CODES[start.dtype]
    codes = np.arange(low, high + 1, dtype=np.float64)
    values: Reals | None = _real(codes, start_scale)
    operators: list[Operator] = []
    best, tensor = None, index
    while values is not None:
        readers = draft.consumers(tensor)
        if len(readers) != 1 or len(readers[0].outputs) != 1:
            break
        if draft.tensors[readers[0].outputs[0]].shape != start.shape:
            break
        operators.append(readers[0])
        tensor = readers[0].outputs[0]
        if tensor in draft.outputs:
            break
        values = _after(draft, readers[0], values)
        result = draft.tensors[tensor]
        if values is None or result.dtype is not DType.INT8 or result.per_tensor is None:
            continue
        if _is_code_of(codes - (low + 128), values, result.per_tensor):
            best = _Chain(tuple(operators), tensor, _between(start.dtype, start_scale, result.per_tensor))
    # A uint8 input keeps one QUANTIZE, which may be the whole chain.
    return best if best is None or start.dtype is DType.INT8 or len(best.operators) > 1 else None


def _is_code_of(codes: Reals, values: Reals, quantization: ScaleAndZeroPoint) -> bool:
    """Whether each real value, (256, ...), is that of its code, (256,)."""
    scale, zero_point = quantization
    nearest = np.rint(values / scale) + zero_point
    return bool((nearest == codes.reshape(-1, *[1] * (nearest.ndim - 1))).all())


def _between(dtype: DType, old: ScaleAndZeroPoint, new: ScaleAndZeroPoint) -> Affine:
    """Return the map from the real value of an input's code to that of the same code of the result."""
    low, _ = CODES[dtype]
    zero_point = new[1] + low + 128
    return Affine(new[0] / old[0], new[0] * (old[1] - zero_point))


def _constants(draft: Draft, operator: Operator) -> list[Reals | None]:
    """Return the real values of an arithmetic operator's constants, None for a computed input; empty for other
    operators.
    """
    options = operator.options
    if operator.code not in ARITHMETIC or options is None or not is_consistent(draft, operator):
        return []
    if options.text("fused_activation_function") != "NONE":
        return []
    return [_constant(draft, tensor) for tensor in operator.inputs]


def _after(draft: Draft, operator: Operator, values: Reals) -> Reals | None:
    """Return the operator's results for these real values, (256, *constants); None if the rounding is uncertain."""
    output = draft.tensors[operator.outputs[0]]
    if operator.code == "QUANTIZE":
        return _rounded(values, output)
    constants = _constants(draft, operator)
    constant_input = next((constant for constant in constants if constant is not None), None)
    if constant_input is None or constant_input.size * values[0].size > LIMIT_CONSTANTS:
        return None
    if common_shape([constant_input.shape, output.shape]) != output.shape:
        return None
    rank = max(constant_input.ndim, values.ndim - 1)
    values = values.reshape(-1, *[1] * (rank - values.ndim + 1), *values.shape[1:])
    parts = [values if constant is None else constant for constant in constants]
    return _rounded(ARITHMETIC[operator.code](*parts), output)


def _constant(draft: Draft, tensor: int) -> Reals | None:
    """Return the real values of a quantized constant, without leading dimensions of 1; None for anything else."""
    nearest, codes = draft.tensors[tensor], draft.values(tensor)
    if codes is None or nearest.per_tensor is None or nearest.dtype not in CODES:
        return None
    codes = codes.reshape(codes.shape[np.argmax(np.array((*codes.shape, 2)) != 1) :])
    return _real(codes.astype(np.float64), nearest.per_tensor)


def _rounded(values: Reals, tensor: Tensor) -> Reals | None:
    """Return the real values of a quantized tensor's codes; None if a value lies in the middle of two codes."""
    if tensor.dtype not in CODES or tensor.per_tensor is None:
        return None
    scale, zero_point = tensor.per_tensor
    low, high = CODES[tensor.dtype]
    exact = np.clip(values / scale + zero_point, low, high)
    codes = np.rint(exact)
    if (np.abs(exact - codes) > 0.5 - TIE).any():
        return None
    return _real(codes, tensor.per_tensor)


def _real(codes: Reals, quantization: ScaleAndZeroPoint) -> Reals:
    scale, zero_point = quantization
    return np.asarray((codes - zero_point) * scale)


def _fold(draft: Draft, start: Tensor, chain: _Chain) -> None:
    """Remove the chain, and give the input the quantization of its result."""
    result = draft.tensors[chain.last].quantization
    assert result is not None
    assert result.per_tensor is not None
    unsigned = start.dtype is DType.UINT8
    shifted = (result.per_tensor[1] + (128 if unsigned else 0),)
    quantization = replace(result, zero_points=shifted, minimum=(), maximum=())
    draft.tensors[start.index] = replace(start, quantization=quantization)
    if unsigned:
        draft.replace(chain.operators[-1], draft.make("QUANTIZE", [start.index], [chain.last]))
    else:
        draft.redirect(chain.last, start.index)
        draft.replace(chain.operators[-1])
    for operator in chain.operators[:-1]:
        draft.replace(operator)


def _note(model: Model, start: Tensor, chain: _Chain) -> str:
    name = model.argument_name(0, start.index) or start.name
    labels = ", ".join(operator.label for operator in chain.operators)
    scale, offset = chain.affine.scale, chain.affine.offset
    shift = "" if offset == 0 else f" {'-' if offset < 0 else '+'} {abs(offset):.6g}"
    kind = start.dtype.name.lower()
    verb = "was" if len(chain.operators) == 1 else "were"
    return (
        f"{labels} {verb} folded into the scale of input {name!r}: an original input value x now corresponds to the "
        f"real value x * {scale:.6g}{shift}; the stored {kind} value stays the same"
    )
