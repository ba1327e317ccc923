"""Plan the calls that are traced instead of a model's own, and apply them while a block runs.

Augmentation layers draw random numbers outside training too, without using them. Their counters are removed from the
graph.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from edgetool.convert.lowering import activations, normalization, recurrent, selection, spatial
from edgetool.convert.lowering.activations import keep_gelu, requantize_shared_tensors
from edgetool.convert.lowering.context import (
    FunctionContext,
    Lower,
    LowerContext,
    LowerFunction,
    LoweringOptions,
    output_scopes,
    places,
)
from edgetool.convert.lowering.cuts import Cuts
from edgetool.convert.lowering.normalization import normalize_by_channel
from edgetool.convert.request import INTEGER
from edgetool.model.scopes import sanitised

# Other layers may use the numbers that they draw: they keep the counter, and random operators are refused.
AUGMENTATION = "keras.src.layers.preprocessing."


def fixed_seeds(layer: Any) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield the seed generators of the augmentation layers in a Keras 3 layer, each with a `next` that does not count.

    Keras 3.15 advances their state in every call, for which TFLM would need int64 variables.
    """
    for part in layer._flatten_layers() if hasattr(layer, "_flatten_layers") else ():
        if type(part).__module__.startswith(AUGMENTATION):
            for generator in part._seed_generators:
                yield generator, _without_counting(generator)


def _without_counting(generator: Any) -> Callable[..., Any]:
    def following(ordered: bool = True) -> Any:
        return generator.state.value * 1

    return following


# For layers and operations of Keras 3, by the name of the Keras class whose `call` they run.
LOWERINGS: dict[str, Lower] = {
    **activations.RULES,
    **spatial.COPY_RULES,
    **selection.LOOKUP_RULES,
    **selection.MASK_RULES,
    **normalization.RULES,
    **spatial.POOL_RULES,
    **recurrent.RULES,
    **spatial.SPECTROGRAM_RULES,
    **recurrent.TIME_DISTRIBUTED_RULES,
    **spatial.VOLUME_RULES,
}
# The same for layers of tf_keras.
TF_KERAS_LOWERINGS: dict[str, Lower] = recurrent.TF_KERAS_RULES
# For functions of Keras 3's TensorFlow backend, by module and name: layers of Keras and the user, and keras.ops, call
# them.
FUNCTIONS: dict[str, LowerFunction] = {
    **activations.FUNCTIONS,
    **spatial.COPY_FUNCTIONS,
    **selection.LOOKUP_FUNCTIONS,
    **selection.MASK_FUNCTIONS,
    **spatial.POOL_FUNCTIONS,
    **recurrent.FUNCTIONS,
    **normalization.FUNCTIONS,
    **spatial.RESIZE_FUNCTIONS,
    **spatial.SPECTROGRAM_FUNCTIONS,
    **spatial.VOLUME_FUNCTIONS,
}
BACKEND = "keras.src.backend.tensorflow"


@dataclass(frozen=True, slots=True)
class _Patch:
    """A replacement for an attribute of an object while the model is traced."""

    owner: Any
    name: str
    value: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Lowering:
    """The planned lowering of a model.

    layers: the Keras class of each layer and operation by its scope. output_layers: the scope of the layer that
    computes each output of the model, "" if unknown. notes: sentences for the user. cuts: the layers that are inserted
    after the conversion. finish: changes the graph after it was traced.
    """

    layers: dict[str, str]
    output_layers: tuple[str, ...]
    notes: tuple[str, ...]
    patches: tuple[_Patch, ...]
    cuts: Cuts = field(default_factory=Cuts)
    finish: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Replace the calls of the layers by the lowered ones within the block, each in its name scope."""
        with contextlib.ExitStack() as restoring:
            for patch in self.patches:
                # Bypass __setattr__, with which Keras tracks the attributes of a layer.
                attributes = vars(patch.owner)
                if patch.name in attributes:
                    restoring.callback(attributes.__setitem__, patch.name, attributes[patch.name])
                else:
                    restoring.callback(attributes.pop, patch.name)
                attributes[patch.name] = patch.value
            yield
            self.finish()


def plan_lowering(tf: Any, keras: Any, model: Any, options: LoweringOptions) -> Lowering:
    """Plan the lowering of a Keras 3 or tf_keras model, without changing it.

    Raises UnsupportedModelError naming a layer that has no form that TFLM can run.
    """
    is_keras_3 = hasattr(keras, "ops")
    table = LOWERINGS if is_keras_3 else TF_KERAS_LOWERINGS
    notes: dict[str, None] = {}
    layers: dict[str, str] = {}
    patches: list[_Patch] = []
    scopes: dict[int, str] = {}
    cuts = Cuts()
    for place in places(model):
        layer, scope = place.layer, place.scope
        layers[scope] = layer_class = type(layer).__name__
        scopes[id(layer)] = scope
        original: Callable[..., Any] = layer.call
        note: Callable[[str], None] = notes.setdefault
        context = LowerContext(tf, keras, options, scope, layer_class, original, note, cuts)
        rule = table.get(_class_of_call(layer))
        lowered = rule(context, layer) if rule else None
        if is_keras_3:
            patches.append(_Patch(layer, "call", _in_scope(tf, scope, lowered or original)))
            patches += [_Patch(generator, "next", following) for generator, following in fixed_seeds(layer)]
        elif lowered is not None:
            # autograph would convert a wrapper around the call of a tf_keras layer: only its scope is set.
            patches.append(_Patch(layer, "call", lowered))
        patches += _scope_patches(tf, layer, scope)
    patches += _scope_patches(tf, model, sanitised(str(model.name)))
    if is_keras_3:
        patches += _function_patches(tf, options, layers)
        # Filtering replaces exceptions in calls by others that keep only their text.
        patches.append(_Patch(keras.src.utils.traceback_utils, "is_traceback_filtering_enabled", lambda: False))

    def finish() -> None:
        if tf.executing_eagerly():
            return
        graph = tf.compat.v1.get_default_graph()
        if options.quantize in INTEGER:
            normalize_by_channel(tf, graph)
            requantize_shared_tensors(tf, graph)
        keep_gelu(tf, graph)

    return Lowering(layers, output_scopes(model, scopes), tuple(notes), tuple(patches), cuts, finish)


def _class_of_call(layer: Any) -> str:
    """Return the name of the Keras class whose `call` this layer runs; "" if the call is the user's."""
    owner = next((kind for kind in type(layer).__mro__ if "call" in vars(kind)), None)
    if owner is None or not owner.__module__.startswith(("keras.", "tf_keras.")):
        return ""
    # The layer's Keras class is more specific than the base class that defines the call (Conv3D, not BaseConv).
    kind = next(kind for kind in type(layer).__mro__ if kind.__module__.startswith(("keras.", "tf_keras.")))
    return f"ops.{kind.__name__}" if kind.__module__.startswith("keras.src.ops.") else kind.__name__


def _in_scope(tf: Any, scope: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        with tf.name_scope(f"{scope}/"):  # the slash makes it absolute
            return call(*args, **kwargs)

    return scoped


def _scope_patches(tf: Any, layer: Any, scope: str) -> Iterator[_Patch]:
    """Yield patches with which the layer opens the scope instead of its name, which may be invalid in a graph."""
    if hasattr(layer, "_open_name_scope"):  # Keras 3
        yield _Patch(layer, "_open_name_scope", lambda: tf.name_scope(f"{scope}/"))
    for name in ("_name_scope", "_get_unnested_name_scope"):  # tf_keras
        if hasattr(layer, name):
            yield _Patch(layer, name, lambda: f"{scope}/")


def _function_patches(tf: Any, options: LoweringOptions, layers: dict[str, str]) -> Iterator[_Patch]:
    for key, lower in FUNCTIONS.items():
        module_name, _, name = key.rpartition(".")
        module = importlib.import_module(f"{BACKEND}.{module_name}")
        if hasattr(module, name):  # some are not public, and Keras may rename them
            yield _Patch(module, name, lower(FunctionContext(tf, options, layers, getattr(module, name))))
