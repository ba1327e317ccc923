"""Load profiles by name from the package's data, or a user's own profile from its text.

A board's profile can extend a packaged board: it inherits the board's keys, except those that no longer apply if others
change, and loses the sources of the keys that it replaces. Command-line options override values of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from edgetool.errors import MAX_PROBLEMS, Problem, TargetError, did_you_mean, problems_as_error
from edgetool.finding import Finding
from edgetool.target.profile import (
    CLOCK_RANGE_HZ,
    KERNELS,
    NO_TARGET,
    SIZE_RANGE_BYTES,
    bare_core,
    missing_kernels,
    read_board,
    read_core,
    read_native,
    read_runtime,
    region_figures,
    require_abi,
)
from edgetool.target.quantity import format_clock, format_size
from edgetool.target.tables import load_factors, profile_document, profile_names
from edgetool.target.toml import Section, toml_table
from edgetool.target.types import ARENA_KINDS, Core, Kernels, MemoryRegion, RegionKind, Runtime, Target

if TYPE_CHECKING:
    from edgetool.target.history import Change

Document = dict[str, Any]

# Keys of an extended board, and the keys that no longer apply if their value changes: another board, chip, core or
# clock was not measured.
_DEPENDENT = (
    ("board", "vendor"),
    ("board", "timing"),
    ("board", "power"),
    ("clock", "clock_source"),
    ("clock", "power"),
    ("core", "mcu"),
    ("core", "fpu"),
    ("core", "data_cache_line"),
    ("core", "esp_nn"),
    ("core", "usual_kernels"),
    ("core", "timing"),
    ("core", "power"),
    ("kernels", "usual_kernels"),
    ("mcu", "data_cache_line"),
    ("mcu", "esp_nn"),
    ("mcu", "timing"),
    ("mcu", "power"),
    ("region", "arena_region"),
)
# Keys of a region that were measured with the board's core.
MEASURED_KEYS = ("stall_cycles_per_byte", "write_stall_cycles_per_byte", "cold_cycles")
# Keys of a region's speed: a source covers each as "flash.cache", and the others as "flash".
SPEED_KEYS = ("wait_states", "access_bytes", "cache", "stall_cycles_per_byte", "write_stall_cycles_per_byte")


def extend_profile(
    profile: Document, base_of: Callable[[str], Document | None], problems: list[Problem], fix: Callable[[str], str]
) -> Document:
    """Return the profile with the keys of the packaged board that it extends, which may extend another.

    [[region]] tables replace all regions; tables without a kind modify the base's regions of the same names instead.
    The base's sources for replaced keys are removed. Problems are noted under the key "extends".

    Args:
        base_of: returns a packaged board's document, or None for an unknown name.
        fix: returns advice about an unknown name.
    """
    return _extend_profile(profile, base_of, problems, fix, ())


def _extend_profile(
    profile: Document,
    base_of: Callable[[str], Document | None],
    problems: list[Problem],
    fix: Callable[[str], str],
    chain: tuple[str, ...],
) -> Document:
    if "extends" not in profile:
        return profile
    name = profile["extends"]
    profile = {key: value for key, value in profile.items() if key != "extends"}
    base = base_of(name) if isinstance(name, str) else None
    if base is None:
        shown = repr(name[:80]) if isinstance(name, str) else "the value"
        problems.append(
            Problem("extends", f"{shown} is not a packaged board", fix(name if isinstance(name, str) else ""))
        )
        return profile
    if base["name"] in chain:
        problems.append(
            Problem("extends", f"is circular: {' extends '.join((*chain, base['name']))}", "remove one of these")
        )
        return profile
    base = _extend_profile(base, base_of, problems, fix, (*chain, base["name"]))
    return _merge_profiles(profile, base, problems)


def dependent_on(keys: Collection[str]) -> set[str]:
    """Return the keys that an extended board loses if these change.

    With another core, its regions also lose MEASURED_KEYS.
    """
    return {dependent for key, dependent in _DEPENDENT if key in keys}


def _merge_profiles(profile: Document, base: Document, problems: list[Problem]) -> Document:
    removed = dependent_on([key for key in profile if profile[key] != base.get(key)])
    replaced = {*profile, *removed}
    regions = base.get("region", [])
    if "core" in profile and profile["core"] != base.get("core"):
        replaced |= {figure for region in regions for figure in _source_figures(region["name"], MEASURED_KEYS)}
        regions = [{key: value for key, value in region.items() if key not in MEASURED_KEYS} for region in regions]
        base = {**base, "region": regions} if regions else base
    amended = _amend_regions(profile.get("region"), regions, problems)
    if amended is not None:
        names = [region["name"] for region in regions]
        modified_regions = [item for item in profile["region"] if item.get("name") in names]
        replaced |= {figure for item in modified_regions for figure in _source_figures(item["name"], item)}
        removed -= {"arena_region"}
        profile = {**profile, "region": amended}
    elif "region" in profile:
        replaced |= {figure for region in regions for figure in _source_figures(region["name"], ("base", *SPEED_KEYS))}
    sources = [
        {**source, "covers": kept}
        for source in base.get("source", [])
        if (kept := [figure for figure in source["covers"] if figure not in replaced])
    ]
    added = profile.get("source", [])
    kept_base = {key: value for key, value in base.items() if key not in removed and key != "name"}
    return {**kept_base, **profile, "source": [*sources, *added] if isinstance(added, list) else added}


def _amend_regions(profile: Any, base: list[Document], problems: list[Problem]) -> list[Document] | None:
    """Return the base's regions modified by tables without a kind; None if the tables are complete regions.

    A table whose region does not exist, or is modified by an earlier table, is noted and ignored.
    """
    if not isinstance(profile, list) or not profile or not base:
        return None
    if not all(isinstance(item, dict) and "kind" not in item for item in profile):
        return None
    merged = {region["name"]: region for region in base}
    seen: set[str] = set()
    for index, item in enumerate(profile):
        name = item.get("name")
        if not isinstance(name, str) or name not in merged:
            problems.append(_unknown_region(f"region[{index}].name", name, list(merged)))
        elif name in seen:
            problems.append(Problem(f"region[{index}].name", f"modifies {name!r} twice", "merge the two tables"))
        else:
            merged[name] = {**merged[name], **item}
            seen.add(name)
    return list(merged.values())


def _unknown_region(key: str, name: Any, region_names: list[str]) -> Problem:
    if not isinstance(name, str):
        return Problem(
            key, "is missing" if name is None else "must be a string", f"use one of {', '.join(region_names)}"
        )
    guess = did_you_mean(name, region_names) or f"its regions are {', '.join(region_names)}"
    what = f"the extended board has no region {name[:80]!r}, and a new region needs a kind"
    return Problem(key, what, guess)


def _source_figures(region: str, keys: Iterable[str]) -> Iterator[str]:
    """Yield the names by which sources cover these keys of a region."""
    for key in keys:
        if key in SPEED_KEYS:
            yield f"{region}.{key}"
        elif key in ("size", "base"):
            yield region


DEFAULT_RUNTIME = "tflm-2026-08"
ALIASES = {
    "cortex-m0+": "cortex-m0plus",
    "nucleo-f401re": "stm32f401",
    "esp32-devkitc": "esp32",
    "esp32-s3-devkitc-1": "esp32-s3",
    "esp32-c3-devkitm-1": "esp32-c3",
    "waveshare-rp2350": "rpi-pico2",
}
MAX_NAME = 200  # maximum characters of a name that are compared
MIN_SEARCH_CHARACTERS = 2  # of a name that is searched for in other names
MAX_CANDIDATES = 8  # listed for an ambiguous name
LIST_COMMAND = "'edgetool targets list' lists all"


def load_target(name: str) -> Target:
    """Return the packaged board or core that a name refers to.

    The name of a profile takes precedence, then "m4" for cortex-m4, then the only board or MCU with that name, then the
    only one whose profile, board or MCU name contains the text. Case, spaces and punctuation are ignored. Raises
    TargetError for an unknown name, and for an ambiguous one with the candidates.
    """
    canonical = _profile_named(name)
    if canonical in list_cores():
        core, runtime = load_core(canonical), load_runtime(DEFAULT_RUNTIME)
        require_abi(core, runtime, where=f"targets/cores/{canonical}.toml: abi")
        return _with_factors(bare_core(core, runtime))
    if canonical in list_boards():
        return _packaged(canonical)
    raise TargetError(f"unknown target {name[:80]!r}", fix=_suggest_targets(name))


def mentions(target: Target, text: str) -> bool:
    """Return whether a target's name, board, MCU, core or vendor contains the text, compared as in load_target."""
    return any(squashed(text) in squashed(label) for label in (*_labels(target), target.core.name, target.vendor or ""))


def squashed(text: str) -> str:
    """Return the letters and digits of a name, in lower case: "NUCLEO-H743ZI2" is "nucleoh743zi2"."""
    return "".join(character for character in text[:MAX_NAME].casefold() if character.isalnum())


@cache
def _packaged(name: str) -> Target:
    return _board(profile_document("boards", name), f"targets/boards/{name}.toml")


def _labels(target: Target) -> tuple[str, ...]:
    return tuple(label for label in (target.name, target.board, target.mcu) if label)


def _profile_named(name: str) -> str | None:
    """Return the name of the profile that a user refers to; None if there is none."""
    canonical = _canonical(name)
    for exact in (canonical, _canonical(f"cortex-{canonical}")):
        if exact in (*list_cores(), *list_boards()):
            return exact
    text = squashed(name)
    if len(text) < MIN_SEARCH_CHARACTERS:
        return None
    by_name = {squashed(known): known for known in (*list_targets(), *ALIASES)}
    if text in by_name:
        return _canonical(by_name[text])
    boards = [_packaged(board) for board in list_boards()]
    exact_matches = [board.name for board in boards if text in map(squashed, _labels(board))]
    if len(exact_matches) == 1:
        return exact_matches[0]
    containing = [board for board in boards if any(text in squashed(label) for label in _labels(board))]
    candidates = [(board.name, board.board or board.name) for board in containing]
    candidates += [(core, "core") for core in list_cores() if text in squashed(core)]
    if len(candidates) > 1:
        shown = [f"{profile} ({label})" for profile, label in candidates[:MAX_CANDIDATES]]
        unlisted = len(candidates) - MAX_CANDIDATES
        more = f" and {unlisted} more" if unlisted > 0 else ""
        raise TargetError(
            f"target {name[:80]!r} is ambiguous: {', '.join(shown)}{more}",
            fix=f"use one of these names; 'edgetool targets list {text[:80]}' shows them",
        )
    return candidates[0][0] if candidates else None


def _suggest_targets(name: str) -> str:
    """Return advice about an unknown name: the profiles with the most similar names, boards or MCUs."""
    from difflib import get_close_matches

    by_label = {squashed(profile): profile for profile in list_targets()}
    for board in map(_packaged, list_boards()):
        by_label.update({squashed(label): board.name for label in _labels(board) if squashed(label) not in by_label})
    similar = dict.fromkeys(
        by_label[text] for text in get_close_matches(squashed(name)[:100], by_label, n=3, cutoff=0.7)
    )
    *others, last = map(repr, similar or ("",))
    guess = f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if similar else ""
    return f"{guess}{LIST_COMMAND}"


def parse_target(text: str, *, where: str) -> Target:
    """Return the board of a user's profile, given as TOML text; `where` is its path, for messages.

    The profile names a packaged core, or extends a packaged board. Raises TargetError with file and key; its
    details contain the other problems.
    """
    return _board(_toml(text, where), where)


def validate_target(text: str, *, where: str) -> tuple[Finding, ...]:
    """Return all problems of a user's profile as errors, and figures without a verified source as a note."""
    try:
        profile = _toml(text, where)
    except TargetError as error:
        return (Finding("target-profile", _sentence(error.what, error.fix), where=where),)
    target, problems = _read_board(profile)
    if problems:
        return tuple(
            Finding("target-profile", _sentence(p.what, p.fix), where=f"{where}: {p.key}")
            for p in problems[: MAX_PROBLEMS + 1]
        )
    verified = {figure for source in target.sources if source.verified for figure in source.covers}
    optional_figures = (("power", target.power), ("bandwidth", target.bandwidth_gbps))
    figures = (
        "clock",
        *(name for name, figure in optional_figures if figure is not None),
        *(figure for region in target.regions for figure in region_figures(region)),
    )
    unverified = [figure for figure in figures if figure not in verified]
    if not unverified:
        return ()
    return (Finding("unverified-profile", f"no verified source for {', '.join(unverified)}", where=where),)


@cache
def load_core(name: str) -> Core:
    """Return the packaged core with that name. Raises TargetError if it is unknown."""
    canonical = _canonical(name)
    if canonical not in list_cores():
        raise TargetError(f"unknown core {name[:80]!r}", fix=_suggestion(canonical, list_cores()))
    section = Section(profile_document("cores", canonical), [])
    core = read_core(section)
    if section.problems:
        raise problems_as_error(section.problems, f"targets/cores/{canonical}.toml", TargetError)
    return core


@cache
def load_runtime(name: str) -> Runtime:
    """Return the packaged runtime with that name. Raises TargetError, with the nearest name, if it is unknown."""
    canonical = _canonical(name)
    if canonical not in list_runtimes():
        guess = did_you_mean(canonical, list_runtimes()) or f"the runtimes are {', '.join(list_runtimes())};"
        raise TargetError(f"unknown runtime {name[:80]!r}", fix=f"{guess} 'edgetool targets list --runtimes' lists all")
    document = profile_document("runtimes", canonical)
    newest = document.get("newest", "")
    later: tuple[Change, ...] = ()
    if newest:
        from edgetool.target.history import earlier_profile, later_changes, load_changes  # few commands need it

        later = later_changes(document, load_changes())
        document = earlier_profile(document, profile_document("runtimes", newest), later)
    section = Section(document, [])
    runtime = read_native(section, load_runtime) if section.has("reference") else read_runtime(section)
    if section.problems:
        raise problems_as_error(section.problems, f"targets/runtimes/{canonical}.toml", TargetError)
    return replace(runtime, newest=newest, missing=tuple(change.name for change in later))


def list_targets() -> tuple[str, ...]:
    """Return the names of the packaged cores, and then of the boards."""
    return (*list_cores(), *list_boards())


@cache
def list_cores() -> tuple[str, ...]:
    """Return the names of the packaged cores, sorted by their numbers."""
    return profile_names("cores")


@cache
def list_boards() -> tuple[str, ...]:
    """Return the names of the packaged boards."""
    return profile_names("boards")


@cache
def list_runtimes() -> tuple[str, ...]:
    """Return the names of the packaged runtimes."""
    return profile_names("runtimes")


def _board(profile: dict[str, Any], where: str) -> Target:
    target, problems = _read_board(profile)
    if problems:
        raise problems_as_error(problems, where, TargetError)
    return target


def _read_board(profile: dict[str, Any]) -> tuple[Target, list[Problem]]:
    problems: list[Problem] = []
    whole = extend_profile(
        profile, _packaged_board, problems, lambda name: _suggestion(_canonical(name), list_boards())
    )
    unresolved = [problem for problem in problems if problem.key == "extends"]
    if unresolved:  # the other problems would be missing keys of the base
        return NO_TARGET, unresolved
    target = read_board(Section(whole, problems), load_core, load_runtime, DEFAULT_RUNTIME)
    return _with_factors(target), problems


def _packaged_board(name: str) -> dict[str, Any] | None:
    canonical = _canonical(name)
    return profile_document("boards", canonical) if canonical in list_boards() else None


def _with_factors(target: Target) -> Target:
    """Return the target with the factors of other runtimes on its core."""
    return replace(target, factors=tuple(f for f in load_factors() if f.core == target.core.name))


def _toml(text: str, where: str) -> dict[str, Any]:
    return toml_table(text, where=where, fix="see targets/boards for examples", error=TargetError)


def _canonical(name: str) -> str:
    lower = name.strip().lower().replace("_", "-")
    return ALIASES.get(lower, lower)


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    guess = did_you_mean(name, known)
    return f"{guess} {LIST_COMMAND}" if guess else LIST_COMMAND


def _sentence(what: str, fix: str | None) -> str:
    return f"{what}; {fix}" if fix else what


USER_CLOCK_SOURCE = "specified by the user"
# The kernels whose outputs generated code has.
NATIVE_KERNELS: Kernels = "reference"
MAX_EXTRA_MACS = 400  # in percent


def override_target(
    target: Target,
    *,
    sram_bytes: int | None,
    flash_bytes: int | None,
    clock_hz: int | None,
    arena_region: str | None,
    kernels: str | None,
    runtime: str | None,
    scratch_budget_bytes: int | None,
    row_input: bool | None,
    row_output: bool | None,
    max_extra_macs: float | None,
    max_weights_per_row_bytes: int | None,
    incremental: int | None,
) -> Target:
    """Return the target with each value that is not None; see Target.with_overrides."""
    if clock_hz is not None:
        low, high = CLOCK_RANGE_HZ
        if not low <= clock_hz <= high:
            raise TargetError(
                f"a clock of {clock_hz} Hz is outside the range {format_clock(low)} to {format_clock(high)}",
                where=target.name,
                fix="specify the unit with the number, as in 480MHz",
            )
        target = replace(target, clock_hz=clock_hz, clock_source=USER_CLOCK_SOURCE)
        target = _without_source(target, "clock")
    if arena_region is not None:
        target = with_memories(target, arena=_arena_region(target, arena_region))
    if sram_bytes is not None:
        target = _resize_region(target, target.arena_region, "sram", sram_bytes)
    if flash_bytes is not None:
        target = _resize_region(target, target.flash_region, "flash", flash_bytes)
    if kernels is not None:
        kernel_set = next((word for word in KERNELS if word == kernels), None)
        if kernel_set is None:
            raise TargetError(f"unknown kernels {kernels!r}", where=target.name, fix=f"use {' or '.join(KERNELS)}")
        target = replace(target, kernels=kernel_set, usual_kernels=None)  # the user has chosen
    if runtime is not None:
        target = replace(target, runtime=load_runtime(runtime))
        require_abi(target.core, target.runtime, where=f"{target.name}: runtime")
        links_esp_nn = target.runtime.esp_nn is not None and target.esp_nn_variant is not None
        if kernels is None and links_esp_nn and target.usual_kernels == "esp-nn":
            target = replace(target, kernels="esp-nn", usual_kernels=None)
        elif kernels is None and target.kernels == "esp-nn" and target.runtime.esp_nn is None:
            target = replace(target, kernels=target.core.default_kernels, usual_kernels="esp-nn")
    if target.runtime.is_native:
        if kernels not in (None, NATIVE_KERNELS):
            raise TargetError(
                f"{target.runtime.name} has its own kernels, so that --kernels {kernels} cannot be applied",
                where=target.name,
                fix="omit --kernels or --runtime",
            )
        target = replace(target, kernels=NATIVE_KERNELS, usual_kernels=None)
    if unavailable := missing_kernels(target.kernels, target.runtime, target.esp_nn_variant, target.name):
        what, fix = unavailable
        raise TargetError(what, where=target.name, fix=fix)
    if scratch_budget_bytes is not None:
        if not target.runtime.is_native:
            raise TargetError(
                "--scratch-budget applies to native code, which has lean and tuned kernels",
                where=target.name,
                fix="add --runtime native, or omit --scratch-budget",
            )
        target = replace(target, scratch_budget_bytes=scratch_budget_bytes)
    for option, what, value in (("--row-input", "inputs", row_input), ("--row-output", "outputs", row_output)):
        if value and not target.runtime.is_native:
            raise TargetError(
                f"{option} applies to native code: TFLM needs whole {what}",
                where=target.name,
                fix=f"add --runtime native, or omit {option}",
            )
    if row_input is not None:
        target = replace(target, row_input=row_input)
    if row_output is not None:
        target = replace(target, row_output=row_output)
    if max_extra_macs is not None:
        if not target.runtime.is_native:
            raise TargetError(
                "--max-extra-macs applies to native code, and to TFLM if plan, convert or report chooses stripes",
                where=target.name,
                fix="add --runtime native, or plan the model first",
            )
        target = replace(target, max_extra_macs=checked_extra_macs(max_extra_macs, target.name))
    if max_weights_per_row_bytes is not None:
        if not target.runtime.is_native:
            raise TargetError(
                "--max-weights-per-row applies to native code, whose operators can take turns row by row",
                where=target.name,
                fix="add --runtime native, or omit --max-weights-per-row",
            )
        target = replace(target, max_weights_per_row_bytes=max_weights_per_row_bytes)
    if incremental is not None:
        if not target.runtime.is_native:
            raise TargetError(
                "--incremental applies to native code: TFLM computes the whole window",
                where=target.name,
                fix="add --runtime native, or omit --incremental",
            )
        if incremental < 1:
            raise TargetError(
                f"--incremental {incremental} is no number of rows", where=target.name, fix="specify 1 or more"
            )
        target = replace(target, incremental=incremental)
    if target.incremental is not None:
        _require_hops(target)
    return target


def checked_extra_macs(percent: float, where: str) -> float:
    """Return a percentage of extra multiply-accumulates. Raises TargetError if it is out of range."""
    if not 0 <= percent <= MAX_EXTRA_MACS:
        raise TargetError(
            f"{percent:g} percent of extra multiply-accumulates is outside the range 0 to {MAX_EXTRA_MACS}",
            where=where,
            fix="write the percentage of the model's multiply-accumulates, as in --max-extra-macs 5",
        )
    return percent


def _require_hops(target: Target) -> None:
    """Refuse what streams do not support."""
    for option, is_set, why in (
        ("--row-output", target.row_output, "the output of a hop is ready as a whole"),
        ("--max-extra-macs", target.max_extra_macs is not None, "a stream stores rows so that none is computed again"),
    ):
        if is_set:
            raise TargetError(
                f"--incremental and {option} cannot be combined: {why}",
                where=target.name,
                fix=f"omit --incremental or {option}",
            )


def _arena_region(target: Target, name: str) -> str:
    candidates = [region for region in target.regions if region.kind in ARENA_KINDS]
    if not candidates:
        raise TargetError(
            f"{target.name} has no memory regions", where="--arena-region", fix="use --sram, or specify a board"
        )
    for region in target.regions:
        if region.name == name:
            if region in candidates:
                return name
            raise TargetError(
                f"the arena cannot be placed in {name}, which is {region.kind}",
                where=target.name,
                fix=f"use one of {', '.join(r.name for r in candidates)}",
            )
    names = [region.name for region in candidates]
    raise TargetError(
        f"there is no region {name!r}",
        where=target.name,
        fix=did_you_mean(name, names) or f"use one of {', '.join(names)}",
    )


def with_memories(target: Target, *, arena: str | None = None, model: str | None = None) -> Target:
    """Return the target with its arena and its model in the regions of these names; None keeps a region.

    If either is in another kind of memory than before, the target's timings are not measured.
    """
    moved = replace(
        target,
        arena_region_name=target.arena_region_name if arena is None else arena,
        model_region_name=target.model_region_name if model is None else model,
    )
    before = (target.arena_region, target.flash_region)
    after = (moved.arena_region, moved.flash_region)
    if all(a is None or b is None or a.kind == b.kind for a, b in zip(before, after, strict=True)):
        return moved
    same_flash = before[1] == after[1]
    return replace(
        moved,
        timings=tuple(
            replace(timing, status="extrapolated", includes_flash=same_flash)
            if timing.status == "calibrated"
            else replace(timing, includes_flash=timing.includes_flash and same_flash)
            for timing in target.timings
        ),
    )


def _resize_region(target: Target, region: MemoryRegion | None, kind: RegionKind, size_bytes: int) -> Target:
    """Return the target with a region of another size, or with a new region if there was none."""
    low, high = SIZE_RANGE_BYTES
    if not low <= size_bytes <= high:
        raise TargetError(
            f"{size_bytes} bytes of {kind} is outside the range {format_size(low)} to {format_size(high)}",
            where=target.name,
            fix="specify the unit with the number, as in 256KiB",
        )
    if region is None:
        added = MemoryRegion(kind, kind, size_bytes, note="specified by the user")
        return replace(target, regions=(*target.regions, added))
    changed = replace(region, size_bytes=size_bytes, note="size specified by the user")
    regions = tuple(changed if r.name == region.name else r for r in target.regions)
    resized = replace(target, regions=regions, arena_region_name=target.arena_region_name)
    if kind == "sram":  # even if another region is larger now, it stays the arena's region
        resized = replace(resized, arena_region_name=region.name)
    return _without_source(resized, region.name)


def _without_source(target: Target, figure: str) -> Target:
    """Return the target without its sources for a figure that the user specified."""
    sources = (replace(source, covers=tuple(c for c in source.covers if c != figure)) for source in target.sources)
    return replace(target, sources=tuple(source for source in sources if source.covers))
