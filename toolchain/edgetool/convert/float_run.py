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
        try:
            outputs = model.call([tf.constant(array[start:stop]) for array in samples])
        except MemoryError:
            raise
        except Exception as error:
            what, where = explain(error)
            raise ConversionError(
                f"the float model does not run on sample {start}: {where}: {what}",
                fix="check the model with model.predict, or skip the comparison",
                details=child.log_tail(files[0].parent),
            ) from error
        for position, output in enumerate(outputs):
            values = output.numpy()
            if start == 0:
                stored.append(
                    np.lib.format.open_memmap(
                        files[position], mode="w+", dtype=values.dtype, shape=(count, *values.shape[1:])
                    )
                )
            stored[position][start:stop] = values
    for array in stored:
        array.flush()
