"""Does the model fit the target: arena against its region, model against flash."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.finding import Finding
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Fit:
    """The judgement; None is what cannot be said (no limit, or an arena that is only bounded below)."""

    region: str | None
    sram_bytes: int | None
    flash_bytes: int | None
    arena_fits: bool | None
    model_fits: bool | None


def judge_fit(
    target: Target, *, model_bytes: int, arena_bytes: int | None, arena_lower_bound_bytes: int
) -> tuple[Fit, tuple[Finding, ...]]:
    """The fit on the target. An arena known only from below can fail to fit, but never be said to fit."""
    region = target.arena_region
    sram_bytes = region.size_bytes if region is not None else None
    flash_bytes = target.flash_bytes
    arena_fits: bool | None = None
    if sram_bytes is not None:
        if arena_bytes is not None:
            arena_fits = arena_bytes <= sram_bytes
        elif arena_lower_bound_bytes > sram_bytes:
            arena_fits = False
    model_fits = None if flash_bytes is None else model_bytes <= flash_bytes
    findings = []
    if arena_fits is False:
        needed = arena_bytes if arena_bytes is not None else arena_lower_bound_bytes
        findings.append(
            Finding(
                "arena-too-large",
                "error",
                f"the arena needs {'' if arena_bytes is not None else 'at least '}{needed:,} bytes; "
                f"{region.name if region else 'the region'} has {sram_bytes:,}",
                target.name,
            )
        )
    if model_fits is False:
        findings.append(
            Finding(
                "model-too-large",
                "error",
                f"the model takes {model_bytes:,} bytes; the flash has {flash_bytes:,}",
                target.name,
            )
        )
    return Fit(region.name if region else None, sram_bytes, flash_bytes, arena_fits, model_fits), tuple(findings)
