"""Cuts in the traced model, at which layers are inserted after the conversion.

The input of a cut layer becomes an output of the traced graph, and its output becomes an input. While the float model
runs, the same calls record the values at the cut, which calibrate the new inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LstmCut:
    """An LSTM layer that is to become one operator.

    name: its scope. kernel, recurrent: (features, 4 units), (units, 4 units), gates in Keras's order input, forget,
    cell, output. bias: (4 units,). stateful: its state persists between invocations. required: whether it must become
    one operator, because the user requires it.
    """

    name: str
    kernel: Array
    recurrent: Array
    bias: Array
    stateful: bool
    required: bool

    @property
    def units(self) -> int:
        """The size of the output at each time step."""
        return int(self.recurrent.shape[0])


@dataclass(frozen=True, slots=True)
class StateCut:
    """The states of a stateful layer, which become variable tensors. name: its scope. shapes: include the batch."""

    name: str
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a cut layer by the float model: the values at the cut, and the reason if it cannot be cut."""

    values: tuple[Any, ...]
    obstacle: str | None = None


class Cuts:
    """The cuts of one model. `lstms` and `states` are candidates until the float model has run.

    A lowered call queries its `mode`: "off" (nothing is cut, the layer computes), "recording" (the layer computes, and
    calls `record`), or "open": an LSTM passes its input to `set_cut_outputs`, and returns `cut_inputs` instead of
    computing; a layer with separate states starts from those in `cut_inputs`, and passes its new ones.
    """

    def __init__(self) -> None:
        self.lstms: dict[str, LstmCut] = {}
        self.states: dict[str, StateCut] = {}
        self._mode: Literal["off", "recording", "open"] = "off"
        self._recorded_calls: dict[str, list[RecordedCall]] = {}
        self._cut_inputs: Mapping[str, tuple[Any, ...]] = {}
        self._cut_outputs: dict[str, tuple[Any, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.lstms or self.states)

    @property
    def separate_states(self) -> tuple[StateCut, ...]:
        """The states that become variable tensors of the graph: those of layers that are not one operator."""
        return tuple(cut for name, cut in self.states.items() if name not in self.lstms)

    def mode(self, name: str) -> str:
        """Return what a call of the layer must do now."""
        return "off" if self._mode == "open" and name not in self._cut_inputs else self._mode

    def record(self, name: str, *values: Any, obstacle: str | None = None) -> None:
        """Record a call of the layer with the values at the cut."""
        self._recorded_calls.setdefault(name, []).append(RecordedCall(values, obstacle))

    def cut_inputs(self, name: str) -> tuple[Any, ...]:
        """Return the open graph's inputs at the cut: the layer's results, or its states."""
        return self._cut_inputs[name]

    def set_cut_outputs(self, name: str, *values: Any) -> None:
        """Set the open graph's outputs at the cut: what the layer reads, or its new states."""
        self._cut_outputs[name] = values

    @contextlib.contextmanager
    def recording(self) -> Iterator[dict[str, list[RecordedCall]]]:
        """Record calls within the block, in order for each layer."""
        self._mode, self._recorded_calls = "recording", {}
        try:
            yield self._recorded_calls
        finally:
            self._mode = "off"

    @contextlib.contextmanager
    def opened(self, cut_inputs: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, tuple[Any, ...]]]:
        """Cut the model at these layers within the block; yield the graph's outputs at their cuts."""
        self._mode, self._cut_inputs, self._cut_outputs = "open", cut_inputs, {}
        try:
            yield self._cut_outputs
        finally:
            self._mode, self._cut_inputs = "off", {}
