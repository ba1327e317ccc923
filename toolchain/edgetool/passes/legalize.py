"""Legalization: rewrite a model until the runtime supports every operator, if an equal graph exists.

The rules are listed in the order in which they are tried: first those that move data or choose between values, then
those for activation functions and other elementwise operators, the best first. Operators whose results are not used are
removed. For the user, every kind of rewrite is described in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgetool.errors import InternalError
from edgetool.model.draft import Draft
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.scopes import layer_of
from edgetool.model.types import DType, Model, Operator
from edgetool.passes import expansions, folding, kernel_forms, lookup, movement, selection, slices
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.validation import is_consistent, is_in_order
from edgetool.target.types import Runtime

# Operators with side effects.
SIDE_EFFECTS = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "CALL", "CUSTOM", "HASHTABLE_IMPORT", "IF", "WHILE"})


def is_dead(draft: Draft, operator: Operator) -> bool:
    """Return whether the operator can be removed: its outputs are not read, and it changes no state."""
    if operator.code in SIDE_EFFECTS or not operator.outputs:
        return False
    for output in operator.outputs:
        if output in draft.outputs or draft.consumers(output) or draft.tensors[output].dtype is DType.RESOURCE:
            return False
    return not any(draft.tensors[tensor].is_variable for tensor in operator.inputs if tensor >= 0)


def dead_operators(draft: Draft) -> list[Operator]:
    """Return all operators that can be removed now; afterwards, there may be others."""
    return [operator for operator in draft.operators if is_dead(draft, operator)]


MAX_LAYERS = 5


def sentences(applied: Iterable[Applied], rules: Iterable[Rewrite], layers: Mapping[str, object]) -> tuple[str, ...]:
    """Return sentences such as "2 TILE (up_sampling1d, repeat_vector) were replaced by CONCATENATION: ...".

    The sentences are in the order in which the kinds first took place, with one for each operator that a rule replaces.
    Rules without a summary are not reported. layers: the scopes of the Keras layers that may be named.
    """
    summary = {rule.name: rule.summary for rule in rules}
    groups: dict[tuple[str, str], list[Applied]] = {}
    for change in applied:
        groups.setdefault((change.rewrite, change.operator_label), []).append(change)
    return tuple(
        _sentence(summary[rewrite], label, group, layers)
        for (rewrite, label), group in groups.items()
        if summary[rewrite]
    )


def _sentence(summary: str, label: str, group: list[Applied], layer_scopes: Mapping[str, object]) -> str:
    errors = [change.error for change in group if change.error is not None]
    error = f", with an error of up to {max(errors):.2g}" if errors else ""
    layers = list(dict.fromkeys(layer for change in group if (layer := _layer(change, layer_scopes)) is not None))
    if len(layers) > MAX_LAYERS:
        layers = [*layers[:MAX_LAYERS], f"{len(layers) - MAX_LAYERS} more"]
    subject = f"{len(group)} {label}" if len(group) > 1 else label
    return (
        subject
        + (f" ({', '.join(layers)})" if layers else "")
        + f" {'were' if len(group) > 1 else 'was'} {summary}{error}"
    )


def _layer(change: Applied, layer_scopes: Mapping[str, object]) -> str | None:
    """Return the layer of the first tensor whose name contains one."""
    return next((layer for name in change.tensor_names if (layer := layer_of(name, layer_scopes)) is not None), None)


STRUCTURE_RULES = (
    *folding.FOLDING_RULES,
    *movement.RESHAPE_RULES,
    *folding.FUSING_RULES,
    *kernel_forms.COPY_RULES,
    *movement.UPSAMPLING_RULES,
    *movement.REPEAT_RULES,
    *movement.JOIN_RULES,
    *slices.RULES,
    *movement.TRANSPOSE_RULES,
    *selection.CHOICE_RULES,
    *kernel_forms.DENSE_RULES,
    *kernel_forms.BIAS_RULES,
    *selection.RANKING_RULES,
    *kernel_forms.SCALE_RULES,
)


ELEMENTWISE_RULES = (lookup.LOOK_UP, lookup.SHORTEN, expansions.APPROXIMATE, expansions.IN_FLOAT, expansions.EXPAND)


RULES: tuple[Rewrite, ...] = (*STRUCTURE_RULES, *ELEMENTWISE_RULES)
# Each rewrite leaves fewer unsupported operators or simpler ones; this is far more rounds than any chain of them needs.
MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Legalized:
    """The model, and the rewrites in the order in which they took place; if there are none, it is the input model."""

    model: Model
    applied: tuple[Applied, ...]

    def sentences(self, layers: Mapping[str, object]) -> tuple[str, ...]:
        """Return one sentence per kind of rewrite, with the affected ones of `layers`, the scopes of a Keras model."""
        return sentences(self.applied, RULES, layers)


def legalize(
    model: Model, runtime: Runtime, allow_approximation: bool = False, rules: Iterable[Rewrite] = RULES
) -> Legalized:
    """Return the model with each unsupported operator rewritten, if a rule has an equal graph for it.

    The outputs do not change: they are identical if a rewrite moves data, and within the rounding of float32 or of the
    quantized type if it computes; approximations are used only if allowed. Supported operators remain, except those
    that are never of use (a RESHAPE to the same shape). Operators that no rule applies to remain too:
    operators.legality names them. Subgraphs keep their inputs, outputs and indices; an offline plan is removed if
    anything changed. A model that was compiled for an accelerator does not change.
    """
    if keeps_own_plan(model):
        return Legalized(model, ())
    context = Context(runtime, allow_approximation)
    done: list[Applied] = []
    for subgraph in range(len(model.subgraphs)):
        draft = Draft(model, subgraph)
        changes = _rewrite(draft, tuple(rules), context) if is_in_order(draft) else []
        if changes:
            model = draft.finish()
            done += changes
    return Legalized(model, tuple(done))


def _rewrite(draft: Draft, rules: tuple[Rewrite, ...], context: Context) -> list[Applied]:
    """Apply rules to each operator in turn, until a round changes nothing; return the rewrites."""
    done: list[Applied] = []
    already_dead = {operator.index for operator in dead_operators(draft)}
    for _ in range(MAX_ROUNDS):
        before = len(done)
        for index in tuple(operator.index for operator in draft.operators):
            operator = draft.operator(index)
            if operator is not None and (index in already_dead or not is_dead(draft, operator)):
                done += _rewrite_one(draft, operator, rules, context)
        if len(done) == before:
            return done
        while dead := [operator for operator in dead_operators(draft) if operator.index not in already_dead]:
            for operator in dead:
                draft.replace(operator)
    raise InternalError(f"the rewrites of a model did not converge after {MAX_ROUNDS} rounds: {done[-1]}")


def _rewrite_one(draft: Draft, operator: Operator, rules: tuple[Rewrite, ...], context: Context) -> list[Applied]:
    """Apply the first rule that matches the operator; an inconsistent operator does not change."""
    if not is_consistent(draft, operator):
        return []
    is_supported: bool | None = None
    for rule in rules:
        if rule.codes and operator.code not in rule.codes:
            continue
        if not rule.always:
            is_supported = context.is_supported(draft, operator) if is_supported is None else is_supported
            if is_supported:
                continue
        result = rule.apply(draft, operator, context)
        if result is not None:
            return [result]
    return []
