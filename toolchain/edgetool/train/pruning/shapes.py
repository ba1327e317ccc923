"""Rules for layers that lay the same elements out anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.train.pruning.call import Call
from edgetool.train.pruning.channels import Residue, Signal, Symbols, no_residue


def flatten(call: Call, signal: Signal) -> list[Signal]:
    """A channel becomes many positions of the one axis. Channels-first data is transposed on the way."""
    if call.layer.data_format == "channels_first" and len(signal.shape) > 1:
        return call.give_up([signal])
    laid = _laid_out(signal, tuple(call.specs[0].shape[1:]))
    if laid is None:
        return call.give_up([signal])
    return call.output(*laid)


def reshape(call: Call, signal: Signal) -> list[Signal]:
    """Fine as long as the channels vary along one axis of the result only."""
    laid = _laid_out(signal, tuple(call.specs[0].shape[1:]))
    if laid is None:
        call.size("target_shape", None, np.zeros(0, np.int64))
        return call.give_up([signal], "which distributes its channels over several axes")
    call.size("target_shape", laid[0], laid[1])
    return call.output(*laid)


def permute(call: Call, signal: Signal) -> list[Signal]:
    """dims names, from 1, the axis that each axis of the result was."""
    if signal.axis is None:
        return call.unknown([signal])
    return call.output(call.layer.dims.index(signal.axis + 1), signal.symbols, signal.residue)


def repeat_vector(call: Call, signal: Signal) -> list[Signal]:
    """(C) becomes (n, C)."""
    return call.unknown([signal]) if signal.axis is None else call.output(1, signal.symbols, signal.residue)


def _laid_out(signal: Signal, shape: tuple[int | None, ...]) -> tuple[int, Symbols, Residue] | None:
    """The axis of the new shape along which alone the channels vary, and what lies there; None if there is none."""
    sizes = tuple(size for size in shape if size is not None)
    if signal.axis is None or None in signal.shape or len(sizes) != len(shape):
        return None
    symbols: Symbols = _spread(signal.symbols, signal).reshape(sizes)
    residue: Residue = _spread(signal.residue, signal).reshape(sizes)
    for axis in reversed(range(symbols.ndim)):
        rows = np.moveaxis(symbols, axis, 0).reshape(sizes[axis], -1)
        if rows.size and (rows == rows[:, :1]).all():
            left = no_residue(sizes[axis])
            for index, row in enumerate(np.moveaxis(residue, axis, 0).reshape(rows.shape)):
                left[index] = next((value for value in row if value is not None), None)
            return axis, rows[:, 0].copy(), left
    return None


def _spread(values: npt.NDArray[Any], signal: Signal) -> npt.NDArray[Any]:
    """One value per element of the tensor."""
    along = values.reshape([-1 if place == signal.axis else 1 for place in range(len(signal.shape))])
    return np.broadcast_to(along, tuple(size or 0 for size in signal.shape))
