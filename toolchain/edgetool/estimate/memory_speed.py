"""The speed of the memories: their bandwidth, the wait of the core for them, and the cost of a placement in them.

A run is compared with the configured bandwidth of its memories. Findings report placements whose cost the estimate does
not include, with published measurements of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from edgetool.estimate.types import LARGEST, Estimate, integer, not_negative, positive
from edgetool.finding import Finding
from edgetool.target.tables import Placement, PlacementEffect
from edgetool.target.types import MemoryRegion, Target

Verdict = Literal["memory-bound", "balanced", "compute-bound or inefficient access"]

# Shares of the configured bandwidth: above the first, memory limits the run; below the second, something else does.
MEMORY_BOUND_ABOVE = 0.8
COMPUTE_BOUND_BELOW = 0.2


RATE_UNITS = ((1.0, "GB/s"), (1e3, "MB/s"), (1e6, "kB/s"), (1e9, "B/s"))


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The performance of one inference of latency_ms. utilization is not clamped: above 1, some figure is wrong."""

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
        """Achieved divided by configured bandwidth."""
        return self.achieved_gbps / self.configured_gbps

    @property
    def gmacs_per_s(self) -> float:
        """Multiply-accumulates per second, in 10^9."""
        return self.macs / self.latency_ms / 1e6

    @property
    def verdict(self) -> Verdict:
        """The limit of the run."""
        return verdict_of(self.utilization)


def bandwidth_of(bytes_moved: int, macs: int, latency_ms: float, configured_gbps: float) -> Bandwidth:
    """Return the bandwidth of one inference, estimated or measured.

    Raises UsageError naming the argument: counts are 0 or more, time and configured bandwidth above 0.
    """
    return Bandwidth(
        integer(bytes_moved, "bytes_moved"),
        integer(macs, "macs"),
        positive(latency_ms, "latency_ms"),
        positive(configured_gbps, "configured_gbps"),
    )


def estimated_bandwidth(estimate: Estimate, measured_ms: float | None = None) -> Bandwidth | None:
    """Return the bandwidth of the estimated inference, or of the same bytes in a measured time.

    None if no time is known: on a device with only a bandwidth, or if operators for which only the bytes are known
    take most of the time, because these would seem to run at full speed; also for rates beyond those of any device.
    Raises UsageError for a measured time that is not a number above 0.
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
    """Return bandwidths with three digits, in the unit that suits the largest: 2.21 MB/s, 297 MB/s."""
    largest = max(gbps, default=0.0)
    factor, unit = next(((f, u) for f, u in RATE_UNITS if largest * f >= 0.9995), RATE_UNITS[-1])
    return [f"{_three_digits(value * factor)} {unit}" for value in gbps]


def _three_digits(value: float) -> str:
    """Format without an exponent, however small."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".rpartition("e")[2])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def verdict_of(utilization: float) -> Verdict:
    """Return the verdict on a share of the configured bandwidth. Raises UsageError for a negative or infinite one, or
    NaN.
    """
    share = not_negative(utilization, "utilization")
    if share > MEMORY_BOUND_ABOVE:
        return "memory-bound"
    return "compute-bound or inefficient access" if share < COMPUTE_BOUND_BELOW else "balanced"


def bandwidth_findings(bandwidth: Bandwidth, where: str | None = None) -> tuple[Finding, ...]:
    """Return a warning for a run that moves more than its memory can deliver."""
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
class Traffic:
    """What one run of an operator moves.

    constant_bytes, input_bytes, output_bytes: its constants and its other tensors, each counted once. constant_reads,
    input_reads: how many times its kernel reads all of them.
    """

    constant_bytes: int
    input_bytes: int
    output_bytes: int
    constant_reads: int = 1
    input_reads: int = 1

    @property
    def footprint_bytes(self) -> int:
        """The bytes that a cache has to hold so that nothing is fetched twice."""
        return self.constant_bytes + self.input_bytes + self.output_bytes


@dataclass(frozen=True, slots=True)
class Stall:
    """The cycles that one run of an operator waits for memory.

    constants and arena: for reading every constant once, and for the arena. rereads: for reading constants again.
    """

    constants: float
    rereads: float
    arena: float

    @property
    def cycles(self) -> float:
        """All of them."""
        return self.constants + self.rereads + self.arena


@dataclass(frozen=True, slots=True)
class MemorySpeeds:
    """Bytes per cycle of the memories of the constants and of the arena.

    constant_stall: cycles that each byte costs beyond the instructions that move it; arena_stall and arena_write_stall:
    the same for bytes of the arena that are read and written, 0 if it is on the chip. in_place: code runs in place from
    the constants' memory, behind a cache of cache_bytes; arena_cache_bytes: the cache in front of the arena.
    cold_cycles: the maximum additional time of an operator for fetching its code. assumed: the figures that are not in
    the profile, in words.
    """

    clock_hz: int
    constants_per_cycle: float
    arena_per_cycle: float
    constant_stall: float = 0.0
    arena_stall: float = 0.0
    arena_write_stall: float = 0.0
    in_place: bool = False
    cache_bytes: int = 0
    arena_cache_bytes: int = 0
    cold_cycles: float = 0.0
    assumed: tuple[str, ...] = ()

    def cycles(self, parameter_bytes: int, activation_bytes: int) -> float:
        """Return the cycles of moving these bytes alone."""
        return parameter_bytes / self.constants_per_cycle + activation_bytes / self.arena_per_cycle

    def stall(self, traffic: Traffic) -> Stall:
        """Return the cycles that an operator waits for memory.

        Repeated reads of constants cost time only over a serial bus, and only if the constants exceed the cache: for
        on-chip flash, published times show no such cost. The arena is waited for if the operator's tensors exceed its
        cache; otherwise, the cache still holds what the operators before wrote. Repeated reads of inputs cost time if
        the inputs alone exceed it.
        """
        again = self.in_place and traffic.constant_bytes > self.cache_bytes
        streams = traffic.footprint_bytes > self.arena_cache_bytes
        passes = traffic.input_reads if traffic.input_bytes > self.arena_cache_bytes else 1
        moved = traffic.input_bytes * passes * self.arena_stall + traffic.output_bytes * self.arena_write_stall
        return Stall(
            constants=traffic.constant_bytes * self.constant_stall,
            rereads=traffic.constant_bytes * (traffic.constant_reads - 1) * self.constant_stall if again else 0.0,
            arena=moved if streams else 0.0,
        )

    def gbps(self, parameter_bytes: int, activation_bytes: int) -> float:
        """Return the bandwidth for this mix of constants and activations, in 10^9 bytes per second."""
        moved = parameter_bytes + activation_bytes
        cycles = self.cycles(parameter_bytes, activation_bytes)
        per_cycle = moved / cycles if cycles else self.arena_per_cycle
        return per_cycle * self.clock_hz / 1e9


def speeds_of(target: Target) -> MemorySpeeds:
    """Return the speeds of the regions of model and arena; a region without figures is as fast as the core's bus."""
    if target.bandwidth_gbps is not None:
        per_cycle = target.bandwidth_gbps * 1e9 / target.clock_hz
        return MemorySpeeds(target.clock_hz, per_cycle, per_cycle)
    model, arena = target.flash_region, target.arena_region
    assumed = [
        f"{name} is assumed to be as fast as the core's bus"
        for name, region in (("the model's memory", model), ("the arena's memory", arena))
        if region is None or (region.bytes_per_cycle is None and region.stall_cycles_per_byte is None)
    ]
    code = target.code_region
    # A timing's own stall was measured with constants and code in the same flash.
    own_stall = None if target.timing is None or model != code else target.timing.stall_cycles_per_byte
    in_place = model is not None and model.kind == "external-flash"
    outside = arena if arena is not None and arena.kind == "external-ram" else None
    return MemorySpeeds(
        clock_hz=target.clock_hz,
        constants_per_cycle=_per_cycle(model, target),
        arena_per_cycle=_per_cycle(arena, target),
        constant_stall=_stall(model) if own_stall is None else own_stall,
        arena_stall=_stall(outside),
        arena_write_stall=_write_stall(outside),
        in_place=in_place,
        cache_bytes=model.cache_bytes if model is not None else 0,
        arena_cache_bytes=arena.cache_bytes if arena is not None else 0,
        cold_cycles=float(target.core.cold_cycles if code is None or code.cold_cycles is None else code.cold_cycles),
        assumed=tuple(assumed),
    )


def _per_cycle(region: MemoryRegion | None, target: Target) -> float:
    """Return the bytes per cycle by the region's wait states, or by the measured stall; at most those of the bus."""
    bus = float(target.core.bus_bytes)
    if region is None:
        return bus
    if region.bytes_per_cycle is not None:
        return min(region.bytes_per_cycle, bus)
    return bus if region.stall_cycles_per_byte is None else 1 / (1 / bus + region.stall_cycles_per_byte)


def tail_wait_ms(region: MemoryRegion, tail_bytes: int, clock_hz: int) -> float | None:
    """Return the longest wait of an inference for a persistent arena in this memory, in milliseconds.

    Kernels read the multipliers of their channels and TFLM its structures, each byte at most once if a cache holds what
    they return to. On-chip memory is not waited for. None for external memory without figures or without a cache.
    """
    if region.kind != "external-ram":
        return 0.0
    known = region.stall_cycles_per_byte is not None or region.bytes_per_cycle is not None
    return tail_bytes * _stall(region) / clock_hz * 1e3 if known and region.cache_bytes else None


def _write_stall(region: MemoryRegion | None) -> float:
    """Return the stall of a written byte, by default that of a read one."""
    known = None if region is None else region.write_stall_cycles_per_byte
    return _stall(region) if known is None else known


def _stall(region: MemoryRegion | None) -> float:
    """Return the stall of the profile, or else the wait states per byte of an access; 0 if neither is known."""
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
    """Return findings about the memories that contain model and arena; none for a target without regions.

    effects: published measurements, the packaged table. arena_bytes: the arena that the model needs, None if that is
    not known.
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
    """Return a warning if the time does not include the effect, a note if it does."""
    measurements = f"{text}{_published(target, rule, effects, modelled)}"
    return Finding(rule, measurements, where=target.name, level="note" if modelled else "warning")


def _external_only(target: Target, arena_bytes: int, effects: tuple[PlacementEffect, ...]) -> list[Finding]:
    """Return a finding if the arena fits only in an external RAM of the board."""
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
    """Return the measurements on this chip, or else on chips with this core, or else, if not modelled, on any."""
    rows = [effect for effect in effects if effect.placement == placement]
    same_chip = [effect for effect in rows if (target.mcu or "").upper().startswith(effect.mcu.upper())]
    nearest = same_chip or [effect for effect in rows if effect.core == target.core.name] or ([] if modelled else rows)
    measurements = "; ".join(
        f"{item.factor:.2g} times as long as without wait states, on {item.mcu} ({item.measured}, {item.document})"
        for item in nearest
    )
    return f". Measured: {measurements}" if nearest else ""
