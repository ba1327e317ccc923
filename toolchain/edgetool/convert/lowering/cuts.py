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
    cell, output. bias: (4 units,). stateful: its state lives on. demanded: it must become one operator.
    """

    name: str
    kernel: Array
    recurrent: Array
    bias: Array
    stateful: bool
    demanded: bool

    @property
    def units(self) -> int:
        """The size of the output at each time step."""
        return int(self.recurrent.shape[0])


@dataclass(frozen=True, slots=True)
class StateCut:
    """The states of a stateful layer, which become variable tensors: their shapes with batch. name: its scope."""

    name: str
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a cut layer by the float model: its inputs, and the reason if it cannot be cut."""

    values: tuple[Any, ...]
    obstacle: str | None = None


class Cuts:
    """The cuts of one model. `lstms` and `states` are candidates until the float model has run.

    A lowered call asks `mode`: "off" (nothing is cut: the layer computes), "recording" (likewise, and it `record`s),
    "open" (it `take`s what it is given, and goes on with `given`).
    """

    def __init__(self) -> None:
        self.lstms: dict[str, LstmCut] = {}
        self.states: dict[str, StateCut] = {}
        self._mode: Literal["off", "recording", "open"] = "off"
        self._recorded_calls: dict[str, list[RecordedCall]] = {}
        self._given: Mapping[str, tuple[Any, ...]] = {}
        self._taken: dict[str, tuple[Any, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.lstms or self.states)

    @property
    def separate_states(self) -> tuple[StateCut, ...]:
        """The states that the firmware carries itself: those of layers that are not one operator."""
        return tuple(cut for name, cut in self.states.items() if name not in self.lstms)

    def mode(self, name: str) -> str:
        """What a layer has to do now."""
        return "off" if self._mode == "open" and name not in self._given else self._mode

    def record(self, name: str, *values: Any, obstacle: str | None = None) -> None:
        """Note a call of the layer."""
        self._recorded_calls.setdefault(name, []).append(RecordedCall(values, obstacle))

    def given(self, name: str) -> tuple[Any, ...]:
        """What stands for the layer in the open graph."""
        return self._given[name]

    def take(self, name: str, *values: Any) -> None:
        """Note what the layer takes in the open graph."""
        self._taken[name] = values

    @contextlib.contextmanager
    def recording(self) -> Iterator[dict[str, list[RecordedCall]]]:
        """Within the block, calls are noted, per layer in order."""
        self._mode, self._recorded_calls = "recording", {}
        try:
            yield self._recorded_calls
        finally:
            self._mode = "off"

    @contextlib.contextmanager
    def opened(self, given: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, tuple[Any, ...]]]:
        """Within the block the model is cut at the layers given; what they take is in the answer."""
        self._mode, self._given, self._taken = "open", given, {}
        try:
            yield self._taken
        finally:
            self._mode, self._given = "off", {}
