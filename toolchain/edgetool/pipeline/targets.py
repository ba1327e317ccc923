"""From what the user names to a Target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgetool.errors import TargetError
from edgetool.pipeline.files import read_file
from edgetool.report.serialize import plain
from edgetool.target.load import list_targets, load_target, parse_target
from edgetool.target.types import Target


def is_path(name: str) -> bool:
    """Whether the user means a file of their own, not a packaged profile."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def resolve_target(name: str) -> Target:
    """The target of a name or of the path of a profile. Raises TargetError naming file and key."""
    return resolve_profile(Path(name)) if is_path(name) else load_target(name)


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
    if name is not None:
        return resolve_target(name).with_overrides(
            sram_bytes=sram,
            flash_bytes=flash,
            clock_hz=clock,
            arena_region=arena_region,
            kernels=kernels,
            runtime=runtime,
        )
    if any(value is not None for value in (sram, flash, clock, arena_region, kernels, runtime)):
        raise TargetError(
            "--sram, --flash, --clock, --arena-region, --kernels and --runtime override a target", fix="add --target"
        )
    return None


def resolve_profile(path: Path) -> Target:
    """The target of the user's own profile, whatever its name. Raises TargetError naming file and key."""
    raw = read_file(path, what="a target profile")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TargetError("is not a UTF-8 text file", where=str(path), fix="give a TOML profile") from error
    return parse_target(text, where=str(path))


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
