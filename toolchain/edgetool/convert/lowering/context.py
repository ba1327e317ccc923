"""The interface of a lowering: its context and result, and every layer of a Keras model with its name scope.

For Keras 3 and tf_keras.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from edgetool.convert.lowering.cuts import Cuts
from edgetool.errors import UnsupportedModelError
from edgetool.model.scopes import layer_of, sanitised


@dataclass(frozen=True, slots=True)
class Place:
    """A layer, or an operation of keras.ops in a functional model, and its scope ("outer/inner")."""

    layer: Any
    scope: str


def places(model: Any) -> tuple[Place, ...]:
    """Return every layer below the model once, outer before inner; a layer in two models has the first's scope."""
    return tuple(_below(model, "", {id(model)}, set()))


def _below(owner: Any, prefix: str, seen: set[int], scopes: set[str]) -> Iterator[Place]:
    for layer in children(owner):
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        scope = plain = prefix + sanitised(str(layer.name))
        number = 1
        while scope in scopes:
            scope, number = f"{plain}_{number}", number + 1
        scopes.add(scope)
        yield Place(layer, scope)
        yield from _below(layer, f"{scope}/", seen, scopes)


def children(owner: Any) -> list[Any]:
    """Return the layers inside a layer, and the operations of a functional model's graph."""
    flatten = getattr(owner, "_flatten_layers", None)
    layers = list(flatten(include_self=False, recursive=False)) if flatten else []
    # A Sequential runs through a functional model of its own, which contains the same layers.
    layers = [layer for layer in layers if layer is not getattr(owner, "_functional", None)]
    return [*layers, *(getattr(owner, "operations", None) or ())]


def output_scopes(model: Any, scopes: dict[int, str]) -> tuple[str, ...]:
    """Return the scope of the layer of each model output, in Keras's order; "" if unknown.

    scopes: by the id of the layer.
    """
    return tuple(scopes.get(id(_producer(tensor)), "") for tensor in getattr(model, "outputs", None) or ())


def _producer(tensor: Any) -> Any:
    """Return the layer that computes a symbolic tensor; nested models are followed to their layers."""
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return None
    layer, node, position = history
    inner = getattr(layer, "outputs", None)
    if children(layer) and inner and position < len(inner) and node >= 0 and inner[position] is not tensor:
        return _producer(inner[position])
    return layer


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """How to lower layers.

    rnn: "auto", "fused" or "unrolled". quantize: the scheme. allow_approximation: whether to approximate functions.
    """

    rnn: str = "auto"
    quantize: str = "int8"
    allow_approximation: bool = False


@dataclass(frozen=True, slots=True)
class LowerContext:
    """One layer at planning: the libraries, its scope in the graph, its own call, and the function for notes.

    keras: Keras 3 or tf_keras, whichever the layer belongs to. original: the bound `call` as it is outside of tracing.
    cuts: records the layers that are inserted after the conversion.
    """

    tf: Any
    keras: Any
    options: LoweringOptions
    scope: str
    layer_class: str
    original: Callable[..., Any]
    note: Callable[[str], None]
    cuts: Cuts

    def refuse(self, what: str, fix: str) -> NoReturn:
        """Raise UnsupportedModelError naming this layer; `what` continues the sentence that begins with it."""
        raise UnsupportedModelError(f"layer {self.scope!r} ({self.layer_class}) {what}", fix=fix)


# Returns the replacement of layer.call, with the same arguments; None if the layer can stay as it is.
Lower = Callable[[LowerContext, Any], Callable[..., Any] | None]


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """A function of Keras's backend at planning. layers: every layer's class by scope, complete when tracing begins."""

    tf: Any
    options: LoweringOptions
    layers: Mapping[str, str]
    original: Callable[..., Any]

    def refuse(self, what: str, fix: str) -> NoReturn:
        """Raise UnsupportedModelError naming the layer that is being traced; `what` continues the sentence."""
        scope = layer_of(str(self.tf.get_current_name_scope()), self.layers)
        who = f"layer {scope!r} ({self.layers[scope]})" if scope else "the model"
        raise UnsupportedModelError(f"{who} {what}", fix=fix)


# Returns the replacement of a function of keras.src.backend ("numpy.repeat"), with the same arguments.
LowerFunction = Callable[[FunctionContext], Callable[..., Any]]
