"""Runs the float model over stored samples, in chunks: in the child process only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.float_model import FloatModel, explain
from edgetool.convert.samples import Array
from edgetool.errors import ConversionError


def output_shape(tf: Any, model: FloatModel, samples: Sequence[Array], output: int, log: Path) -> tuple[int, ...]:
    """The shape of one output without batch, found by running the first sample. ConversionError as below."""
    return tuple(_call(tf, model, samples, slice(0, 1), log)[output].shape[1:])


def run_float_model(
    tf: Any, model: FloatModel, samples: Sequence[Array], files: Sequence[Path], progress: child.Progress
) -> None:
    """Write every output for all samples, (N, ...), to one .npy file per output of the float model.

    Holds one chunk in memory at a time. Raises ConversionError when the model does not run.
    """
    count = len(samples[0])
    stored: list[Any] = []
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


def _call(tf: Any, model: FloatModel, samples: Sequence[Array], rows: slice, log: Path) -> list[Any]:
    """Every output for some samples, as numpy arrays with batch."""
    try:
        return [output.numpy() for output in model.call([tf.constant(array[rows]) for array in samples])]
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain(error)
        raise ConversionError(
            f"the float model does not run on sample {rows.start}: {where}: {what}",
            fix="check the model with model.predict, or skip the comparison",
            details=child.log_tail(log),
        ) from error
