"""The stream on which `edgetool verify` runs native code that computes only what new rows change.

The samples follow each other in time. Native code gets the rows of one hop after the other, and TFLM whole windows,
each of which ends with a hop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.codegen.native.lower import Stream

TFLM_MACS = 4_000_000_000  # of all windows on TFLM's reference kernels: some ten seconds
LEAST_WINDOWS = 3  # how many windows without a common row a stream has at least, however long they take

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class StreamSamples:
    """A stream as the rows of each hop, (H, rows, ...), and as the windows that end with the last hops, (N, *shape).

    The first H - N hops fill the first window.
    """

    hops: Array
    windows: Array


def stream_samples(samples: Array, stream: Stream) -> StreamSamples:
    """Return the stream that consists of samples (N, *shape), N >= LEAST_WINDOWS; its end may be cut off."""
    rows = samples.reshape(len(samples) * stream.window_rows, -1)
    hop, window, first = stream.hop_rows, stream.window_rows, stream.window_hops
    most = max(LEAST_WINDOWS * first, TFLM_MACS // max(1, stream.window_macs))
    count = min(len(rows) // hop, first + most - 1)
    ends = [hop * (number + 1) for number in range(first - 1, count)]
    windows = np.stack([rows[end - window : end] for end in ends])
    return StreamSamples(rows[: count * hop].reshape(count, hop, -1), windows.reshape(-1, *samples.shape[1:]))
