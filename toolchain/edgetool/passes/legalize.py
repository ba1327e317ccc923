"""Rewrites a model until every operator is one that the runtime has, as far as an equal graph exists.

Operators whose results nobody reads.

What was rewritten, for the user: one sentence for each kind of rewrite.

All rewrites that move data or choose between values, in the order in which they are tried.

The rewrites of activation functions and other elementwise operators, the best first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgetool.errors import InternalError
from edgetool.model.draft import Draft
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.scopes import layer_of
from edgetool.model.types import DType, Model, Operator
from edgetool.passes import expansions, folding, islands, kernel_forms, lookup, movement, selection, slices
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.validation import is_consistent, is_in_order
from edgetool.target.types import Runtime

# These do something besides giving a result.
_EFFECTS = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "CALL", "CUSTOM", "HASHTABLE_IMPORT", "IF", "WHILE"})


def is_dead(draft: Draft, operator: Operator) -> bool:
    """Whether it can go: nothing reads what it writes, and it changes no state."""
    if operator.code in _EFFECTS or not operator.outputs:
        return False
    for output in operator.outputs:
        if output in draft.outputs or draft.consumers(output) or draft.tensors[output].dtype is DType.RESOURCE:
            return False
    return not any(draft.tensors[tensor].is_variable for tensor in operator.inputs if tensor >= 0)


def dead_operators(draft: Draft) -> list[Operator]:
    """All that can go now; when they have, others may."""
    return [operator for operator in draft.operators if is_dead(draft, operator)]


MOST_LAYERS = 5


def sentences(applied: Iterable[Applied], rules: Iterable[Rewrite], layers: Mapping[str, object]) -> tuple[str, ...]:
    """ "2 TILE (up_sampling1d, repeat_vector) were replaced by CONCATENATION: the runtime does not support TILE".

    In the order in which the kinds first took place; those of one rule for different operators are told apart. Rules
    that say nothing are not told. layers: the scopes of the Keras layers that may be named.
    """
    says = {rule.name: rule.says for rule in rules}
    groups: dict[tuple[str, str], list[Applied]] = {}
    for change in applied:
        groups.setdefault((change.rewrite, change.operator_label), []).append(change)
    return tuple(
        _sentence(says[rewrite], label, group, layers) for (rewrite, label), group in groups.items() if says[rewrite]
    )


def _sentence(says: str, label: str, group: list[Applied], known: Mapping[str, object]) -> str:
    errors = [change.error for change in group if change.error is not None]
    error = f", with an error of up to {max(errors):.2g}" if errors else ""
    layers = list(dict.fromkeys(layer for change in group if (layer := _layer(change, known)) is not None))
    if len(layers) > MOST_LAYERS:
        layers = [*layers[:MOST_LAYERS], f"{len(layers) - MOST_LAYERS} more"]
    who = f"{len(group)} {label}" if len(group) > 1 else label
    return who + (f" ({', '.join(layers)})" if layers else "") + f" {'were' if len(group) > 1 else 'was'} {says}{error}"


def _layer(change: Applied, known: Mapping[str, object]) -> str | None:
    """That of the first tensor whose name tells one."""
    return next((layer for name in change.tensor_names if (layer := layer_of(name, known)) is not None), None)


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


ELEMENTWISE_RULES = (lookup.LOOK_UP, lookup.SHORTEN, expansions.APPROXIMATE, islands.IN_FLOAT, expansions.EXPAND)


RULES: tuple[Rewrite, ...] = (*STRUCTURE_RULES, *ELEMENTWISE_RULES)
# Each rewrite leaves fewer illegal operators or simpler ones; far more rounds than a chain of them takes.
MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Legalized:
    """The model, and the rewrites in the order in which they took place; none: the model is the one that was given."""

    model: Model
    applied: tuple[Applied, ...]

    def sentences(self, layers: Mapping[str, object]) -> tuple[str, ...]:
        """One sentence for each kind of rewrite, with those of `layers` concerned, the scopes of a Keras model."""
        return sentences(self.applied, RULES, layers)


def legalize(
    model: Model, runtime: Runtime, allow_approximation: bool = False, rules: Iterable[Rewrite] = RULES
) -> Legalized:
    """The model with each operator that the runtime lacks rewritten, where a rule knows an equal graph.

    The outputs stay as they are: exactly where a rewrite moves data, within float32's or the quantized type's rounding
    where it computes; approximations only where they are allowed. Legal operators stay but for what is never of use
    (a RESHAPE to the shape that is there). What no rule applies to stays too: operators.legality names it.
    Subgraphs keep their inputs, outputs and numbers; an offline plan goes where anything changed. A model compiled for
    an accelerator stays as it is.
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
    """Apply rules to each operator in turn, and again until a round finds nothing; what was done."""
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
    """What the first rule that applies does to an operator. An inconsistent one stays as it is."""
    if not is_consistent(draft, operator):
        return []
    legal: bool | None = None
    for rule in rules:
        if rule.codes and operator.code not in rule.codes:
            continue
        if not rule.wanted:
            legal = context.legal(draft, operator) if legal is None else legal
            if legal:
                continue
        result = rule.apply(draft, operator, context)
        if result is not None:
            return [result]
    return []
