"""What a rewrite is: a rule that turns one operator into an equal graph of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edgetool.model.edit import Draft
from edgetool.model.types import Operator
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
