"""From models that share an arena to their firmware files in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgetool import __version__
from edgetool.codegen.cmake_project import cmake_lists
from edgetool.codegen.main_program import main_source
from edgetool.codegen.program import ProgramSpec, SharedArenaSpec
from edgetool.codegen.shared_arena import arena_header, arena_source
from edgetool.errors import UsageError
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.firmware import FirmwareRequest, firmware_names, header_spec, model_files, program_files
from edgetool.pipeline.program import program_spec
from edgetool.pipeline.shared_arena import SharedArena, SharedModel
from edgetool.target.types import Target

# What there is once, however many models.
COMMON = ("main.cc", "CMakeLists.txt")


def shared_names(group: str, names: Sequence[str], request: FirmwareRequest) -> tuple[str, ...]:
    """The names of all files. Raises UsageError where two models, or a model and the arena, would have one file."""
    owners: dict[str, str] = {}
    found: list[str] = []
    arena = [f"{group}_arena.h", *([f"{group}_arena.cc"] if request.has_program else [])]
    own = [(name, [file for file in firmware_names(name, request) if file not in COMMON]) for name in names]
    for owner, files in [*own, (group, arena)]:
        for file in files:
            # Some file systems take names that differ in case for one.
            other = owners.setdefault(file.lower(), owner)
            if other != owner:
                text = f"{owner!r} and {other!r} would both write a file {file}"
                raise UsageError(text, fix="rename one of the models, or the arena with --name")
            found.append(file)
    return (*found, *(file for file in firmware_names(group, request) if file in COMMON))


def shared_files(
    arena: SharedArena,
    models: Sequence[SharedModel],
    target: Target | None,
    request: FirmwareRequest,
    custom: Mapping[str, OperatorEntry],
) -> dict[str, bytes]:
    """All files by name, as shared_names has them.

    Raises UnsupportedModelError for a program of a model whose operators TFLM lacks.
    """
    files: dict[str, bytes] = {}
    programs = []
    for model in models:
        program = _program(arena.info.name, model, target, request, custom)
        files |= model_files(program.header, model.source.blob, request)
        if request.has_program:
            files |= program_files(program, request)
        programs.append(program)
    spec = _arena_spec(arena, tuple(programs))
    texts = {f"{spec.name}_arena.h": arena_header(spec, with_source=request.has_program)}
    if request.has_program:
        texts |= {f"{spec.name}_arena.cc": arena_source(spec), "main.cc": main_source(programs)}
    if request.project == "cmake":
        texts["CMakeLists.txt"] = cmake_lists(spec, data=request.data, profile=request.profile)
    return files | {file: text.encode("ascii") for file, text in texts.items()}


def _program(
    group: str,
    model: SharedModel,
    target: Target | None,
    request: FirmwareRequest,
    custom: Mapping[str, OperatorEntry],
) -> ProgramSpec:
    """What the files of one model say; without a program nobody asks for its operators."""
    note = (
        f"In this firmware, the model uses the shared arena of {group}_arena.h: arena sizes given below are those that "
        "the model would need on its own."
    )
    spec = header_spec(model.name, model.source, model.plan, target, uncalibrated=False)
    spec = replace(spec, notes=(*spec.notes, note))
    if not request.has_program:
        return ProgramSpec(header=spec, registrations=(), runtime="", commit="", shared_arena=group)
    return program_spec(model.source, spec, target, custom, shared_arena=group)


def _arena_spec(arena: SharedArena, programs: tuple[ProgramSpec, ...]) -> SharedArenaSpec:
    account = arena.account
    return SharedArenaSpec(
        name=arena.info.name,
        tool_version=__version__,
        programs=programs,
        arena_bytes=None if account is None else account.bytes,
        arena_is_lower_bound=account is None or account.is_lower_bound,
        head_bytes=arena.known_head_bytes if account is None else account.head_bytes,
        tail_bytes=0 if account is None else account.tail_bytes,
    )
