"""Rewrite rules, each of which replaces one operator with an equivalent graph, and the builder of the new operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Operator, OptionValue, Quantization
from edgetool.operators.legality import supports
from edgetool.target.types import Runtime

# Activation functions as ranges of real values.
ACTIVATIONS: Mapping[str, tuple[float, float]] = {
    "NONE": (-inf, inf),
    "RELU": (0.0, inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def fused_activation(operator: Operator) -> str:
    """Return the fused activation; NONE for operators that cannot have any."""
    fields = dict(operator.options.fields) if operator.options is not None else {}
    return str(fields.get("fused_activation_function", "NONE"))


@dataclass(frozen=True, slots=True)
class Context:
    """The input of rules besides the graph: the runtime that the result is for, and what the user allows."""

    runtime: Runtime
    allow_approximation: bool = False

    def is_supported(self, draft: Draft, operator: Operator) -> bool:
        """Return whether the runtime supports the operator for tensors of these types, ranks and scales."""
        return supports(operator, draft, self.runtime)


@dataclass(frozen=True, slots=True)
class Applied:
    """A rewrite that took place.

    operator_label: the replaced operator ("TILE"); tensor_names: the names of its outputs, then of its inputs, which
    identify its layer; error: the maximum difference of an approximation, None if the rewrite is exact.
    """

    rewrite: str
    operator_label: str
    tensor_names: tuple[str, ...]
    error: float | None = None


# Changes the draft and returns the record; returns None, with the draft unchanged, if the rule does not apply.
ApplyRewrite = Callable[[Draft, Operator, Context], Applied | None]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule.

    name: the name of this kind of rewrite, short and unique. summary: what happened to the operators and why, as
    the rest of a sentence that starts with them ("became CONCATENATION: TensorFlow Lite Micro has no TILE"), "" for
    mere tidying that is not reported. codes: the operators that it applies to; empty for all of them. always: it
    applies to supported operators too, because what it removes is never of use.
    """

    name: str
    summary: str
    apply: ApplyRewrite
    codes: frozenset[str] = field(default=frozenset())
    always: bool = False


def applied(rewrite: str, draft: Draft, operator: Operator, error: float | None = None) -> Applied:
    """Return the record of a rewrite of that operator."""
    tensors = [tensor for tensor in (*operator.outputs, *operator.inputs) if tensor >= 0]
    return Applied(rewrite, operator.label, tuple(draft.tensors[tensor].name for tensor in tensors), error)


class OperatorBuilder:
    """Builds the operators that replace one. The graph does not change until `finish`."""

    def __init__(self, draft: Draft, operator: Operator) -> None:
        self.draft = draft
        self.operator = operator
        self.operators: list[Operator] = []
        names = [draft.tensors[tensor].name for tensor in (*operator.outputs, *operator.inputs) if tensor >= 0]
        self._name = next(filter(None, names), operator.label)

    def add(
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
        """Add an operator; return its output, which has the type and scale of the tensor `like`.

        With `dtype`, the output has that type and no scale.
        """
        source = self.draft.tensors[like]
        scale = source.quantization if dtype is None else None
        return self.add_typed(code, inputs, shape, dtype or source.dtype, scale, version=version, **option_fields)

    def add_typed(
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
        """Add an operator; return its output, which has this type and scale."""
        output = self.draft.tensor(f"{self._name}/{code.lower()}", shape, dtype, quantization)
        self.operators.append(self.draft.make(code, inputs, [output], version, **option_fields))
        return output

    def repeat(self, inputs: Sequence[int], quantization: Quantization | None = None) -> list[int]:
        """Add the replaced operator itself with other inputs; return its outputs, quantized as specified if given."""
        old_outputs = [self.draft.tensors[output] for output in self.operator.outputs]
        outputs = [
            self.draft.tensor(f"{output.name}/{self.operator.code.lower()}", output.shape, output.dtype, scale)
            for output in old_outputs
            for scale in [quantization or output.quantization]
        ]
        self.operators.append(self.draft.copy(self.operator, inputs, outputs))
        return outputs

    def constant(self, values: npt.ArrayLike, quantization: Quantization | None = None) -> int:
        """Return a new constant; Python integers become int32."""
        array = np.asarray(values)
        dtype = DType.INT32 if array.dtype == np.int64 and not isinstance(values, np.ndarray) else None
        return self.draft.constant(f"{self._name}/constant", array, quantization, dtype)

    def reshape(self, tensor: int, shape: Sequence[int]) -> int:
        """Return the tensor in that shape: itself, the result of an earlier RESHAPE, or that of a new one."""
        sizes = tuple(int(size) for size in shape)
        if self.draft.tensors[tensor].shape == sizes:
            return tensor
        if (existing := self._existing_reshape(tensor, sizes)) is not None:
            return existing
        return self.add("RESHAPE", self._reshape_inputs(tensor, sizes), sizes, like=tensor, new_shape=sizes)

    def cast(self, tensor: int, dtype: DType) -> int:
        """Return the tensor's values in another type, without a scale."""
        source = self.draft.tensors[tensor]
        old, new = source.dtype.name, dtype.name
        return self.add("CAST", [tensor], source.shape, like=tensor, dtype=dtype, in_data_type=old, out_data_type=new)

    def _existing_reshape(self, tensor: int, shape: tuple[int, ...]) -> int | None:
        """Return a tensor of that shape with the same contents, from which this one was reshaped or vice versa."""
        draft = self.draft
        if draft.tensors[tensor].is_variable:
            return None
        before = draft.producer(tensor)
        source = before.inputs[0] if before is not None and before.code == "RESHAPE" else -1
        if source >= 0 and self._is_reshaped(source, tensor, shape):
            return source
        for reader in draft.consumers(tensor):
            is_reshape = reader.code == "RESHAPE" and reader.inputs[0] == tensor
            if (
                is_reshape
                and self._is_reshaped(reader.outputs[0], tensor, shape)
                and draft.is_before(reader, self.operator)
            ):
                return reader.outputs[0]
        return None

    def _is_reshaped(self, candidate: int, tensor: int, shape: tuple[int, ...]) -> bool:
        other = self.draft.tensors[candidate]
        same_scale = other.quantization == self.draft.tensors[tensor].quantization
        return other.shape == shape and same_scale and not other.is_variable

    def _reshape_inputs(self, tensor: int, shape: tuple[int, ...]) -> list[int]:
        """Return the inputs of a RESHAPE; a scalar's shape is only in the options, because constants are
        never empty.
        """
        return [tensor, self.constant(list(shape))] if shape else [tensor]

    def is_supported(self, context: Context) -> bool:
        """Return whether the runtime supports all new operators."""
        return all(context.is_supported(self.draft, operator) for operator in self.operators)

    def finish(self, rewrite: str, *results: int, error: float | None = None) -> Applied:
        """Replace the operator; `results` are the tensors that replace its outputs, each of the same size.

        An output keeps its index, name and scale.
        """
        for result, output in zip(results, self.operator.outputs, strict=True):
            shape = self.draft.tensors[output].shape
            source = self.draft.tensors[result]
            is_new = any(result in new.outputs for new in self.operators)
            if source.shape != shape or not is_new:
                inputs = self._reshape_inputs(result, shape)
                self.operators.append(self.draft.make("RESHAPE", inputs, [output], new_shape=shape))
                continue
            for i, new in enumerate(self.operators):
                swap = {result: output}
                self.operators[i] = replace(
                    new,
                    inputs=tuple(swap.get(tensor, tensor) for tensor in new.inputs),
                    outputs=tuple(swap.get(tensor, tensor) for tensor in new.outputs),
                )
        record = applied(rewrite, self.draft, self.operator, error)
        self.draft.replace(self.operator, *self.operators)
        return record
