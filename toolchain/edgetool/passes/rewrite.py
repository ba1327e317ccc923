"""What a rewrite is: a rule that turns one operator into an equal graph of others, built step by step.

Builds what takes the place of an operator, one step after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Operator, OptionValue, Quantization
from edgetool.operators.legality import supports
from edgetool.target.types import Runtime


@dataclass(frozen=True, slots=True)
class Context:
    """What rules may know besides the graph: the runtime that the result is for, and what the user allows."""

    runtime: Runtime
    allow_approximation: bool = False

    def legal(self, draft: Draft, operator: Operator) -> bool:
        """Whether the runtime has the operator for tensors of these types, ranks and scales."""
        return supports(operator, draft, self.runtime)


@dataclass(frozen=True, slots=True)
class Applied:
    """A rewrite that took place.

    operator_label: what the operator was ("TILE"); tensor_names: of its outputs, then of its inputs, which tell its
    layer; error: the largest difference that an approximation makes, None for what is exact.
    """

    rewrite: str
    operator_label: str
    tensor_names: tuple[str, ...]
    error: float | None = None


# Changes the draft and tells what it did; None where it does not apply, with the draft as it was.
Apply = Callable[[Draft, Operator, Context], Applied | None]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule.

    name: of this kind of rewrite, short and unique; says: what became of the operators and why, as the rest of a
    sentence that starts with them ("became CONCATENATION: TensorFlow Lite Micro has no TILE"), "" for what is mere
    tidying and not worth telling.
    codes: the operators that it looks at; none for all of them.
    wanted: it applies to legal operators too, because what it leaves out is never of use.
    """

    name: str
    says: str
    apply: Apply
    codes: frozenset[str] = field(default=frozenset())
    wanted: bool = False


def applied(rewrite: str, draft: Draft, operator: Operator, error: float | None = None) -> Applied:
    """The record of a rewrite of that operator."""
    tensors = [tensor for tensor in (*operator.outputs, *operator.inputs) if tensor >= 0]
    return Applied(rewrite, operator.label, tuple(draft.tensors[tensor].name for tensor in tensors), error)


class Steps:
    """New operators in the place of one. Nothing changes in the graph until `finish`."""

    def __init__(self, draft: Draft, operator: Operator) -> None:
        self.draft = draft
        self.operator = operator
        self.made: list[Operator] = []
        names = [draft.tensors[tensor].name for tensor in (*operator.outputs, *operator.inputs) if tensor >= 0]
        self._name = next(filter(None, names), operator.label)

    def step(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        *,
        like: int,
        dtype: DType | None = None,
        version: int = 1,
        **option_fields: OptionValue,
    ) -> int:
        """The new tensor that an operator makes of `inputs`: with the type and scale of the tensor `like`.

        With `dtype`, it is of that type and has no scale.
        """
        of = self.draft.tensors[like]
        scale = of.quantization if dtype is None else None
        return self.typed(code, inputs, shape, dtype or of.dtype, scale, version=version, **option_fields)

    def typed(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        dtype: DType,
        quantization: Quantization | None,
        *,
        version: int = 1,
        **option_fields: OptionValue,
    ) -> int:
        """The new tensor that an operator makes of `inputs`, with a type and scale of its own."""
        made = self.draft.tensor(f"{self._name}/{code.lower()}", shape, dtype, quantization)
        self.made.append(self.draft.make(code, inputs, [made], version, **option_fields))
        return made

    def again(self, inputs: Sequence[int], quantization: Quantization | None = None) -> list[int]:
        """New tensors that the operator itself makes of other inputs: in that scale, without one in its own."""
        outputs = [self.draft.tensors[output] for output in self.operator.outputs]
        made = [
            self.draft.tensor(f"{output.name}/{self.operator.code.lower()}", output.shape, output.dtype, scale)
            for output in outputs
            for scale in [quantization or output.quantization]
        ]
        self.made.append(self.draft.copy(self.operator, inputs, made))
        return made

    def constant(self, values: npt.ArrayLike, quantization: Quantization | None = None) -> int:
        """A constant; integers that come without a type are int32."""
        given = np.asarray(values)
        dtype = DType.INT32 if given.dtype == np.int64 and not isinstance(values, np.ndarray) else None
        return self.draft.constant(f"{self._name}/constant", given, quantization, dtype)

    def reshape(self, tensor: int, shape: Sequence[int]) -> int:
        """The tensor in that shape: itself where it has it, or one that a RESHAPE before this place has made of it."""
        sizes = tuple(int(size) for size in shape)
        if self.draft.tensors[tensor].shape == sizes:
            return tensor
        if (known := self._known(tensor, sizes)) is not None:
            return known
        return self.step("RESHAPE", self._reshape_inputs(tensor, sizes), sizes, like=tensor, new_shape=sizes)

    def cast(self, tensor: int, dtype: DType) -> int:
        """The tensor's values in another type, without a scale."""
        of = self.draft.tensors[tensor]
        given, made = of.dtype.name, dtype.name
        return self.step("CAST", [tensor], of.shape, like=tensor, dtype=dtype, in_data_type=given, out_data_type=made)

    def _known(self, tensor: int, shape: tuple[int, ...]) -> int | None:
        """A tensor of that shape that holds the same: what this one was made of, or what was made of it."""
        draft = self.draft
        if draft.tensors[tensor].is_variable:
            return None
        before = draft.producer(tensor)
        source = before.inputs[0] if before is not None and before.code == "RESHAPE" else -1
        if source >= 0 and self._same(source, tensor, shape):
            return source
        for reader in draft.consumers(tensor):
            is_reshape = reader.code == "RESHAPE" and reader.inputs[0] == tensor
            if is_reshape and self._same(reader.outputs[0], tensor, shape) and draft.is_before(reader, self.operator):
                return reader.outputs[0]
        return None

    def _same(self, other: int, tensor: int, shape: tuple[int, ...]) -> bool:
        it, this = self.draft.tensors[other], self.draft.tensors[tensor]
        return it.shape == shape and it.quantization == this.quantization and not it.is_variable

    def _reshape_inputs(self, tensor: int, shape: tuple[int, ...]) -> list[int]:
        """A scalar's shape is in the options alone: no file holds a constant without elements."""
        return [tensor, self.constant(list(shape))] if shape else [tensor]

    def finish(self, rewrite: str, *results: int, error: float | None = None) -> Applied:
        """Put the steps in the operator's place; `results` are what its outputs are now, each of the same size.

        An output keeps its index, name and scale.
        """
        for result, output in zip(results, self.operator.outputs, strict=True):
            wanted = self.draft.tensors[output].shape
            source = self.draft.tensors[result]
            maker = next((i for i, step in enumerate(self.made) if result in step.outputs), None)
            if source.shape != wanted or maker is None:
                inputs = self._reshape_inputs(result, wanted)
                self.made.append(self.draft.make("RESHAPE", inputs, [output], new_shape=wanted))
                continue
            for i, step in enumerate(self.made):
                swap = {result: output}
                self.made[i] = replace(
                    step,
                    inputs=tuple(swap.get(tensor, tensor) for tensor in step.inputs),
                    outputs=tuple(swap.get(tensor, tensor) for tensor in step.outputs),
                )
        record = applied(rewrite, self.draft, self.operator, error)
        self.draft.replace(self.operator, *self.made)
        return record
