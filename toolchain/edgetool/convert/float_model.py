"""What a loaded float model is to this room, whoever wrote the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.convert.samples import InputSpec
from edgetool.convert.synthetic import Range
from edgetool.errors import UnsupportedModelError

# How messages of Keras name a layer.
LAYER_NAMES = (r"'name': '([^']{1,80})'", r"[Ll]ayer [\"']([^\"']{1,80})[\"']")
MESSAGE_LENGTH = 200
NO_FIXED_SHAPE = "save the model with a fixed input shape, keras.Input(shape=(...)) without None"


@dataclass(frozen=True, slots=True)
class FloatModel:
    """A loaded model.

    specs: its inputs, by the names that its maker gave. output_names: likewise. ranges: for synthetic samples.
    call: tensors in the order of specs -> tensors in the order of output_names. chunk: samples per call that
    it takes. tracked: what holds its variables and tables, for saving.
    """

    specs: tuple[InputSpec, ...]
    output_names: tuple[str, ...]
    ranges: tuple[Range, ...]
    call: Callable[[Sequence[Any]], list[Any]]
    chunk: int
    tracked: Any

    @property
    def signature_inputs(self) -> tuple[str, ...]:
        """Names for the inputs that a signature takes."""
        return signature_names([spec.name for spec in self.specs])

    @property
    def signature_outputs(self) -> tuple[str, ...]:
        """Names for the outputs that a signature takes."""
        return signature_names(self.output_names)


def input_spec(name: str, shape: tuple[int | None, ...], dtype: str, path: Path) -> InputSpec:
    """An input with its batch removed; refuses what has no fixed size."""
    if not shape:
        raise UnsupportedModelError(
            f"input {name!r} is a scalar without a batch", where=str(path), fix="give it a batch dimension"
        )
    sizes = tuple(size for size in shape[1:] if size is not None)
    if len(sizes) != len(shape) - 1:
        text = ", ".join("None" if size is None else str(size) for size in shape)
        raise UnsupportedModelError(
            f"input {name!r} has dimensions that are not fixed: ({text})", where=str(path), fix=NO_FIXED_SHAPE
        )
    if dtype in ("string", "resource", "variant") or dtype.startswith("complex"):
        raise UnsupportedModelError(
            f"input {name!r} is of type {dtype}", where=str(path), fix="use a model with numeric inputs"
        )
    return InputSpec(name, sizes, dtype)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names as they are, or told apart by numbers where two are equal."""
    return tuple(names) if len(set(names)) == len(names) else signature_names(names)


def signature_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that a signature takes: letters, digits and _, unique, and as near as possible to the given ones."""
    taken: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:80]
        plain = plain if plain[:1].isalpha() else f"t_{plain}"
        candidate, number = plain, 1
        while candidate in taken:
            candidate, number = f"{plain}_{number}", number + 1
        taken[candidate] = None
    return tuple(taken)


def explain(error: Exception) -> tuple[str, str]:
    """The heart of a Keras or TensorFlow message in one line, and the layer that it speaks of."""
    text = str(error)
    heart = text.rpartition("Exception encountered: ")[2] or text
    layer = next(
        (found for part in (heart, text) for pattern in LAYER_NAMES if (found := re.search(pattern, part))), None
    )
    lines = [line.strip() for line in heart.splitlines() if line.strip()]
    what = lines[0] if lines else type(error).__name__
    if len(what) > MESSAGE_LENGTH:
        what = what[:MESSAGE_LENGTH].rpartition(". ")[0] or what[:MESSAGE_LENGTH]
    return what.rstrip("."), f"layer {layer[1]!r}" if layer else "the model"
