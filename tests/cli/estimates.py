"""Reports with an estimate, as values: for views that need no model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgetool.report.document import (
    ArenaInfo,
    Band,
    EstimateInfo,
    FactorInfo,
    FindingInfo,
    MeasuredInfo,
    MemoryInfo,
    ModelInfo,
    OperatorInfo,
    Provenance,
    Report,
    TargetInfo,
    VerdictInfo,
)

COMPUTE = VerdictInfo(
    "compute-bound or inefficient access",
    "compute-bound: 1 % of the memory bandwidth is used, the time goes into arithmetic",
    ("a faster clock, or a core with MVE, helps in proportion", "prune channels of op 2", "a third piece of advice"),
)
MEASURED = MeasuredInfo(
    latency_ms=12.3,
    source="specified by the user",
    bandwidth_gbps=0.05,
    bandwidth_utilization=0.1,
    gmacs_per_s=0.2,
    verdict=COMPUTE,
    ratio=1.5,
    within_band=False,
    text="the run takes 1.5 times as long as estimated, outside the band",
)
FACTOR = FactorInfo("X-CUBE-AI", 0.55, 0.4, 0.73, 4, "MLPerf Tiny, by version of the runtime")


def operator(index: int, ms: float, **changes: Any) -> OperatorInfo:
    given = {
        "operator": "CONV_2D" if index % 2 else "DEPTHWISE_CONV_2D",
        "macs": 100_000 * index,
        "parameter_bytes": 1000 * index,
        "activation_bytes": 20_000,
        "memory_bytes": 20_000 + 1000 * index,
        "footprint_bytes": 20_000 + 1000 * index,
        "instructions": 200_000 * index,
        "cycles": 300_000 * index,
        "stall_cycles": 0,
        "bound": "compute",
        "basis": "instructions",
    }
    return OperatorInfo(index=index, ms=Band(ms, 0.8 * ms, 1.2 * ms), **{**given, **changes})


def estimate(**changes: Any) -> EstimateInfo:
    """31 operators, the slowest in the middle."""
    operators = tuple(operator(index, 20 - abs(index - 15)) for index in range(31))
    info = EstimateInfo(
        latency_ms=Band(300.0, 270.0, 335.0),
        energy_uj=Band(12_000.0, 10_400.0, 17_400.0),
        cycles=36_000_000,
        instructions=23_400_000,
        macs=7_489_664,
        parameter_bytes=213_112,
        activation_bytes=1_217_024,
        bytes_moved=1_430_136,
        bandwidth_gbps=0.004767,
        configured_bandwidth_gbps=0.48,
        bandwidth_utilization=0.00993,
        gmacs_per_s=0.02497,
        stream_utilization=None,
        bound="compute",
        validation="calibrated",
        basis="four models of MLPerf Tiny measured on the NUCLEO-L4R5ZI with TFLM and CMSIS-NN",
        verdict=COMPUTE,
        energy_basis="40 mW (38 mW to 52 mW), measured by EEMBC's energy monitor",
        operators=operators,
    )
    return replace(info, **changes)


def report(info: EstimateInfo | None = None, *, name: str = "nucleo-l4r5zi", **changes: Any) -> Report:
    made = Report(
        provenance=Provenance("edgetool", {}, {"clock_hz": 120_000_000}, False),
        model=ModelInfo("vww_96_int8.tflite", "0" * 64, 333_288, 31, 90, 208_112),
        target=TargetInfo(name, "cortex-m4", name.upper(), "tflm-2026-08", "cmsis-nn"),
        arena=ArenaInfo(99_600, 99_500, 60_000, 39_500, 60_000, 60_000, True, "bound met", 99_600, False),
        memory=MemoryInfo("sram", 640 * 1024, 2 * 2**20, True, True),
        estimate=info or estimate(),
        findings=(FindingInfo("unverified-profile", "note", "not checked: clock", name),),
    )
    return replace(made, **changes)
