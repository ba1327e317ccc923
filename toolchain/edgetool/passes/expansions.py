"""Elementwise operators that the runtime has in no type, as several that it has: in float32, and some in int32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf, isfinite, log, pi, sqrt

import numpy as np

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.region import scope_of, uniform_value
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

# Phi(x), the normal distribution, is LOGISTIC(x P(x^2)): P fitted by us to log(Phi(x) / Phi(-x)) / x, weighted by what
# it contributes to x Phi(x), so that the largest error there is as small as it can be (Lawson's iteration, |x| <= 12):
# 7e-8, or 6e-7 in float32. P grows towards both sides, so beyond the fit LOGISTIC gives 0 and 1. It takes three
# operators less than formula 7.1.26 of Abramowitz and Stegun with its ABS, DIV and EXP, and is more exact.
NORMAL = (
    1.595768432230162,
    0.07266856702994726,
    -6.625998801570391e-05,
    -0.00011048031688410792,
    7.93821891674834e-06,
    -2.6689281897007706e-07,
    3.611232836948836e-09,
)
# 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) is LOGISTIC of twice that argument: exact.
TANH_FORM = (2 * sqrt(2 / pi), 2 * sqrt(2 / pi) * 0.044715)
MOST_BITS = 4  # of a whole exponent that is multiplied out: at most six MUL


@dataclass(slots=True)
class Formula:
    """Collects float32 operators whose tensors have one shape; each step takes tensors and gives that of its result."""

    draft: Draft
    scope: str
    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    operators: list[Operator] = field(default_factory=list)

    def number(self, value: float) -> int:
        """A scalar constant."""
        kind = np.float32 if self.dtype is DType.FLOAT32 else np.int32
        return self.draft.constant(f"{self.scope}constant", np.asarray(value, kind))

    def __call__(self, code: str, *inputs: int | float, dtype: DType | None = None) -> int:
        """One operator of tensors (int) and numbers (float)."""
        taken = [self.number(one) if isinstance(one, float) else one for one in inputs]
        result = self.draft.tensor(f"{self.scope}{code.lower()}", self.shape, dtype or self.dtype)
        self.operators.append(self.draft.make(code, taken, [result]))
        return result

    def truth(self, code: str, *inputs: int | float) -> int:
        """1 where a comparison of tensors and numbers holds, else 0."""
        condition = self(code, *inputs, dtype=DType.BOOL)
        result = self.draft.tensor(f"{self.scope}{code.lower()}_cast", self.shape, self.dtype)
        new = self.draft.make("CAST", [condition], [result], in_data_type="BOOL", out_data_type=self.dtype.name)
        self.operators.append(new)
        return result

    def polynomial(self, x: int, coefficients: tuple[float, ...]) -> int:
        """c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
        result: int | float = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self("ADD", self("MUL", x, result), coefficient)
        return int(result)


def _gelu(formula: Formula, operator: Operator) -> int:
    x = operator.inputs[0]
    coefficients = TANH_FORM if operator.options is not None and operator.options["approximate"] else NORMAL
    argument = formula("MUL", formula.polynomial(formula("SQUARE", x), coefficients), x)
    return formula("MUL", formula("LOGISTIC", argument), x)


def _sign(formula: Formula, operator: Operator) -> int:
    above, below = (formula.truth(code, operator.inputs[0], 0.0) for code in ("GREATER", "LESS"))
    return formula("SUB", above, below)


def _clip(low: float, high: float) -> Callable[[Formula, Operator], int]:
    return lambda formula, operator: formula("MINIMUM", formula("MAXIMUM", operator.inputs[0], low), high)


def _power(formula: Formula, operator: Operator) -> int | None:
    """By the exponent, or the base, that is one number; of two tensors EXP and LOG know it only above 0."""
    x, y = operator.inputs
    base, exponent = (uniform_value(formula.draft, index) for index in (x, y))
    varies = y if exponent is None else x
    if formula.draft.tensors[varies].shape != formula.shape:
        return None
    if exponent is None:
        if base is None or not 0 < base < inf:
            return None
        return formula("EXP", formula("MUL", y, log(base)))
    if not isfinite(exponent):
        return None
    steps = {0.5: ["SQRT"], -0.5: ["RSQRT"], 1.5: ["SQRT", "x"], 0.25: ["SQRT", "SQRT"]}
    if exponent in steps:
        result = x
        for step in steps[exponent]:
            result = formula("MUL", result, x) if step == "x" else formula(step, result)
        return result
    if exponent == int(exponent) and 0 < abs(exponent) < 2**MOST_BITS:
        result = _whole_power(formula, x, int(abs(exponent)))
        return result if exponent > 0 else formula("DIV", 1.0, result)
    if exponent == int(exponent):
        return None
    return formula("EXP", formula("MUL", formula("LOG", x), exponent))


def _whole_power(formula: Formula, x: int, exponent: int) -> int:
    """By squaring: at most twice as many MUL as the exponent has bits."""
    result: int | None = None
    square = x
    while True:
        if exponent & 1:
            result = square if result is None else formula("MUL", result, square)
        exponent >>= 1
        if not exponent:
            break
        square = formula("MUL", square, square)
    assert result is not None
    return formula("MUL", result, 1.0) if result == x else result


EXPANSIONS: dict[str, Callable[[Formula, Operator], int | None]] = {
    "GELU": _gelu,
    "POW": _power,
    "RELU_0_TO_1": _clip(0.0, 1.0),
    "RELU_N1_TO_1": _clip(-1.0, 1.0),
    "SIGN": _sign,
}
# In int32, where wrapping around is what the operators themselves do.
INT32_EXPANSIONS: dict[str, Callable[[Formula, Operator], int | None]] = {
    "ABS": lambda formula, operator: formula("MAXIMUM", operator.inputs[0], formula("SUB", 0.0, operator.inputs[0])),
    "NEG": lambda formula, operator: formula("SUB", 0.0, operator.inputs[0]),
    "SIGN": _sign,
    "SQUARE": lambda formula, operator: formula("MUL", operator.inputs[0], operator.inputs[0]),
}
EXPANDED = frozenset(EXPANSIONS)
BY_TYPE = {DType.FLOAT32: EXPANSIONS, DType.INT32: INT32_EXPANSIONS}


def expand(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """A formula in the place of an operator."""
    result = draft.tensors[operator.outputs[0]]
    make = BY_TYPE.get(result.dtype, {}).get(operator.code)
    if make is None:
        return None
    formula = Formula(draft, scope_of(draft, operator), result.shape, result.dtype)
    value = make(formula, operator)
    if value is None or not all(context.legal(draft, one) for one in formula.operators):
        return None
    last = formula.operators[-1]
    draft.replace(operator, *formula.operators[:-1], replace(last, outputs=operator.outputs))
    return applied("expansion", draft, operator)


EXPAND = Rewrite(
    "expansion",
    "replaced by simpler operators that compute the same values: TensorFlow Lite Micro does not support this operator",
    expand,
)
