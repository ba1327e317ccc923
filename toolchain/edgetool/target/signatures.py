"""Type signatures of a runtime's kernels: element types by operand, and which quantizations must be equal."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgetool.errors import did_you_mean
from edgetool.model.types import DType
from edgetool.target.toml import Section

SAME_AS = re.compile(r"=(\d?)")
REPEATED = "..."
DTYPES = {dtype.name.lower(): dtype for dtype in DType}


@dataclass(frozen=True, slots=True)
class OperandTypes:
    """The types of an operand: one of `types`, or (same_as) the type of an input; any type if both are empty."""

    types: tuple[DType, ...] = ()
    same_as: int | None = None

    def accepts(self, dtype: DType, inputs: Sequence[DType | None]) -> bool:
        """Return whether the operand can have this type; inputs: the types of the inputs, None for an omitted one."""
        if self.same_as is None:
            return not self.types or dtype in self.types
        return self.same_as < len(inputs) and inputs[self.same_as] in (dtype, None)


@dataclass(frozen=True, slots=True)
class TypeSignature:
    """One combination of types that a kernel supports. The last operand may be repeated any number of times.

    Operands beyond those listed, and omitted inputs, can have any type.
    """

    inputs: tuple[OperandTypes, ...]
    outputs: tuple[OperandTypes, ...]
    repeats_inputs: bool = False
    repeats_outputs: bool = False

    def accepts(self, inputs: Sequence[DType | None], outputs: Sequence[DType | None]) -> bool:
        """Return whether the kernel supports tensors of these types; None for an omitted one."""
        return self.first_mismatch(inputs, outputs) is None

    def first_mismatch(self, inputs: Sequence[DType | None], outputs: Sequence[DType | None]) -> int | None:
        """Return the position of the first operand of a wrong type, inputs before outputs; None if all are right."""
        operands = [*_expand_operands(self.inputs, len(inputs), self.repeats_inputs)]
        operands += _expand_operands(self.outputs, len(outputs), self.repeats_outputs)
        for position, (operand, dtype) in enumerate(zip(operands, (*inputs, *outputs), strict=True)):
            if dtype is not None and not operand.accepts(dtype, inputs):
                return position
        return None


@dataclass(frozen=True, slots=True)
class EqualScales:
    """A kernel that uses quantized values unchanged: operands of the output's type must share its quantization.

    tolerance: the accepted difference of scales, relative to the output's. refuses: whether the kernel fails beyond it.
    """

    types: tuple[DType, ...]
    tolerance: float
    refuses: bool


@dataclass(frozen=True, slots=True)
class FixedScale:
    """A kernel whose output always has the same scale and zero point, whatever the tensor's are."""

    dtype: DType
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class KernelTypes:
    """The type signatures and scale rules of an operator's kernels, in the reference set and in CMSIS-NN."""

    operator: str
    reference: tuple[TypeSignature, ...]
    cmsis_nn: tuple[TypeSignature, ...]
    equal_scales: tuple[EqualScales, ...] = ()
    fixed_scales: tuple[FixedScale, ...] = ()


# A scale that differs by this factor changes no int8 value by half a step.
IGNORED_TOLERANCE = 1 / 512


def read_kernel_types(section: Section, operators: Collection[str]) -> tuple[KernelTypes, ...]:
    """Read the tables [types] and [scales] of a runtime; problems are noted in the section."""
    if not section.has("types"):
        return ()
    tables = section.section("types")
    reference = _read_signatures(tables, "reference", operators)
    cmsis_nn = _read_signatures(tables, "cmsis-nn", operators)
    tables.finish()
    scales = dict(section.entries("scales", required=False))
    for name in {*cmsis_nn, *scales} - set(reference):
        section.note(f"types.{name}", "has no entry in types.reference")
    kernel_types = []
    for name, signatures in reference.items():
        equal, fixed = _parse_scale_rules(section, f"scales.{name}", scales.get(name, ""))
        kernel_types.append(KernelTypes(name, signatures, cmsis_nn.get(name, signatures), equal, fixed))
    return tuple(kernel_types)


def parse_signature(text: str) -> TypeSignature:
    """Parse a signature such as "float32|int8 = int32 > =". Raises ValueError with the reason.

    Operands are separated by blanks, inputs from outputs by ">"; "=" is the first input's type, "=1" the second's;
    "*" is any type; "..." after the last operand of either side repeats it.
    """
    inputs, arrow, outputs = text.partition(">")
    if not arrow or ">" in outputs:
        raise ValueError("must have exactly one '>' between inputs and outputs")
    input_types, repeats_inputs = _parse_side(inputs)
    output_types, repeats_outputs = _parse_side(outputs)
    for operand in (*input_types, *output_types):
        if operand.same_as is not None and operand.same_as >= len(input_types):
            raise ValueError(f"refers to input {operand.same_as}, which does not exist")
    return TypeSignature(input_types, output_types, repeats_inputs, repeats_outputs)


def _parse_side(text: str) -> tuple[tuple[OperandTypes, ...], bool]:
    words = text.split()
    repeats = bool(words) and words[-1].endswith(REPEATED)
    if repeats:
        words[-1] = words[-1].removesuffix(REPEATED)
    return tuple(_parse_operand(word) for word in words), repeats


def _parse_operand(word: str) -> OperandTypes:
    if word == "*":
        return OperandTypes()
    if same := SAME_AS.fullmatch(word):
        return OperandTypes(same_as=int(same[1] or 0))
    return OperandTypes(tuple(_parse_dtype(name) for name in word.split("|")))


def _parse_dtype(name: str) -> DType:
    if name not in DTYPES:
        raise ValueError(
            f"{name[:80]!r} is not a valid type; {did_you_mean(name, DTYPES) or 'for example, int8 or float32'}"
        )
    return DTYPES[name]


def _expand_operands(listed: tuple[OperandTypes, ...], count: int, repeats: bool) -> list[OperandTypes]:
    """Return the operands for `count` tensors: the last one repeated if `repeats`, any type for others."""
    filler = listed[-1] if repeats and listed else OperandTypes()
    return [*listed[:count], *[filler] * (count - len(listed))]


def _read_signatures(
    section: Section, kernels: str, operators: Collection[str]
) -> dict[str, tuple[TypeSignature, ...]]:
    signatures = {}
    for name, text in section.entries(kernels, required=kernels == "reference"):
        if name not in operators:
            section.note(f"{kernels}.{name}", "is not an operator of this runtime", did_you_mean(name, operators))
            continue
        try:
            signatures[name] = tuple(parse_signature(part) for part in text.split(","))
        except ValueError as problem:
            section.note(f"{kernels}.{name}", str(problem))
    return signatures


def _parse_scale_rules(section: Section, key: str, text: str) -> tuple[tuple[EqualScales, ...], tuple[FixedScale, ...]]:
    """Parse rules such as "int8: equal, int16: ignores" or "int8: writes 0.0078125 0"."""
    equal, fixed = [], []
    for part in text.split(",") if text else ():
        names, _, rule = part.partition(":")
        try:
            types = tuple(_parse_dtype(name) for name in names.split())
            match rule.split():
                case ["equal"]:
                    equal.append(EqualScales(types, 0.0, refuses=True))
                case ["ignores"]:
                    equal.append(EqualScales(types, IGNORED_TOLERANCE, refuses=False))
                case ["writes", scale, zero_point] if len(types) == 1:
                    fixed.append(FixedScale(types[0], _parse_positive(scale), int(zero_point)))
                case _:
                    section.note(key, f"{part.strip()[:80]!r} is not a valid rule", "for example, 'int8: equal'")
        except ValueError as problem:
            section.note(key, str(problem))
    return tuple(equal), tuple(fixed)


def _parse_positive(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{text[:80]!r} is not a positive number")
    return value
