"""What was rewritten, for the user: one sentence for each kind of rewrite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgetool.model.scopes import layer_of
from edgetool.passes.rewrite import Applied, Rewrite

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
