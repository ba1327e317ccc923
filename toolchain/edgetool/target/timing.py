"""What a profile may say of speed and power: timings of a kernel set, power, and a device's bandwidth."""

from __future__ import annotations

from typing import get_args

from edgetool.target.schema import Section
from edgetool.target.types import Kernels, Power, Precision, Timing, TimingStatus

KERNELS: tuple[Kernels, ...] = get_args(Kernels)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
STATUSES: tuple[TimingStatus, ...] = get_args(TimingStatus)

CPI_RANGE = (0.05, 100.0)  # outside of it no processor runs code from any memory
BAND_RANGE = (0.05, 20.0)  # factors on a time
POWER_RANGE_MW = (0.001, 1e6)
BANDWIDTH_RANGE_GBPS = (1e-3, 1e5)


def read_timings(section: Section, cpi_limits: tuple[float, float]) -> tuple[Timing, ...]:
    """The [[timing]] tables, at most one per kernel set, with cycles per instruction that the core can reach."""
    timings: list[Timing] = []
    for item in section.sections("timing"):
        band, operator_band = read_band(item, "band"), read_band(item, "operator_band")
        kernels = item.choice("kernels", KERNELS)
        timing = Timing(
            kernels=next((known for known in KERNELS if known == kernels), KERNELS[0]),
            cpi=item.rate("cpi", *cpi_limits),
            low=band[0],
            high=band[1],
            operator_low=operator_band[0],
            operator_high=operator_band[1],
            status=_status(item),
            basis=item.text("basis"),
            types=_types(item),
        )
        item.finish()
        if kernels is not None and timing.kernels in [other.kernels for other in timings]:
            item.note("kernels", f"there are two timings for {timing.kernels}")
        timings.append(timing)
    return tuple(timings)


def read_band(section: Section, key: str) -> tuple[float, float]:
    """The factors of a band, which must hold the estimate itself."""
    low, high = section.pair(key, *BAND_RANGE)
    if not low <= 1 <= high:
        section.note(key, f"the range {low:g} to {high:g} does not contain 1, the estimate itself")
    return low, high


def read_power(section: Section) -> Power | None:
    """The [power] table; None where there is none."""
    item = section.optional("power")
    if item is None:
        return None
    low, high = item.pair("range_mw", *POWER_RANGE_MW)
    power = Power(item.rate("active_mw", *POWER_RANGE_MW), low, high, item.text("basis"))
    item.finish()
    if not low <= power.active_mw <= high:
        item.note("active_mw", f"{power.active_mw:g} is outside range_mw, which is {low:g} to {high:g}")
    return power


def read_bandwidth(section: Section) -> float | None:
    """The memory bandwidth of a device that is described by nothing else, in GB/s; None of any other."""
    item = section.optional("bandwidth")
    if item is None:
        return None
    bandwidth = item.rate("gbps", *BANDWIDTH_RANGE_GBPS)
    item.finish()
    return bandwidth


def _types(section: Section) -> tuple[Precision, ...]:
    named = section.texts("types") if section.has("types") else ()
    for name in named:
        if name not in PRECISIONS:
            section.note("types", f"{name[:80]!r} is not one of {', '.join(PRECISIONS)}")
    return tuple(known for known in PRECISIONS if known in named)


def _status(section: Section) -> TimingStatus:
    word = section.choice("status", STATUSES)
    return next((known for known in STATUSES if known == word), "unvalidated")
