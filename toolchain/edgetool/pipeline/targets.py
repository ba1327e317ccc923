"""From what the user names to a Target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.errors import TargetError
from edgetool.pipeline.files import read_file
from edgetool.report.serialize import plain
from edgetool.target.load import list_targets, load_target, parse_target
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line sets over a profile; None leaves the profile's own."""

    sram_bytes: int | None = None
    flash_bytes: int | None = None
    clock_hz: int | None = None
    arena_region: str | None = None
    kernels: str | None = None
    runtime: str | None = None


def is_path(name: str) -> bool:
    """Whether the user means a file of their own, not a packaged profile."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def resolve_target(name: str, overrides: Overrides | None = None) -> Target:
    """The target of a name or of the path of a profile. Raises TargetError naming file and key."""
    target = _read_profile(Path(name)) if is_path(name) else load_target(name)
    if overrides is None:
        return target
    return target.with_overrides(
        sram_bytes=overrides.sram_bytes,
        flash_bytes=overrides.flash_bytes,
        clock_hz=overrides.clock_hz,
        arena_region=overrides.arena_region,
        kernels=overrides.kernels,
        runtime=overrides.runtime,
    )


def resolve_named(
    name: str | None,
    *,
    sram: int | None = None,
    flash: int | None = None,
    clock: int | None = None,
    arena_region: str | None = None,
    kernels: str | None = None,
    runtime: str | None = None,
) -> Target | None:
    """The target with the command line's overrides; None when no target is named.

    Raises TargetError also when overrides are given without a target.
    """
    overrides = Overrides(sram, flash, clock, arena_region, kernels, runtime)
    if name is None:
        if overrides != Overrides():
            raise TargetError(
                "--sram, --flash, --clock, --arena-region, --kernels and --runtime override a target",
                fix="add --target",
            )
        return None
    return resolve_target(name, overrides)


def resolve_profile(path: Path) -> Target:
    """The target of the user's own profile, whatever its name. Raises TargetError naming file and key."""
    return _read_profile(path)


def all_targets() -> tuple[Target, ...]:
    """Every packaged profile, boards first, each part by name."""
    targets = [load_target(name) for name in list_targets()]
    return tuple(sorted(targets, key=lambda target: (target.board is None, target.name)))


def describe(target: Target) -> dict[str, Any]:
    """The target as a JSON-able value."""
    described: dict[str, Any] = plain(target)
    described["runtime"] = {"name": target.runtime.name, "operators": list(target.runtime.operators)}
    region = target.arena_region
    described["arena_region"] = region.name if region is not None else None
    described["sram_bytes"] = target.sram_bytes
    described["flash_bytes"] = target.flash_bytes
    described["unverified"] = list(target.unverified)
    return described


def _read_profile(path: Path) -> Target:
    raw = read_file(path, what="a target profile")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TargetError("is not a UTF-8 text file", where=str(path), fix="give a TOML profile") from error
    return parse_target(text, where=str(path))
