"""What a lowering is told, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from edgetool.convert.lowering.cuts import Cuts
from edgetool.errors import UnsupportedModelError
from edgetool.model.scopes import layer_of


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """rnn: "auto", "fused" or "unrolled". quantize: the scheme. allow_approximation: of functions."""

    rnn: str = "auto"
    quantize: str = "int8"
    allow_approximation: bool = False


@dataclass(frozen=True, slots=True)
class LowerContext:
    """One layer at planning: the libraries, its scope in the graph, its own call, and where notes go.

    keras: Keras 3 or tf_keras, whichever made the layer. original: the bound `call` as it is outside of tracing.
    cuts: where layers are noted that are put in after the conversion.
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


# What takes the place of layer.call, with the same arguments; None where the layer can stay as it is.
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


# What takes the place of a function of keras.src.backend ("numpy.repeat"), with the same arguments.
LowerFunction = Callable[[FunctionContext], Callable[..., Any]]
