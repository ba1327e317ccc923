"""Rewrites a model until every operator is one that the runtime has, as far as an equal graph exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgetool.errors import InternalError
from edgetool.model.edit import Draft
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.types import Model, Operator
from edgetool.passes import activations, structure
from edgetool.passes.dead import dead_operators, is_dead
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.sentences import sentences
from edgetool.passes.sound import is_in_order, is_sound
from edgetool.target.types import Runtime

RULES: tuple[Rewrite, ...] = (*structure.RULES, *activations.RULES)
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
    """What the first rule that applies does to an operator. One that is not sound is left to runtimes."""
    if not is_sound(draft, operator):
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
