"""Replace unsupported operators with several supported ones, and with float islands between DEQUANTIZE and QUANTIZE.

Elementwise operators become several supported ones: in float32, and some in int32.

If the user allows it, GELU is approximated by x LOGISTIC(x (a + b x^2)), and its maximum error is reported. This does
not apply to int8, where the exact table takes a ninth of the instructions of the LOGISTIC alone. In int16 it takes half
the instructions of the exact float32 island and a third of its arena, and in float32 half the instructions of the exact
formula.

Float islands contain operators that the runtime supports only in float32. They are used for int16 (a table would have
65536 values), and operators with several inputs. They need four bytes for each element of each tensor in between, and
on cores without a floating-point unit a lot of time. They lose no accuracy: values that pass from one island to the
next are neither rounded to a tensor's quantized values nor saturated to its range, so results may be closer to the
float model's than those of integer kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf, isfinite, log, pi, sqrt

import numpy as np

from edgetool.model.draft import Draft
from edgetool.model.types import CONVERSIONS, DType, Operator, Quantization, Tensor
from edgetool.passes.elementwise import (
    FUNCTIONS,
    Reals,
    Region,
    apply,
    dequantized,
    is_quantized,
    largest_region,
    quantized,
    remove_unread,
    scale_and_zero_point,
    scope_of,
    uniform_value,
)
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

# Phi(x), the normal distribution, is LOGISTIC(x P(x^2)). P was fitted to log(Phi(x) / Phi(-x)) / x, weighted by the
# contribution to x Phi(x), with the smallest maximum error (Lawson's iteration, |x| <= 12): 7e-8, or 6e-7 in float32. P
# grows towards both sides, so beyond the fit LOGISTIC gives 0 and 1. It needs three operators fewer than formula 7.1.26
# of Abramowitz and Stegun with its ABS, DIV and EXP, and is more accurate.
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
MAX_EXPONENT_BITS = 4  # of an integer exponent that is computed by multiplication: at most six MUL


@dataclass(slots=True)
class Formula:
    """Collects float32 operators whose tensors have one shape; each call takes tensors and returns the tensor of its
    result.
    """

    draft: Draft
    scope: str
    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    operators: list[Operator] = field(default_factory=list)

    def number(self, value: float) -> int:
        """Return a scalar constant."""
        kind = np.float32 if self.dtype is DType.FLOAT32 else np.int32
        return self.draft.constant(f"{self.scope}constant", np.asarray(value, kind))

    def __call__(self, code: str, *inputs: int | float, dtype: DType | None = None) -> int:
        """Add one operator of tensors (int) and numbers (float)."""
        tensors = [self.number(item) if isinstance(item, float) else item for item in inputs]
        result = self.draft.tensor(f"{self.scope}{code.lower()}", self.shape, dtype or self.dtype)
        self.operators.append(self.draft.make(code, tensors, [result]))
        return result

    def truth(self, code: str, *inputs: int | float) -> int:
        """Return 1 where a comparison of tensors and numbers holds, else 0."""
        condition = self(code, *inputs, dtype=DType.BOOL)
        result = self.draft.tensor(f"{self.scope}{code.lower()}_cast", self.shape, self.dtype)
        new = self.draft.make("CAST", [condition], [result], in_data_type="BOOL", out_data_type=self.dtype.name)
        self.operators.append(new)
        return result

    def polynomial(self, x: int, coefficients: tuple[float, ...]) -> int:
        """Return c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
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
    """Use the exponent or the base if it is constant; for two tensors, EXP and LOG would be valid only above 0."""
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
    if exponent == int(exponent) and 0 < abs(exponent) < 2**MAX_EXPONENT_BITS:
        result = _integer_power(formula, x, int(abs(exponent)))
        return result if exponent > 0 else formula("DIV", 1.0, result)
    if exponent == int(exponent):
        return None
    return formula("EXP", formula("MUL", formula("LOG", x), exponent))


def _integer_power(formula: Formula, x: int, exponent: int) -> int:
    """Multiply by repeated squaring: at most twice as many MUL as the exponent has bits."""
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
# In int32, whose operators wrap around as well.
INT32_EXPANSIONS: dict[str, Callable[[Formula, Operator], int | None]] = {
    "ABS": lambda formula, operator: formula("MAXIMUM", operator.inputs[0], formula("SUB", 0.0, operator.inputs[0])),
    "NEG": lambda formula, operator: formula("SUB", 0.0, operator.inputs[0]),
    "SIGN": _sign,
    "SQUARE": lambda formula, operator: formula("MUL", operator.inputs[0], operator.inputs[0]),
}
EXPANDED = frozenset(EXPANSIONS)
BY_TYPE = {DType.FLOAT32: EXPANSIONS, DType.INT32: INT32_EXPANSIONS}


def expand(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Replace an operator by a formula."""
    result = draft.tensors[operator.outputs[0]]
    make = BY_TYPE.get(result.dtype, {}).get(operator.code)
    if make is None:
        return None
    formula = Formula(draft, scope_of(draft, operator), result.shape, result.dtype)
    value = make(formula, operator)
    if value is None or not all(context.is_supported(draft, step) for step in formula.operators):
        return None
    last = formula.operators[-1]
    draft.replace(operator, *formula.operators[:-1], replace(last, outputs=operator.outputs))
    return applied("expansion", draft, operator)


EXPAND = Rewrite(
    "expansion",
    "replaced by simpler operators that compute the same values: TensorFlow Lite Micro does not support this operator",
    expand,
)


# a and b, fitted for the smallest maximum error for real x: 2.7e-4 (with tanh's form: 4.7e-4).
SHORT_FORM = (1.60031417, 0.06940178)
LARGEST = 32767
LOGISTIC_SCALE = 1 / 32768  # what the int16 kernel writes
# Beyond these, LOGISTIC is 0 or 1 in 16 bits, so that larger values may saturate.
LARGEST_ARGUMENT, LARGEST_SQUARE = 12.0, 36.0
RANGE = 16.0  # in float32: beyond it GELU and its approximation agree


def approximate(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Approximate GELU, if the user allows it."""
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
    error = np.max(np.abs(_approximation(values, SHORT_FORM) - apply(operator, values)))
    return _replace(draft, operator, context, formula.operators, float(error))


def _approximation(x: Reals, form: tuple[float, float]) -> Reals:
    with np.errstate(over="ignore"):
        return np.asarray(x / (1 + np.exp(-x * (form[0] + form[1] * x * x))))


def _replace(draft: Draft, operator: Operator, context: Context, new: list[Operator], error: float) -> Applied | None:
    if not all(context.is_supported(draft, step) for step in new):
        return None
    done = applied("approximation", draft, operator, error)
    draft.replace(operator, *new[:-1], replace(new[-1], outputs=operator.outputs))
    return done


class _Int16:
    """Collects int16 operators, each with its results for every quantized value of x.

    The results are those of the kernels, except for rounding, which differs by at most one quantization step.
    """

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
        exact = apply(new, *(self.values[tensor] for tensor in inputs))
        self.values[result] = _rounded(exact, self.draft.tensors[result])
        return result


def _scaled(scale: float) -> Quantization:
    return Quantization((float(np.float32(scale)),), (0,), 0)


def _rounded(values: Reals, tensor: Tensor) -> Reals:
    return dequantized(quantized(values, tensor), tensor)


def _in_int16(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Choose scales from the range of x: as fine as it allows, and no coarser than the resolution of LOGISTIC."""
    x, result = operator.inputs[0], draft.tensors[operator.outputs[0]]
    a, b = TANH_FORM if _is_tanh(operator) else SHORT_FORM
    formula = _Int16(draft, scope_of(draft, operator), result.shape)
    formula.values[x] = dequantized(np.arange(-32768, 32768), draft.tensors[x])
    largest = 32768 * scale_and_zero_point(draft.tensors[x])[0]
    square = min(largest**2, LARGEST_SQUARE)
    squared = formula("MUL", x, x, scale=square / LARGEST)
    cubic = formula("MUL", squared, formula.number(b), scale=b * square / LARGEST)
    slope = formula("ADD", cubic, formula.number(a), scale=(a + b * square) / LARGEST)
    max_argument = min(largest * (a + b * square), LARGEST_ARGUMENT)
    argument = formula("MUL", x, slope, scale=max_argument / LARGEST)
    share = formula("LOGISTIC", argument, scale=LOGISTIC_SCALE)
    product = formula("MUL", x, share, scale=scale_and_zero_point(result)[0])
    exact = apply(operator, formula.values[x])
    lowest, highest = (_rounded(np.asarray(end * 1e9), result) for end in (-1.0, 1.0))
    error = np.max(np.abs(formula.values[product] - np.clip(exact, lowest, highest)))
    return _replace(draft, operator, context, formula.operators, float(error))


APPROXIMATE = Rewrite(
    "approximation",
    "approximated by x * LOGISTIC(x * (a + b * x^2))",
    approximate,
    frozenset({"GELU"}),
)


# Operators besides elementwise ones whose float32 kernels have no weights, which would be four times as large.
WITHOUT_WEIGHTS = frozenset(
    """
    ADD_N ARG_MAX ARG_MIN BATCH_TO_SPACE_ND CUMSUM DEPTH_TO_SPACE GATHER GATHER_ND L2_NORMALIZATION L2_POOL_2D
    LOG_SOFTMAX MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SOFTMAX SPACE_TO_BATCH_ND
    SPACE_TO_DEPTH SUM
    """.split()
)
CODES = (frozenset(FUNCTIONS) | {"GELU", "LEAKY_RELU"} | WITHOUT_WEIGHTS) - CONVERSIONS - {"CAST"}


class _Island:
    """The operators of an island so far, and the float32 tensor of each quantized one."""

    def __init__(self, draft: Draft, scope: str) -> None:
        self.draft = draft
        self.scope = scope
        self.float_tensors: dict[int, int] = {}
        self.operators: list[Operator] = []

    def read(self, index: int) -> int:
        """Return the float32 tensor for an input of the island; a tensor without a scale is returned unchanged."""
        if index < 0 or not is_quantized(self.draft.tensors[index]):
            return self.float_tensors.get(index, index)
        if index not in self.float_tensors:
            self.float_tensors[index] = self._read(index, self.draft.tensors[index])
        return self.float_tensors[index]

    def _read(self, index: int, tensor: Tensor) -> int:
        values = self.draft.values(index)
        if values is not None:
            return self.draft.constant(tensor.name, dequantized(values, tensor).astype(np.float32))
        producer = self.draft.producer(index)
        if producer is not None and producer.code == "QUANTIZE":
            before = producer.inputs[0]
            if self.draft.tensors[before].dtype is DType.FLOAT32:  # this is the end of another island
                return before
        float_tensor = self.draft.tensor(f"{self.scope}real", tensor.shape, DType.FLOAT32)
        self.operators.append(self.draft.make("DEQUANTIZE", [index], [float_tensor], version=2))
        return float_tensor

    def write(self, index: int) -> int:
        """Return a new tensor for a result of the island: float32 for a quantized one."""
        tensor = self.draft.tensors[index]
        dtype = DType.FLOAT32 if is_quantized(tensor) else tensor.dtype
        self.float_tensors[index] = self.draft.tensor(tensor.name, tensor.shape, dtype)
        return self.float_tensors[index]

    def compute(self, operator: Operator) -> None:
        """Add the operator in float32."""
        if operator.code in CONVERSIONS:
            self.float_tensors[operator.outputs[0]] = self.read(operator.inputs[0])
            return
        inputs = [self.read(index) for index in operator.inputs]
        new = self.draft.make(operator.code, inputs, [self.write(index) for index in operator.outputs])
        self.operators.append(replace(new, options=operator.options))

    def finish(self, index: int) -> None:
        """Write a result to the tensor that others read; readers that dequantize it read the float32 tensor instead."""
        tensor, float_tensor = self.draft.tensors[index], self.float_tensors[index]
        if tensor.dtype is DType.FLOAT32 or not is_quantized(tensor):
            self._rename(index, float_tensor)
            return
        self.operators.append(self.draft.make("QUANTIZE", [float_tensor], [index]))
        for reader in self.draft.consumers(index):
            if reader.code == "DEQUANTIZE" and reader.outputs[0] not in self.draft.outputs:
                self.draft.redirect(reader.outputs[0], float_tensor)

    def _rename(self, index: int, float_tensor: int) -> None:
        """Let the new operators write the old tensor directly, which has no scale."""
        self.operators = [
            replace(operator, outputs=tuple(index if output == float_tensor else output for output in operator.outputs))
            for operator in self.operators
        ]

    def is_supported(self, context: Context) -> bool:
        """Return whether the runtime supports all operators, or will after expansion."""
        return all(
            operator.code in EXPANDED or context.is_supported(self.draft, operator) for operator in self.operators
        )


def in_float(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Compute an unsupported operator, or the chain around it, in float32."""
    if operator.code not in CODES or not _has_quantized_operand(draft, operator):
        return None
    region = largest_region(draft, operator, _is_end)
    if region is None or not region.closed:
        region = None
    return (region and _convert_region(draft, region, operator, context)) or _convert_one(draft, operator, context)


def _has_quantized_operand(draft: Draft, operator: Operator) -> bool:
    """Return whether the operator has a quantized operand, which an island can convert."""
    return any(index >= 0 and is_quantized(draft.tensors[index]) for index in (*operator.inputs, *operator.outputs))


def _is_end(tensor: Tensor) -> bool:
    return is_quantized(tensor) and not tensor.is_variable


def _convert_region(draft: Draft, region: Region, operator: Operator, context: Context) -> Applied | None:
    island = _Island(draft, scope_of(draft, operator))
    for member in region.operators:
        island.compute(member)
    return _insert(draft, island, region.operators, (region.result,), operator, context, region)


def _convert_one(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    island = _Island(draft, scope_of(draft, operator))
    island.compute(operator)
    return _insert(draft, island, (operator,), operator.outputs, operator, context, None)


def _insert(
    draft: Draft,
    island: _Island,
    old: tuple[Operator, ...],
    results: tuple[int, ...],
    operator: Operator,
    context: Context,
    region: Region | None,
) -> Applied | None:
    """Put the island in the place of the last old operator, if the runtime supports all of it."""
    if not island.is_supported(context):
        return None
    done = applied("float island", draft, operator)
    for index in results:
        island.finish(index)
    current = draft.operator(old[-1].index)
    assert current is not None
    draft.replace(current, *island.operators)
    if region is not None:
        remove_unread(draft, region)
    return done


IN_FLOAT = Rewrite(
    "float island",
    "kept in float32, between DEQUANTIZE and QUANTIZE: TensorFlow Lite Micro has no integer kernel for this operator",
    in_float,
)
