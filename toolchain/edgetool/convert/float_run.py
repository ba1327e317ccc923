"""Runs the float model over stored samples, in chunks: in the child process only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.float_model import FloatModel, explain
from edgetool.convert.samples import Array
from edgetool.errors import ConversionError

# What lowered layers may differ by, relative to the largest output: sums in another order, over a whole network.
TRACED_TOLERANCE = 1e-5


def output_shape(tf: Any, model: FloatModel, samples: Sequence[Array], output: int, log: Path) -> tuple[int, ...]:
    """The shape of one output without batch, found by running the first sample. ConversionError as below."""
    return tuple(_first(tf, model, samples, log)[output].shape[1:])


def run_float_model(
    tf: Any, model: FloatModel, samples: Sequence[Array], files: Sequence[Path], progress: child.Progress
) -> None:
    """Write every output for all samples, (N, ...), to one .npy file per output of the float model.

    Holds one chunk in memory at a time. Raises ConversionError when the model does not run.
    """
    count = len(samples[0])
    stored: list[Any] = []
    if model.reset is not None:
        model.reset()
    for start in range(0, count, model.chunk):
        progress(f"running the float model {start + 1}/{count}")
        stop = min(start + model.chunk, count)
        for position, values in enumerate(_call(tf, model, samples, slice(start, stop), files[0].parent)):
            if start == 0:
                stored.append(
                    np.lib.format.open_memmap(
                        files[position], mode="w+", dtype=values.dtype, shape=(count, *values.shape[1:])
                    )
                )
            stored[position][start:stop] = values
    for array in stored:
        array.flush()


def check_traced(tf: Any, model: FloatModel, samples: Sequence[Array], log: Path) -> tuple[str, ...]:
    """A warning where what is to be converted says something else to the first sample than the model itself."""
    if model.traced is None:
        return ()
    own, traced = (_first(tf, replace(model, call=call), samples, log) for call in (model.call, model.traced))
    notes = []
    for name, expected, found in zip(model.output_names, own, traced, strict=True):
        known = np.isfinite(expected)
        largest = float(np.abs(expected).max(initial=0.0, where=known))
        same = np.isfinite(found) == known
        off = float(np.abs(expected.astype(np.float64) - found).max(initial=0.0, where=known & same))
        off = off if same.all() else math.inf
        if off > TRACED_TOLERANCE * largest:
            notes.append(
                f"after rewriting for conversion, output {name!r} differs by {off:.2g} (its largest value is "
                f"{largest:.2g}): a rewrite is not exact for this model"
            )
    return tuple(notes)


def _first(tf: Any, model: FloatModel, samples: Sequence[Array], log: Path) -> list[Any]:
    """What a model says to the first sample, from its start."""
    if model.reset is not None:
        model.reset()
    return _call(tf, model, samples, slice(0, 1), log)


def _call(tf: Any, model: FloatModel, samples: Sequence[Array], rows: slice, log: Path) -> list[Any]:
    """Every output for some samples, as numpy arrays with batch."""
    try:
        return [output.numpy() for output in model.call([tf.constant(array[rows]) for array in samples])]
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain(error)
        raise ConversionError(
            f"the float model fails on sample {rows.start}: {where}: {what}",
            fix="run the model with model.predict to check it, or skip the comparison",
            details=child.log_tail(log),
        ) from error
