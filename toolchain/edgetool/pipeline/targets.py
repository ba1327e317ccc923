"""Find targets: by the name of a packaged profile, by the path of the user's own profile, or by a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetool.errors import TargetError, UsageError
from edgetool.pipeline.output import read_file
from edgetool.report.json import plain
from edgetool.structure import structured
from edgetool.target.load import (
    LIST_COMMAND,
    checked_extra_macs,
    list_runtimes,
    list_targets,
    load_core,
    load_runtime,
    load_target,
    mentions,
    parse_target,
    squashed,
    validate_target,
)
from edgetool.target.toml import MAX_FILE_BYTES, toml_text
from edgetool.target.types import CodeOptions, Runtime, Target

NATIVE = "native"  # the profile of the code that edgetool generates


def is_path(name: str) -> bool:
    """Return whether the name is the path of the user's own profile instead of a packaged one."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def resolve_target(name: str) -> Target:
    """Return the target with the name, or of the profile at the path. Raises TargetError, which names file and key."""
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
    runtime_tree: Path | None = None,
    scratch_budget: int | None = None,
    row_input: bool | None = None,
    row_output: bool | None = None,
    max_extra_macs: float | None = None,
    max_weights_per_row: int | None = None,
    incremental: int | None = None,
    optimization: str | None = None,
    c_library: str | None = None,
    tflm_library: Sequence[Path] | None = None,
) -> Target | None:
    """Return the target with the overrides of the command line; None if no target is named.

    Args:
        name: The name or path of the target.
        sram: The size of the arena's region, in bytes.
        flash: The size of the flash, in bytes.
        clock: The clock of the core, in Hz.
        arena_region: The name of the memory region for the arena.
        kernels: The kernels that TFLM is built with.
        runtime: The version of TFLM, or native code.
        runtime_tree: The folder with the user's TFLM, whose nearest version is the runtime.
        scratch_budget: The bytes of the arena that native code may spend on scratch for faster kernels.
        row_input: Whether the application hands the inputs of native code over row by row.
        row_output: Whether it takes the outputs row by row.
        max_extra_macs: The multiply-accumulates that native code may compute again, in percent of those of the model.
        max_weights_per_row: The bytes of constants that operators that take turns may read for each row.
        incremental: How many rows of its input are new in each inference of native code, which computes only what they
            change.
        optimization: How the compiler optimizes TFLM's kernels, which determines the size of the code.
        c_library: The C library that the firmware links.
        tflm_library: Static libraries with the user's TFLM, in which the size of the code is counted.

    Raises:
        TargetError: The target cannot be loaded, or overrides are specified without a target.
        UsageError: The folder cannot be read or contains no TFLM, or both it and a runtime are specified.
        LibraryError: A library cannot be read, or is for another machine.
    """
    if runtime is not None and runtime_tree is not None:
        raise UsageError("--runtime and --runtime-tree are mutually exclusive", fix="specify only one of them")
    if name is not None:
        tree = None
        if runtime_tree is not None:
            # Imported on use: few users have their own TFLM.
            from edgetool.pipeline.runtime_tree import recognize_tree, runtime_tree_of

            tree = recognize_tree(runtime_tree)
        target = resolve_target(name).with_overrides(
            sram_bytes=sram,
            flash_bytes=flash,
            clock_hz=clock,
            arena_region=arena_region,
            kernels=kernels,
            runtime=runtime if tree is None else tree.nearest,
            scratch_budget_bytes=scratch_budget,
            row_input=row_input or None,
            row_output=row_output or None,
            max_extra_macs=max_extra_macs,
            max_weights_per_row_bytes=max_weights_per_row,
            incremental=incremental,
        )
        if tree is not None:
            target = replace(target, runtime_tree=runtime_tree_of(tree, target))
        options = code_options(target, optimization, c_library, tflm_library or ())
        return target if options is None else replace(target, code_options=options)
    by_rows = (row_input or None, row_output or None, max_extra_macs, max_weights_per_row, incremental)
    values = (sram, flash, clock, arena_region, kernels, runtime, runtime_tree, scratch_budget, *by_rows)
    build = (optimization, c_library, tflm_library)
    if any(value is not None for value in (*values, *build)):
        raise TargetError(
            "--sram, --flash, --clock, --arena-region, --kernels, --runtime, --runtime-tree, --scratch-budget, "
            "--row-input, --row-output, --max-extra-macs, --max-weights-per-row, --incremental, --optimization, "
            "--c-library and --tflm-library override a target",
            fix="add --target",
        )
    return None


def code_options(
    target: Target, optimization: str | None, c_library: str | None, libraries: Sequence[Path]
) -> CodeOptions | None:
    """Return the options if there are any. Raises UsageError if the runtime is native code, LibraryError as above."""
    options = structured({"optimization": optimization, "c_library": c_library}, CodeOptions)
    options = replace(options, libraries=tuple(map(str, libraries)))
    if options == CodeOptions():
        return None
    if target.runtime.is_native:
        raise UsageError(
            "--optimization, --c-library and --tflm-library do not apply to native code",
            fix="omit them, or use one of TFLM's runtimes",
        )
    if libraries:
        from edgetool.pipeline.libraries import read_libraries  # few users give their library

        read_libraries(options.libraries, target.core)
    return options


def resolve_with_native(name: str | None, **overrides: Any) -> tuple[Target | None, bool]:
    """Return the target as resolve_named does, and whether the runtime is native code, which needs no target."""
    if name is None and overrides.get("runtime") == NATIVE:
        return resolve_named(None, **{**overrides, "runtime": None}), True
    target = resolve_named(name, **overrides)
    return target, target is not None and target.runtime.is_native


def resolve_for_plan(name: str | None, **overrides: Any) -> tuple[Target | None, bool, float | None]:
    """Return the target and whether it runs native code, as resolve_with_native does, and the percentage of extra
    multiply-accumulates for stripes on TFLM.
    """
    percent = overrides.get("max_extra_macs")
    target, is_native = resolve_with_native(name, **{**overrides, "max_extra_macs": None})
    if percent is None or target is None or is_native:
        return *resolve_with_native(name, **overrides), None
    return target, is_native, checked_extra_macs(percent, target.name)


def resolve_profile(path: Path) -> Target:
    """Return the target of the user's own profile. Raises TargetError, which names file and key."""
    return parse_target(_text(path), where=str(path))


def profile_notes(path: Path) -> tuple[str, ...]:
    """Return notes on the user's own valid profile, such as figures without a verified source."""
    return tuple(finding.message for finding in validate_target(_text(path), where=str(path)))


def all_targets() -> tuple[Target, ...]:
    """Return the targets of all packaged profiles: boards by name, then the others by name."""
    targets = [load_target(name) for name in list_targets()]
    return tuple(sorted(targets, key=lambda target: (target.board is None, target.name)))


def selected_targets(
    text: str | None = None,
    *,
    core: str | None = None,
    min_sram_bytes: int | None = None,
    min_flash_bytes: int | None = None,
) -> tuple[Target, ...]:
    """Return the packaged profiles that mention the text, have the core, and at least this much memory.

    The text is part of the name, board, MCU, core or vendor. Targets whose memory is unknown do not match a minimum.
    Raises TargetError for an unknown core, and for a text without a letter or a digit.
    """
    if text is not None and not squashed(text):
        raise TargetError(f"{text[:80]!r} contains no letter or digit to search for", fix=LIST_COMMAND)
    core_name = None if core is None else load_core(core).name
    return tuple(
        target
        for target in all_targets()
        if core_name in (None, target.core.name)
        and (text is None or mentions(target, text))
        and (min_sram_bytes is None or (target.sram_bytes or 0) >= min_sram_bytes)
        and (min_flash_bytes is None or (target.flash_bytes or 0) >= min_flash_bytes)
    )


def all_runtimes() -> tuple[Runtime, ...]:
    """Return the packaged runtimes: the versions of TFLM, the newest first, and then native code."""
    runtimes = [load_runtime(name) for name in list_runtimes()]
    versions = [runtime for runtime in runtimes if not runtime.is_native]
    natives = [runtime for runtime in runtimes if runtime.is_native]
    return (*sorted(versions, key=lambda item: item.tflm_date, reverse=True), *natives)


def describe_runtime(runtime: Runtime) -> dict[str, Any]:
    """Return the runtime as a value that JSON can represent, without its tables."""
    return {
        "name": runtime.name,
        "description": runtime.description,
        "tflm": {"commit": runtime.tflm_commit, "date": runtime.tflm_date},
        "cmsis_nn": {"commit": runtime.cmsis_nn_commit, "date": runtime.cmsis_nn_date},
        "linked_by": list(runtime.linked_by),
        "operators": list(runtime.operators),
        "faults": list(runtime.faults),
    }


def describe(target: Target) -> dict[str, Any]:
    """Return the target as a value that JSON can represent."""
    described: dict[str, Any] = plain(target)
    described["runtime"] = {"name": target.runtime.name, "operators": list(target.runtime.operators)}
    arena = target.arena_region
    described["arena_region"] = arena.name if arena is not None else None
    described["sram_bytes"] = target.sram_bytes
    described["flash_bytes"] = target.flash_bytes
    described["unverified"] = list(target.unverified)
    described["timing"] = plain(target.timing)
    for item, region in zip(described["regions"], target.regions, strict=True):
        item["bytes_per_cycle"] = region.bytes_per_cycle
    return described


def _text(path: Path) -> str:
    blob = read_file(path, what="a target profile", max_bytes=MAX_FILE_BYTES)
    return toml_text(blob, where=str(path), fix="specify a TOML profile", error=TargetError)
