"""A loaded float model, whatever the format of its file: its description, and running it over stored samples in chunks.

In the child process only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.input_shapes import DeclaredShape, require_fixed
from edgetool.convert.samples import Array, InputSpec, Range
from edgetool.errors import ConversionError, UnsupportedModelError

# How Keras names a layer in messages.
LAYER_NAMES = (r"'name': '([^']{1,80})'", r"[Ll]ayer [\"']([^\"']{1,80})[\"']")
# Keras nests its messages: the last, innermost one names the object.
_LOADING = re.compile(r"when deserializing class '\w+' using config={'name': '([^']{1,80})'")
# How Keras begins the message of an error in the call of a layer or model; the reason follows.
_CALLED = re.compile(
    r"Exception encountered when calling (?:layer '[^']+' \(type )?(\w+)(?:\)|\.call\(\))\.\s*(?=\S)(.*)", re.DOTALL
)
# Parts of a message that are removed: terminal colours, and nodes and operations of TensorFlow's graph.
_ADDED = re.compile(r"\x1b\[[0-9;]*m|\{\{[^{}]*\}\}\s*|\s*\[Op:\w+\](?: name:.*)?")
MESSAGE_LENGTH = 200
# Types of inputs that a sample file can contain.
NUMERIC = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())


@dataclass(frozen=True, slots=True)
class FloatModel:
    """A loaded model.

    specs, output_names: inputs and outputs, with their names in the model. ranges: for synthetic samples. call: tensors
    in the order of specs -> tensors in the order of output_names. chunk: the number of samples per call. tracked:
    objects with its variables and tables, for saving. traced: `call` with layers replaced by equivalent ones that
    convert better; None for `call` itself. notes: for the user, one sentence each. reset: resets the states of stateful
    layers; None if there are none. as_tensor: makes of an array what `call` accepts.
    """

    specs: tuple[InputSpec, ...]
    output_names: tuple[str, ...]
    ranges: tuple[Range, ...]
    call: Callable[[Sequence[Any]], list[Any]]
    chunk: int
    tracked: Any
    traced: Callable[[Sequence[Any]], list[Any]] | None = None
    notes: tuple[str, ...] = ()
    reset: Callable[[], None] | None = None
    as_tensor: Callable[[Array], Any] = np.array

    @property
    def signature_inputs(self) -> tuple[str, ...]:
        """Valid names for the inputs in a signature."""
        return signature_names([spec.name for spec in self.specs])

    @property
    def signature_outputs(self) -> tuple[str, ...]:
        """Valid names for the outputs in a signature."""
        return signature_names(self.output_names)


def input_spec(name: str, shape: DeclaredShape, dtype: str, path: Path) -> InputSpec:
    """Return an input without its batch.

    Raises UnsupportedModelError if it has no batch, a size that is not fixed, or a type that is not numeric.
    """
    if not shape:
        raise UnsupportedModelError(
            f"input {name!r} is a scalar without a batch dimension", where=str(path), fix="add a batch dimension"
        )
    if dtype not in NUMERIC:
        raise UnsupportedModelError(
            f"input {name!r} is of type {dtype}",
            where=str(path),
            fix="use an input of float32, int32 or another numeric type",
        )
    return InputSpec(name, require_fixed(name, shape[1:], str(path)), dtype)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, changed as by signature_names if two are equal."""
    return tuple(names) if len(set(names)) == len(names) else signature_names(names)


def signature_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return unique names of letters, digits and _, as a signature requires, as similar as possible to `names`."""
    unique: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:80]
        plain = plain if plain[:1].isalpha() else f"t_{plain}"
        candidate, number = plain, 1
        while candidate in unique:
            candidate, number = f"{plain}_{number}", number + 1
        unique[candidate] = None
    return tuple(unique)


def _find_layer_name(text: str) -> re.Match[str] | None:
    return next((match for pattern in LAYER_NAMES if (match := re.search(pattern, text))), None)


def explain_keras_error(error: Exception) -> tuple[str, str]:
    """Return the reason in a Keras or TensorFlow message as one line, and the layer that it names."""
    text = _ADDED.sub("", str(error.args[0]) if type(error) is KeyError and error.args else str(error))
    reason = text.rpartition("Exception encountered: ")[2] or text
    called = _CALLED.match(reason)
    reason = called[2] if called else reason
    layer = _find_layer_name(reason) or next(reversed([*_LOADING.finditer(text)]), None) or _find_layer_name(text)
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    what = lines[0] if lines else type(error).__name__
    if what.startswith(
        "Graph execution error"
    ):  # followed by the location, the reason, and the node in double brackets
        what = next((previous for previous, line in pairwise(lines) if line.startswith("[[")), what)
    if len(what) > MESSAGE_LENGTH:
        what = what[:MESSAGE_LENGTH].rpartition(". ")[0] or what[:MESSAGE_LENGTH]
    where = f"layer {layer[1]!r}" if layer else f"a layer of class {called[1]}" if called else "the model"
    return what.rstrip("."), where


# The allowed difference of lowered layers, relative to the largest output: a whole network sums in another order.
TRACED_TOLERANCE = 1e-5


def output_shape(model: FloatModel, samples: Sequence[Array], output: int, log: Path) -> tuple[int, ...]:
    """Run the first sample, and return the shape of one output without batch. Raises as run_float_model does."""
    return tuple(_first(model, samples, log)[output].shape[1:])


def run_float_model(
    model: FloatModel, samples: Sequence[Array], files: Sequence[Path], progress: child.Progress
) -> None:
    """Write every output for all samples, (N, ...), to one .npy file per output of the float model.

    Only one chunk at a time is in memory. Raises ConversionError if the model fails.
    """
    count = len(samples[0])
    stored: list[Any] = []
    if model.reset is not None:
        model.reset()
    for start in range(0, count, model.chunk):
        progress(f"running the float model {start + 1}/{count}")
        stop = min(start + model.chunk, count)
        for position, values in enumerate(_call(model, samples, slice(start, stop), files[0].parent)):
            if start == 0:
                stored.append(
                    np.lib.format.open_memmap(
                        files[position], mode="w+", dtype=values.dtype, shape=(count, *values.shape[1:])
                    )
                )
            stored[position][start:stop] = values
    for array in stored:
        array.flush()


def check_traced(model: FloatModel, samples: Sequence[Array], log: Path) -> tuple[str, ...]:
    """Return a warning if the traced model's outputs for the first sample differ from those of the model."""
    if model.traced is None:
        return ()
    original, traced = (_first(replace(model, call=call), samples, log) for call in (model.call, model.traced))
    notes = []
    for name, expected, actual in zip(model.output_names, original, traced, strict=True):
        is_finite = np.isfinite(expected)
        largest = float(np.abs(expected).max(initial=0.0, where=is_finite))
        same = np.isfinite(actual) == is_finite
        error = float(np.abs(expected.astype(np.float64) - actual).max(initial=0.0, where=is_finite & same))
        error = error if same.all() else math.inf
        if error > TRACED_TOLERANCE * largest:
            notes.append(
                f"after rewriting for conversion, output {name!r} differs by {error:.2g} (its largest value is "
                f"{largest:.2g}): a rewrite is not exact for this model"
            )
    return tuple(notes)


def _first(model: FloatModel, samples: Sequence[Array], log: Path) -> list[Any]:
    """Reset the model, and return its outputs for the first sample."""
    if model.reset is not None:
        model.reset()
    return _call(model, samples, slice(0, 1), log)


def _call(model: FloatModel, samples: Sequence[Array], rows: slice, log: Path) -> list[Any]:
    """Return every output for some samples, as numpy arrays with batch."""
    try:
        return [np.asarray(output) for output in model.call([model.as_tensor(array[rows]) for array in samples])]
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise ConversionError(
            f"the float model fails on sample {rows.start}: {where}: {what}",
            fix="run the model with model.predict to check it, or skip the comparison",
            details=child.log_tail(log),
        ) from error
