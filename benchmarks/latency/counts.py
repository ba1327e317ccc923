"""What the estimate counts in a measured model, apart from the figures that are fitted: instructions, bytes, MACs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.latency.measured import MLPERF_FILES, Row
from benchmarks.latency.structures import STRUCTURES, built

from edgetool.estimate.calibrate import PROBES, probe
from edgetool.estimate.latency import estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.target.load import load_target

DTYPES = {"int8": DType.INT8, "int16": DType.INT16, "float32": DType.FLOAT32}


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one operator or a whole model: cycles = cpi * instructions + stall * streamed + rest.

    estimated: cycles by the profile as it is; stall: what the profile says that a streamed byte costs.
    """

    instructions: int
    streamed: float
    rest: float
    macs: int
    estimated: float
    stall: float

    def cpi(self, cycles: float) -> float:
        """The cycles per instruction that would make it take these cycles, the stall being the profile's."""
        return (cycles - self.rest - self.stall * self.streamed) / self.instructions

    def cycles(self, cpi: float, stall: float | None = None) -> float:
        """The cycles with this CPI."""
        return cpi * self.instructions + (self.stall if stall is None else stall) * self.streamed + self.rest


@dataclass
class Book:
    """Counts of measured rows; each model is read, and estimated for a board, once."""

    data: Path
    models: dict[tuple[str, str], Model] = field(default_factory=dict)
    known: dict[tuple[str, str, str], list[Counts]] = field(default_factory=dict)

    def counts(self, row: Row) -> Counts:
        """Those of the row's operator, or of its whole model."""
        operators = self.operators(row)
        if row.operator is not None:
            return operators[row.operator]
        first = operators[0]
        return Counts(
            instructions=sum(item.instructions for item in operators),
            streamed=sum(item.streamed for item in operators),
            rest=sum(item.rest for item in operators),
            macs=sum(item.macs for item in operators),
            estimated=sum(item.estimated for item in operators),
            stall=first.stall,
        )

    def operators(self, row: Row) -> list[Counts]:
        """Those of each operator of the row's model on its board."""
        key = (row.model, row.dtype, row.board)
        if key not in self.known:
            target = load_target(row.board)
            model = self.model(row.model, row.dtype)
            probes = (target, *(probe(target, *figures) for figures in PROBES))
            asis, plain, slower, waiting = (estimate_model(model, each).operators for each in probes)
            stall = speeds_of(target).constant_stall
            self.known[key] = [
                Counts(
                    instructions=c.cycles - b.cycles,
                    streamed=d.cycles - b.cycles,
                    rest=2 * b.cycles - c.cycles,
                    macs=a.macs,
                    estimated=a.cycles,
                    stall=stall,
                )
                for a, b, c, d in zip(asis, plain, slower, waiting, strict=True)
            ]
        return self.known[key]

    def model(self, name: str, dtype: str) -> Model:
        """The model of a row: a file of the data, or a structure."""
        key = (name, dtype)
        if key not in self.models:
            if name in STRUCTURES:
                self.models[key] = built(name, DTYPES[dtype])
            else:
                file = f"models/{MLPERF_FILES[key]}.tflite" if key in MLPERF_FILES else name
                self.models[key] = read_model((self.data / file).read_bytes())
        return self.models[key]
