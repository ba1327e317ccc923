"""The TOML text of a user's own profile: what differs from a packaged board, or all of a target."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgetool.errors import InternalError
from edgetool.target.load import DEFAULT_RUNTIME, dependent_on, parse_target
from edgetool.target.quantity import format_clock, format_size
from edgetool.target.types import MemoryRegion, Target, Timing
from edgetool.target.types import Source as ProfileSource

Table = dict[str, Any]
COMMENT_COLUMNS = 118


def profile_text(target: Target, *, base: Target | None, comments: Sequence[str] = ()) -> str:
    """A profile that loads as the target, with comments at its head.

    base: the packaged board that it extends, by which it says only what is different; without one it says everything.
    Raises InternalError when the text does not load as the target again.
    """
    table = _whole(target) if base is None else {"name": target.name, "extends": base.name, **_changes(target, base)}
    lines = [f"# {_printable(comment)[:COMMENT_COLUMNS]}" for comment in comments]
    text = "\n".join([*lines, *_lines(table), ""])
    _check(text, target)
    return text


def _check(text: str, target: Target) -> None:
    """What is written must be read as it was meant; sources, which are told apart by board and core, aside."""
    read = parse_target(text, where=target.name)
    if replace(read, sources=()) != replace(target, sources=()):
        raise InternalError("the written profile does not load back as intended", where=target.name)


def _whole(target: Target) -> Table:
    """Every key of a board's profile."""
    table: Table = {
        "name": target.name,
        "board": target.board,
        "vendor": target.vendor,
        "mcu": target.mcu,
        "core": target.core.name,
        "fpu": target.core.fpu,
        "clock": format_clock(target.clock_hz),
        "clock_source": target.clock_source,
        "kernels": target.kernels if target.usual_kernels is None else None,
        "usual_kernels": target.usual_kernels,
        "runtime": None if target.runtime.name == DEFAULT_RUNTIME else target.runtime.name,
        "arena_region": target.arena_region_name,
        "power": _power(target),
        "bandwidth": None if target.bandwidth_gbps is None else {"gbps": target.bandwidth_gbps},
        "region": [_region(region) for region in target.regions],
        "timing": [_timing(timing) for timing in target.timings],
        "source": [_source(source) for source in target.sources],
    }
    return {key: value for key, value in table.items() if value not in (None, [])}


def _changes(target: Target, base: Target) -> Table:
    """The keys of the profile that do not follow from the base; regions amend those of the base by name."""
    here, there = _whole(target), _whole(base)
    changed = {
        key: value
        for key, value in here.items()
        if value != there.get(key) and key not in ("name", "region", "source", "usual_kernels")
    }
    if target.kernels != base.kernels:
        changed["kernels"] = target.kernels
    regions = [_region(region) for region in target.regions]
    amend = [region.name for region in target.regions] == [region.name for region in base.regions]
    if amend and "core" not in changed:
        pairs = zip(target.regions, base.regions, strict=True)
        regions = [_amendment(region, other) for region, other in pairs if region != other]
    lost = dependent_on([*changed, *([] if amend and "core" not in changed else ["region"])])
    changed |= {key: here[key] for key in here if key in lost and key != "usual_kernels"}
    known = {source.document for source in base.sources}
    sources = [_source(source) for source in target.sources if source.document not in known]
    return {**changed, **({"region": regions} if regions else {}), **({"source": sources} if sources else {})}


def _amendment(region: MemoryRegion, other: MemoryRegion) -> Table:
    """The name of a region, and what is different in it."""
    known = _region(other)
    return {"name": region.name} | {key: value for key, value in _region(region).items() if value != known.get(key)}


def _region(region: MemoryRegion) -> Table:
    table: Table = {
        "name": region.name,
        "kind": region.kind,
        "base": region.base_address,
        "size": format_size(region.size_bytes),
        "wait_states": region.wait_states,
        "access_bytes": region.access_bytes,
        "cache": format_size(region.cache_bytes) if region.cache_bytes else None,
        "cold_cycles": region.cold_cycles,
        "stall_cycles_per_byte": region.stall_cycles_per_byte,
        "note": region.note or None,
    }
    return {key: value for key, value in table.items() if value is not None}


def _timing(timing: Timing) -> Table:
    table: Table = {
        "kernels": timing.kernels,
        "cpi": timing.cpi,
        "band": [timing.low, timing.high],
        "operator_band": [timing.operator_low, timing.operator_high],
        "status": timing.status,
        "basis": timing.basis,
    }
    return table | ({"types": list(timing.types)} if timing.types else {})


def _power(target: Target) -> Table | None:
    power = target.power
    if power is None:
        return None
    return {"active_mw": power.active_mw, "range_mw": [power.low_mw, power.high_mw], "basis": power.basis}


def _source(source: ProfileSource) -> Table:
    note = {"note": source.note} if source.note else {}
    return {"covers": list(source.covers), "document": source.document, "verified": source.verified, **note}


def _lines(table: Mapping[str, Any]) -> list[str]:
    """The keys of a table, then its tables and lists of tables, each after an empty line."""
    lines = [f"{key} = {_value(value)}" for key, value in table.items() if not _is_table(value)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{key}]", *_lines(value)]
        elif _is_table(value):
            for item in value:
                lines += ["", f"[[{key}]]", *_lines(item)]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _value(value: Any) -> str:
    """A number, a boolean, a text or a list of them; JSON's spelling is TOML's, for what a profile can hold."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
