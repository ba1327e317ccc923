"""Cheaper forms that are not exact, for users who allow them: the largest error is told.

There is one, GELU as x LOGISTIC(x (a + b x^2)), and not for int8: there the exact table has a ninth of the instructions
of the LOGISTIC alone. In int16 it takes half the instructions of the exact float32 island and a third of its arena, in
float32 half the instructions of the exact formula.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator, Quantization, Tensor
from edgetool.passes.expansions import TANH_FORM, Formula
from edgetool.passes.functions import Reals, apply, dequantized, is_quantized, parameters, quantized
from edgetool.passes.region import scope_of
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

# a and b, fitted by us as small as the largest error for real x gets: 2.7e-4 (with tanh's form: 4.7e-4).
SHORT_FORM = (1.60031417, 0.06940178)
LARGEST = 32767
LOGISTIC_SCALE = 1 / 32768  # what the int16 kernel writes
# Beyond these LOGISTIC is 0 or 1 in 16 bits, so that what is larger may saturate.
LARGEST_ARGUMENT, LARGEST_SQUARE = 12.0, 36.0
RANGE = 16.0  # in float32: beyond it GELU and its approximation agree


def approximate(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """GELU, where the user allows it."""
    x = draft.tensors[operator.inputs[0]]
    if not context.allow_approximation or operator.code != "GELU":
        return None
    if x.dtype is DType.FLOAT32 and not _is_tanh(operator):
        return _in_float(draft, operator, context)
    if x.dtype is DType.INT16 and is_quantized(x) and is_quantized(draft.tensors[operator.outputs[0]]):
        return _in_int16(draft, operator, context)
    return None


def _is_tanh(operator: Operator) -> bool:
    return bool(operator.options and operator.options["approximate"])


def _in_float(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    x = operator.inputs[0]
    formula = Formula(draft, scope_of(draft, operator), draft.tensors[x].shape)
    argument = formula("MUL", formula.polynomial(formula("SQUARE", x), SHORT_FORM), x)
    formula("MUL", formula("LOGISTIC", argument), x)
    values = np.linspace(-RANGE, RANGE, 2**16 + 1)
    error = np.max(np.abs(_short(values, SHORT_FORM) - apply(operator, values)))
    return _put(draft, operator, context, formula.operators, float(error))


def _short(x: Reals, form: tuple[float, float]) -> Reals:
    with np.errstate(over="ignore"):
        return np.asarray(x / (1 + np.exp(-x * (form[0] + form[1] * x * x))))


def _put(draft: Draft, operator: Operator, context: Context, new: list[Operator], error: float) -> Applied | None:
    if not all(context.legal(draft, one) for one in new):
        return None
    done = applied("approximation", draft, operator, error)
    draft.replace(operator, *new[:-1], replace(new[-1], outputs=operator.outputs))
    return done


class _Int16:
    """Collects int16 operators, each with its values for every code of x: what the kernels compute but for rounding
    that is a code off at most."""

    def __init__(self, draft: Draft, scope: str, shape: tuple[int, ...]) -> None:
        self.draft = draft
        self.scope = scope
        self.shape = shape
        self.values: dict[int, Reals] = {}
        self.operators: list[Operator] = []

    def number(self, value: float) -> int:
        scale = value / LARGEST
        index = self.draft.constant(f"{self.scope}constant", np.asarray(LARGEST, np.int16), _scaled(scale))
        self.values[index] = np.asarray(scale * LARGEST)
        return index

    def __call__(self, code: str, *inputs: int, scale: float) -> int:
        result = self.draft.tensor(f"{self.scope}{code.lower()}", self.shape, DType.INT16, _scaled(scale))
        new = self.draft.make(code, inputs, [result], version=2)
        if code == "ADD":
            new = self.draft.make(code, inputs, [result], version=2, pot_scale_int16=False)
        self.operators.append(new)
        exact = apply(new, *(self.values[one] for one in inputs))
        self.values[result] = _rounded(exact, self.draft.tensors[result])
        return result


def _scaled(scale: float) -> Quantization:
    return Quantization((float(np.float32(scale)),), (0,), 0)


def _rounded(values: Reals, tensor: Tensor) -> Reals:
    return dequantized(quantized(values, tensor), tensor)


def _in_int16(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Scales follow from the range of x: as fine as it allows, and no coarser than what LOGISTIC tells apart."""
    x, result = operator.inputs[0], draft.tensors[operator.outputs[0]]
    a, b = TANH_FORM if _is_tanh(operator) else SHORT_FORM
    formula = _Int16(draft, scope_of(draft, operator), result.shape)
    formula.values[x] = dequantized(np.arange(-32768, 32768), draft.tensors[x])
    largest = 32768 * parameters(draft.tensors[x])[0]
    square = min(largest**2, LARGEST_SQUARE)
    squared = formula("MUL", x, x, scale=square / LARGEST)
    cubic = formula("MUL", squared, formula.number(b), scale=b * square / LARGEST)
    slope = formula("ADD", cubic, formula.number(a), scale=(a + b * square) / LARGEST)
    most = min(largest * (a + b * square), LARGEST_ARGUMENT)
    argument = formula("MUL", x, slope, scale=most / LARGEST)
    share = formula("LOGISTIC", argument, scale=LOGISTIC_SCALE)
    product = formula("MUL", x, share, scale=parameters(result)[0])
    exact = apply(operator, formula.values[x])
    lowest, highest = (_rounded(np.asarray(end * 1e9), result) for end in (-1.0, 1.0))
    error = np.max(np.abs(formula.values[product] - np.clip(exact, lowest, highest)))
    return _put(draft, operator, context, formula.operators, float(error))


APPROXIMATE = Rewrite(
    "approximation",
    "approximated by x * LOGISTIC(x * (a + b * x^2))",
    approximate,
    frozenset({"GELU"}),
)
