"""States that outlive a call: of Keras's layers, and as variable tensors of a .tflite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgetool.convert.lowering.walk import places


def stored_states(layer: Any) -> list[Any]:
    """The variables in which a stateful layer keeps its states, in Keras's order; none before it is built."""
    return _flat(getattr(layer, "states", None))


def _flat(states: Any) -> list[Any]:
    if isinstance(states, list | tuple):
        return [variable for state in states for variable in _flat(state)]
    return [] if states is None else [states]


def reset_of(model: Any) -> Callable[[], None] | None:
    """What puts the stateful layers of a keras.Model back to their start, zeros; None for a model without any."""
    layers = [place.layer for place in places(model) if getattr(place.layer, "stateful", False)]
    variables = [variable for layer in layers for variable in stored_states(layer)]
    if not variables:
        return None

    def reset() -> None:
        for variable in variables:
            variable.assign(variable * 0)

    return reset
