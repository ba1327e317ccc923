"""Where arena and constants lie, and what that costs beyond the time that is modelled."""

from __future__ import annotations

from collections.abc import Iterable

from edgetool.estimate.memory_speed import speeds_of
from edgetool.finding import Finding
from edgetool.target.placement import Placement, PlacementEffect
from edgetool.target.types import Target


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
        findings.append(Finding("no-cache", "note", text, target.name))
    findings += [Finding("memory-speed-assumed", "note", text, target.name) for text in speeds.assumed]
    return tuple(findings)


def _finding(
    target: Target, rule: Placement, text: str, effects: tuple[PlacementEffect, ...], modelled: bool
) -> Finding:
    """A warning where the time leaves it out, a note where it is in."""
    told = f"{text}{_published(target, rule, effects, modelled)}"
    return Finding(rule, "note" if modelled else "warning", told, target.name)


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
