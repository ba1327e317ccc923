"""Estimates and boards as values, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgetool.estimate.types import Estimate, OperatorEstimate
from edgetool.figure import Figure
from edgetool.target.load import load_target
from edgetool.target.types import MemoryRegion, Target

SRAM = MemoryRegion("sram", "sram", 64 * 1024)
FLASH = MemoryRegion("flash", "flash", 256 * 1024)


def operator(index: int = 0, name: str = "CONV_2D", *, ms: float = 1.0, **changed: Any) -> OperatorEstimate:
    """An operator of 1000 MACs, 400 bytes of constants and 600 of activations."""
    plain = OperatorEstimate(
        index=index,
        subgraph=0,
        operator=name,
        precision="int8",
        macs=1000,
        parameter_bytes=400,
        activation_bytes=600,
        footprint_bytes=1000,
        runs=1,
        instructions=2000,
        cycles=round(ms * 100_000),
        stall_cycles=0,
        ms=Figure(ms, ms / 2, ms * 2, "ms", "instructions"),
        bound="compute",
        basis="instructions",
    )
    return replace(plain, **changed)


def estimate(operators: Sequence[OperatorEstimate], *, gbps: float = 0.1, **changed: Any) -> Estimate:
    """The estimate that these operators make up."""
    ms = sum(item.ms.value for item in operators)
    plain = Estimate(
        latency_ms=Figure(ms, ms * 0.8, ms * 1.3, "ms", "four models on this board"),
        cycles=sum(item.cycles for item in operators),
        instructions=sum(item.instructions or 0 for item in operators),
        macs=sum(item.macs for item in operators),
        parameter_bytes=sum(item.parameter_bytes for item in operators),
        activation_bytes=sum(item.activation_bytes for item in operators),
        configured_bandwidth_gbps=gbps,
        bound="compute",
        validation="calibrated",
        basis="four models on this board",
        operators=tuple(operators),
    )
    return replace(plain, **changed)


def board(*regions: MemoryRegion, core: str = "cortex-m7", **changed: Any) -> Target:
    """A board with these memories."""
    return replace(load_target(core), name="a-board", board="A Board", regions=regions, **changed)
