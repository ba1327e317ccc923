"""What memories can deliver, how long the core waits for them, and what a placement in them costs.

Where arena and constants lie, and what that costs beyond the time that is modelled.

What a run makes of the memory: achieved bandwidth, its share of the configured one, and what that says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from edgetool.estimate.types import LARGEST, Estimate, not_negative, positive, whole
from edgetool.finding import Finding
from edgetool.target.tables import Placement, PlacementEffect
from edgetool.target.types import MemoryRegion, Target

Verdict = Literal["memory-bound", "balanced", "compute-bound or inefficient access"]

# Shares of the configured bandwidth: above the first memory sets the pace, below the second something else does.
MEMORY_BOUND_ABOVE = 0.8
COMPUTE_BOUND_BELOW = 0.2


RATE_UNITS = ((1.0, "GB/s"), (1e3, "MB/s"), (1e6, "kB/s"), (1e9, "B/s"))


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What one inference of latency_ms achieves. utilization is not clamped: above 1 some figure is wrong."""

    bytes_moved: int
    macs: int
    latency_ms: float
    configured_gbps: float

    @property
    def achieved_gbps(self) -> float:
        """Bytes moved per second, in 10^9."""
        return self.bytes_moved / self.latency_ms / 1e6

    @property
    def utilization(self) -> float:
        """Achieved by configured bandwidth."""
        return self.achieved_gbps / self.configured_gbps

    @property
    def gmacs_per_s(self) -> float:
        """Multiply-accumulates per second, in 10^9."""
        return self.macs / self.latency_ms / 1e6

    @property
    def verdict(self) -> Verdict:
        """What limits the run."""
        return verdict_of(self.utilization)


def bandwidth_of(bytes_moved: int, macs: int, latency_ms: float, configured_gbps: float) -> Bandwidth:
    """The bandwidth of one inference, estimated or measured.

    Raises UsageError naming the argument: counts are 0 or more, time and configured bandwidth above 0.
    """
    return Bandwidth(
        whole(bytes_moved, "bytes_moved"),
        whole(macs, "macs"),
        positive(latency_ms, "latency_ms"),
        positive(configured_gbps, "configured_gbps"),
    )


def estimated_bandwidth(estimate: Estimate, measured_ms: float | None = None) -> Bandwidth | None:
    """The bandwidth of the estimated inference, or of the same work in a measured time.

    None where no time is known: on a device of which only a bandwidth is, or where operators take most of it of which
    only the bytes are, so that they would be found to move at full speed; nor where no device could do so much. Raises
    UsageError for a measured time that is no number above 0.
    """
    latency_ms = estimate.latency_ms.value if estimate.latency_ms is not None else 0.0
    assumed_ms = sum(item.ms.value for item in estimate.operators if item.basis == "bytes")
    if 2 * assumed_ms > latency_ms:
        latency_ms = 0.0
    if measured_ms is not None:
        latency_ms = positive(measured_ms, "measured_ms")
    if not latency_ms or max(latency_ms, estimate.bytes_moved, estimate.macs) > LARGEST:
        return None
    return bandwidth_of(estimate.bytes_moved, estimate.macs, latency_ms, estimate.configured_bandwidth_gbps)


def rates(*gbps: float) -> list[str]:
    """Bandwidths to three digits in the unit in which the largest reads best: 2.21 MB/s, 297 MB/s."""
    most = max(gbps, default=0.0)
    factor, unit = next(((f, u) for f, u in RATE_UNITS if most * f >= 0.9995), RATE_UNITS[-1])
    return [f"{_three_digits(value * factor)} {unit}" for value in gbps]


def _three_digits(value: float) -> str:
    """Without an exponent, however small."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".rpartition("e")[2])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def verdict_of(utilization: float) -> Verdict:
    """The verdict on a share of the configured bandwidth. Raises UsageError for a negative or infinite one, or NaN."""
    share = not_negative(utilization, "utilization")
    if share > MEMORY_BOUND_ABOVE:
        return "memory-bound"
    return "compute-bound or inefficient access" if share < COMPUTE_BOUND_BELOW else "balanced"


def bandwidth_findings(bandwidth: Bandwidth, where: str | None = None) -> tuple[Finding, ...]:
    """A warning for a run that moves more than its memory can deliver."""
    if bandwidth.utilization <= 1:
        return ()
    achieved, configured = rates(bandwidth.achieved_gbps, bandwidth.configured_gbps)
    text = (
        f"{achieved} is {bandwidth.utilization:.0%} of the configured "
        f"{configured}: a cache serves part of the bytes, the target's memory is faster than "
        "its profile states, or the measured time is too short"
    )
    return (Finding("bandwidth-above-configured", text, where=where),)


@dataclass(frozen=True, slots=True)
class Speeds:
    """Bytes per cycle of the memory that holds the constants and of the one that holds the arena.

    constant_stall and arena_stall: cycles that each byte costs beyond the instructions that move it. in_place: code
    runs in place from the constants' memory, behind a cache of cache_bytes. cold_cycles: the most that an operator may
    take besides, to fetch its code. assumed: what is not the profile's own figure, in words.
    """

    clock_hz: int
    constants_per_cycle: float
    arena_per_cycle: float
    constant_stall: float = 0.0
    arena_stall: float = 0.0
    in_place: bool = False
    cache_bytes: int = 0
    cold_cycles: float = 0.0
    assumed: tuple[str, ...] = ()

    def cycles(self, parameter_bytes: int, activation_bytes: int) -> float:
        """The cycles of moving these bytes and doing nothing else."""
        return parameter_bytes / self.constants_per_cycle + activation_bytes / self.arena_per_cycle

    def stall_cycles(self, parameter_bytes: int, activation_bytes: int, passes: int) -> float:
        """The cycles that an operator waits for memory.

        passes: how often its kernel reads its constants. Only behind a serial bus do later passes cost anything, and
        only where the cache does not hold the constants: on flash of the chip, published times show none of it.
        """
        again = self.in_place and parameter_bytes > self.cache_bytes
        streamed = parameter_bytes * passes if again else parameter_bytes
        return streamed * self.constant_stall + activation_bytes * self.arena_stall

    def gbps(self, parameter_bytes: int, activation_bytes: int) -> float:
        """The bandwidth for this mix of constants and activations, in 10^9 bytes a second."""
        moved = parameter_bytes + activation_bytes
        cycles = self.cycles(parameter_bytes, activation_bytes)
        per_cycle = moved / cycles if cycles else self.arena_per_cycle
        return per_cycle * self.clock_hz / 1e9


def speeds_of(target: Target) -> Speeds:
    """The speeds of the regions that hold model and arena; a region without figures is as wide as the core's bus."""
    if target.bandwidth_gbps is not None:
        per_cycle = target.bandwidth_gbps * 1e9 / target.clock_hz
        return Speeds(target.clock_hz, per_cycle, per_cycle)
    model, arena = target.flash_region, target.arena_region
    assumed = [
        f"{name} is assumed to be as fast as the core's bus"
        for name, region in (("the model's memory", model), ("the arena's memory", arena))
        if region is None or (region.bytes_per_cycle is None and region.stall_cycles_per_byte is None)
    ]
    in_place = model is not None and model.kind == "external-flash"
    return Speeds(
        clock_hz=target.clock_hz,
        constants_per_cycle=_per_cycle(model, target),
        arena_per_cycle=_per_cycle(arena, target),
        constant_stall=_stall(model),
        arena_stall=_stall(arena) if arena is not None and arena.kind == "external-ram" else 0.0,
        in_place=in_place,
        cache_bytes=model.cache_bytes if model is not None else 0,
        cold_cycles=float(target.core.cold_cycles if model is None or model.cold_cycles is None else model.cold_cycles),
        assumed=tuple(assumed),
    )


def _per_cycle(region: MemoryRegion | None, target: Target) -> float:
    """By the region's wait states, or else by the wait that was measured; no faster than the core's bus."""
    bus = float(target.core.bus_bytes)
    if region is None:
        return bus
    if region.bytes_per_cycle is not None:
        return min(region.bytes_per_cycle, bus)
    return bus if region.stall_cycles_per_byte is None else 1 / (1 / bus + region.stall_cycles_per_byte)


def _stall(region: MemoryRegion | None) -> float:
    """The measured stall; else each access waits its wait states; 0 where nothing is known."""
    if region is None:
        return 0.0
    if region.stall_cycles_per_byte is not None:
        return region.stall_cycles_per_byte
    if region.wait_states is None or region.access_bytes is None:
        return 0.0
    return region.wait_states / region.access_bytes


def placement_findings(
    target: Target, effects: Iterable[PlacementEffect], arena_bytes: int | None = None
) -> tuple[Finding, ...]:
    """What should be known of the memories that hold model and arena; nothing for a target without regions.

    effects: what others have measured, the packaged table. arena_bytes: the arena that the model needs, None where
    that is not known.
    """
    if not target.regions:
        return ()
    published, speeds, calibrated = tuple(effects), speeds_of(target), target.is_calibrated
    findings = []
    arena, constants = target.arena_region, target.flash_region
    if arena is not None and arena.kind == "external-ram":
        text = f"the arena is in {arena.name}: {_modelled(speeds.arena_stall, 'activations', calibrated)}"
        counted = speeds.arena_stall > 0 or calibrated
        findings.append(_finding(target, "arena-in-external-ram", text, published, counted))
    elif arena is not None and arena_bytes is not None and arena_bytes > arena.size_bytes:
        findings += _external_only(target, arena_bytes, published)
    if constants is not None and constants.kind == "external-flash":
        text = (
            f"constants, and code unless it is copied to RAM, are read in place from {constants.name}: "
            f"{_modelled(speeds.constant_stall, 'constants', calibrated)}"
        )
        counted = speeds.constant_stall > 0 or calibrated
        findings.append(_finding(target, "constants-in-external-flash", text, published, counted))
    if constants is not None and constants.wait_states and not constants.cache_bytes:
        text = (
            f"{constants.name} has {constants.wait_states:g} wait states, and the profile describes no cache for "
            f"it: {_modelled(speeds.constant_stall, 'constants', calibrated)}"
        )
        findings.append(Finding("no-cache", text, where=target.name))
    findings += [Finding("memory-speed-assumed", text, where=target.name) for text in speeds.assumed]
    return tuple(findings)


def _finding(
    target: Target, rule: Placement, text: str, effects: tuple[PlacementEffect, ...], modelled: bool
) -> Finding:
    """A warning where the time leaves it out, a note where it is in."""
    told = f"{text}{_published(target, rule, effects, modelled)}"
    return Finding(rule, told, where=target.name, level="note" if modelled else "warning")


def _external_only(target: Target, arena_bytes: int, effects: tuple[PlacementEffect, ...]) -> list[Finding]:
    """The arena fits none but an external RAM of the board."""
    on_chip = max((region.size_bytes for region in target.regions if region.kind == "sram"), default=0)
    external = [r for r in target.regions if r.kind == "external-ram" and r.size_bytes >= arena_bytes]
    if on_chip >= arena_bytes or not external:
        return []
    text = (
        f"no on-chip RAM can hold an arena of {arena_bytes:,} bytes, but {external[0].name} can (--arena-region): "
        "inference takes longer there"
    )
    return [_finding(target, "arena-in-external-ram", text, effects, modelled=False)]


def _modelled(stall: float, what: str, calibrated: bool) -> str:
    if not stall and calibrated:
        return "the measured cycles per instruction include this waiting time"
    if not stall:
        return "the time that the core waits for it is unknown and not included in the estimate"
    return f"the estimate includes {stall:.3g} stall cycles per byte of {what}"


def _published(target: Target, placement: Placement, effects: tuple[PlacementEffect, ...], modelled: bool) -> str:
    """What was measured on this chip, else on chips of this core, else, where nothing better is known, anywhere."""
    rows = [effect for effect in effects if effect.placement == placement]
    own = [effect for effect in rows if (target.mcu or "").upper().startswith(effect.mcu.upper())]
    near = own or [effect for effect in rows if effect.core == target.core.name] or ([] if modelled else rows)
    told = "; ".join(
        f"{item.factor:.2g} times as long as without wait states, on {item.mcu} ({item.measured}, {item.document})"
        for item in near
    )
    return f". Measured: {told}" if near else ""
