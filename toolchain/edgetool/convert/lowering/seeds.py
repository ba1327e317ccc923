"""Augmentation that draws random numbers outside training too, and uses none of them: no counter in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# Layers from elsewhere may use what they draw: there the counter stays, and with it the refusal of random operators.
AUGMENTATION = "keras.src.layers.preprocessing."


def still_seeds(layer: Any) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """The seed generators of Keras's augmentation layers in a layer of Keras 3, each with a `next` that does not count.

    Keras 3.15 moves their state forward in every call, for which TFLM would need variables of int64.
    """
    for part in layer._flatten_layers() if hasattr(layer, "_flatten_layers") else ():
        if type(part).__module__.startswith(AUGMENTATION):
            for generator in part._seed_generators:
                yield generator, _standing(generator)


def _standing(generator: Any) -> Callable[..., Any]:
    def following(ordered: bool = True) -> Any:
        return generator.state.value * 1

    return following
