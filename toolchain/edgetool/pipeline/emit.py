"""Write the firmware files of a .tflite, or of several that share one arena.

For a shared arena, findings also report whether it fits the target, and whether the models would need less memory if
they were initialised in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgetool import __version__
from edgetool.codegen.c_names import model_macro
from edgetool.codegen.cmake.project import cmake_lists
from edgetool.codegen.memories import LIBRARY_FILES, linker_script, model_section
from edgetool.codegen.spec import PlacedSpec, ProgramSpec, SharedArenaSpec
from edgetool.codegen.tflm.arena import arena_header, arena_source
from edgetool.codegen.tflm.runner import main_source
from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.gate.judge import judge_fit
from edgetool.memory.account import SharedAccount, Tenant, account_shared
from edgetool.memory.planner import DEFAULT_SECONDS, Plan, PlanRequest
from edgetool.memory.sharing.assign import SharedLayout, shared_offsets, whole_problem
from edgetool.memory.sharing.types import Algorithm
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.firmware import (
    HEADER_ONLY,
    FirmwareRequest,
    SharedBuffers,
    firmware_files,
    firmware_names,
    header_spec,
    model_files,
    name_findings,
    output_name,
    placed_specs,
    program_files,
    program_spec,
    unknown_arena_findings,
    with_same_kernels,
)
from edgetool.pipeline.output import check_writable, write_files
from edgetool.pipeline.placed_code import placed_code
from edgetool.pipeline.places import (
    Placed,
    check_places,
    exactly_placed,
    in_places,
    missing_findings,
    shared_in_places,
    unknown_sizes,
    with_placed,
)
from edgetool.pipeline.planning import NO_PLAN, interruptible, plan_findings
from edgetool.pipeline.reporting import finding_infos, report
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.report.document import Report, SharedArenaInfo, SharedModelInfo
from edgetool.target.places import OPTION
from edgetool.target.platform import platform_of
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class SharedModel:
    """One of the models that share an arena: its C name, its file and the plan in that file."""

    name: str
    source: Source
    plan: Plan


@dataclass(frozen=True, slots=True)
class SharedArena:
    """The arena that models share.

    Attributes:
        account: The account of the arena; None without a target.
        min_head_bytes: A lower bound on the head, which is known without a target, too.
        info: The description of the arena in the report.
        placed: The memories of head, tail and models, if they are two arenas.
    """

    account: SharedAccount | None
    min_head_bytes: int
    info: SharedArenaInfo
    placed: Placed | None = None


def shared_arena(
    name: str, models: Sequence[SharedModel], target: Target | None, custom: Mapping[str, OperatorEntry]
) -> SharedArena:
    """Return the arena of the models, initialised in this order, each with the plan in its file.

    Args:
        name: The C name of the arena.
        models: The models.
        target: The target, if any.
        custom: Operators that the user describes, by custom code.

    Raises:
        UnsupportedModelError: A plan places a variable tensor in memory that other models overwrite.
    """
    for model in models:
        _refuse_state_in_head(model)
    account = None
    if target is not None:
        tenants = [Tenant(model.source.model, model.plan.offsets) for model in models]
        account = account_shared(tenants, platform_of(target), custom=custom)
    height = max(model.plan.layout.height for model in models)
    return SharedArena(account, height, _info(name, models, target, account, height))


# What is said of a single arena.
SINGLE_ARENA = frozenset({"shared-arena-too-large", "shared-arena-order", "models-too-large"})


def _in_places(arena: SharedArena, placed: Placed, group: str) -> SharedArena:
    """Return the arena as two, in their memories. Raises UnsupportedModelError if their sizes are unknown."""
    if placed.is_lower_bound:
        raise unknown_sizes(group)
    findings = [item for item in arena.info.findings if item.rule not in SINGLE_ARENA]
    info = replace(
        arena.info,
        fits=all(item.fits for item in placed.parts),
        findings=(*findings, *finding_infos(tuple(missing_findings(placed)))),
        places=placed.parts,
        placements=placed.placements,
    )
    return replace(arena, info=info, placed=placed)


def _refuse_state_in_head(model: SharedModel) -> None:
    graphs = model.source.model.subgraphs
    for subgraph, index in model.plan.offsets or ():
        tensor = graphs[subgraph].tensors[index]
        if tensor.is_variable:
            raise UnsupportedModelError(
                f"the memory plan in the file places the variable tensor {index} ({tensor.name!r}) in the memory that "
                "the models share: the other models would overwrite its state",
                where=model.source.name,
                fix="replan the model with 'edgetool plan --replan'",
            )


def _info(
    name: str, models: Sequence[SharedModel], target: Target | None, account: SharedAccount | None, height: int
) -> SharedArenaInfo:
    names = tuple(model.name for model in models)
    exact = account is not None and not account.is_lower_bound
    separate = [model.plan.account.bytes for model in models if model.plan.account is not None]
    fits, findings = _judge_arena(models, target, account, height)
    if account is None:
        parts = [SharedModelInfo(each, None, None) for each in names]
    else:
        parts = [
            SharedModelInfo(each, part.head_bytes, part.tail_bytes)
            for each, part in zip(names, account.parts, strict=True)
        ]
    return SharedArenaInfo(
        name=name,
        bytes=account.bytes if account is not None else None,
        used_bytes=account.used_bytes if account is not None else None,
        head_bytes=account.head_bytes if account is not None else None,
        tail_bytes=account.tail_bytes if account is not None else None,
        is_lower_bound=not exact,
        fits=fits,
        separate_bytes=sum(separate) if len(separate) == len(models) else None,
        order=names,
        best_order=tuple(names[position] for position in account.best_order) if account is not None and exact else None,
        best_order_bytes=account.best_bytes if account is not None and exact else None,
        models=tuple(parts),
        findings=finding_infos(tuple(findings)),
    )


def _judge_arena(
    models: Sequence[SharedModel], target: Target | None, account: SharedAccount | None, height: int
) -> tuple[bool | None, list[Finding]]:
    """Return whether the arena fits its region, and findings on memory, a lower bound and a better order."""
    if target is None or account is None:
        text = (
            f"the exact size of the shared arena depends on the core and its kernels: without a target, only a lower "
            f"bound of {height:,} bytes is known; specify one with --target"
        )
        return None, [Finding("shared-arena-lower-bound", text, level="note")]
    model_bytes = sum(len(model.source.blob) for model in models)
    fit, _ = judge_fit(
        target,
        model_bytes=model_bytes,
        arena_bytes=None if account.is_lower_bound else account.bytes,
        arena_lower_bound_bytes=account.bytes,
    )
    findings = []
    if fit.arena_fits is False:
        at_least = "at least " if account.is_lower_bound else ""
        text = f"the shared arena needs {at_least}{account.bytes:,} bytes; {fit.region} has {fit.sram_bytes:,}"
        findings.append(Finding("shared-arena-too-large", text, where=target.name))
    if fit.model_fits is False:
        text = f"the models take {model_bytes:,} bytes in total; the flash has {fit.flash_bytes:,}"
        findings.append(Finding("models-too-large", text, where=target.name))
    if account.is_lower_bound:
        text = (
            f"some of the models' allocations are unknown: the shared arena of {account.bytes:,} bytes is a lower bound"
        )
        findings.append(Finding("shared-arena-lower-bound", text, level="warning"))
    elif account.best_bytes < account.bytes:
        order = ", ".join(models[position].name for position in account.best_order)
        text = (
            f"if initialised in the order {order}, the models need an arena of {account.best_bytes:,} bytes instead of "
            f"{account.bytes:,}: specify them in that order"
        )
        findings.append(Finding("shared-arena-order", text))
    return fit.arena_fits, findings


# Files that exist once, regardless of the number of models.
COMMON_FILES = ("main.cc", "CMakeLists.txt")


def shared_names(
    group: str, names: Sequence[str], request: FirmwareRequest, *, with_places: bool = False
) -> tuple[str, ...]:
    """Return the names of all files.

    Raises UsageError if two models, or a model and the arena, would write the same file.
    """
    owners: dict[str, str] = {}
    names_in_order: list[str] = []
    arena_files = [f"{group}_arena.h", *([f"{group}_arena.cc"] if request.has_program else [])]
    arena_files += [f"{group}_memories.ld"] if with_places else []
    by_model = [(name, [file for file in firmware_names(name, request) if file not in COMMON_FILES]) for name in names]
    for owner, files in [*by_model, (group, arena_files)]:
        for file in files:
            # Some file systems do not distinguish upper and lower case.
            other = owners.setdefault(file.lower(), owner)
            if other != owner:
                text = f"{owner!r} and {other!r} would both write a file {file}"
                raise UsageError(text, fix="rename one of the models, or the arena with --name")
            names_in_order.append(file)
    return (*names_in_order, *(file for file in firmware_names(group, request) if file in COMMON_FILES))


def shared_files(
    arena: SharedArena,
    models: Sequence[SharedModel],
    target: Target | None,
    request: FirmwareRequest,
    custom: Mapping[str, OperatorEntry],
) -> dict[str, bytes]:
    """Return the contents of all files, by the names that shared_names returns.

    Raises UnsupportedModelError if a program is requested, but TFLM lacks an operator of a model.
    """
    files: dict[str, bytes] = {}
    programs = with_same_kernels([_program(arena.info.name, model, target, request, custom) for model in models])
    places = () if arena.placed is None else _shared_specs(arena.placed)
    for model, program in zip(models, programs, strict=True):
        files |= model_files(program.header, model.source.blob, request, model_section(places))
        if request.has_program:
            files |= program_files(program, request)
    spec = replace(_arena_spec(arena, programs), places=places)
    if places:
        code = None if arena.placed is None else placed_code(arena.placed.code, LIBRARY_FILES)
        files[f"{spec.name}_memories.ld"] = linker_script(spec.name, spec.tool_version, places, code).encode("ascii")
    texts = {f"{spec.name}_arena.h": arena_header(spec, with_source=request.has_program)}
    if request.has_program:
        texts |= {f"{spec.name}_arena.cc": arena_source(spec), "main.cc": main_source(programs)}
    if request.project == "cmake":
        texts["CMakeLists.txt"] = cmake_lists(spec, data=request.data, profile=request.profile)
    return files | {file: text.encode("ascii") for file, text in texts.items()}


def _shared_specs(placed: Placed) -> tuple[PlacedSpec, ...]:
    """Return the parts of models that share two arenas."""
    return tuple(replace(item, part="models") if item.part == "model" else item for item in placed_specs(placed))


def _program(
    group: str,
    model: SharedModel,
    target: Target | None,
    request: FirmwareRequest,
    custom: Mapping[str, OperatorEntry],
) -> ProgramSpec:
    """Return the contents of one model's files; without a program, its operators do not matter and are left out."""
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
        head_bytes=arena.min_head_bytes if account is None else account.head_bytes,
        tail_bytes=0 if account is None else account.tail_bytes,
    )


ArenaStyle = Literal["offsets", "buffers"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """The result of `emit_files`. shared: the shared buffers, for arena style "buffers"."""

    report: Report
    files: tuple[Path, ...]
    shared: SharedLayout | None = None
    interrupted: bool = False


def emit_files(
    path: Path,
    target: Target | None,
    *,
    output: Path | None = None,
    name: str | None = None,
    request: FirmwareRequest | None = None,
    arena_style: ArenaStyle = "offsets",
    sharing: Algorithm | None = None,
    place: str | None = None,
    custom_operators: Path | None = None,
    force: bool = False,
) -> Emitted:
    """Write the firmware files of a .tflite.

    Args:
        path: The .tflite.
        target: The target, if any.
        output: The directory to write to; by default NAME-firmware.
        name: The name for files and in C; by default, it is derived from the file's name.
        request: Which files to write; by default a plain project, or only the header and the data for shared buffers.
        arena_style: "offsets" of tensors in an arena, as in the file's memory plan; or whole "buffers" that tensors
            share, for runtimes without an arena.
        sharing: The algorithm for shared buffers; by default "dynamic-programming".
        place: The memories of head, tail and model (target/places.py), or "auto"; by default, head and tail are one
            arena.
        custom_operators: The user's description of custom operators.
        force: Whether to replace existing files.

    Raises:
        UsageError: `sharing` is specified without buffers, or a TFLM program is requested with them.
        UnsupportedModelError: A program is requested, but TFLM lacks an operator of the model.
    """
    if sharing is not None and arena_style != "buffers":
        raise UsageError(f"--sharing {sharing} applies only to shared buffers", fix="add --arena-style buffers")
    with_buffers = arena_style == "buffers"
    request = request or (HEADER_ONLY if with_buffers else FirmwareRequest())
    request.require_tflm()
    if with_buffers and request.has_program:
        raise UsageError(
            f"shared buffers are for runtimes without an arena: --project {request.project} generates a TFLM program",
            fix="use --project header",
        )
    if with_buffers and place is not None:
        raise UsageError("shared buffers have no head and no tail", fix=f"omit --arena-style buffers or {OPTION}")
    check_places(place, target, PlanRequest())
    on_name = name_findings(path, name)
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    custom = read_custom_operators(custom_operators)
    inputs = (path,) if custom_operators is None else (path, custom_operators)
    source = open_tflite(path)
    names = firmware_names(name, request, with_buffers=with_buffers, with_places=place is not None)
    check_writable(directory, _except_model(directory, names, path), force=force, inputs=inputs)
    analysis = analyse(source, target, PlanRequest(file_plan="only"), custom=custom)
    shared, interrupted = None, False
    if with_buffers:
        with interruptible(DEFAULT_SECONDS) as deadline:
            problem = whole_problem(source.model, analysis.plan.timeline)
            shared = SharedBuffers(
                problem, shared_offsets(problem, sharing or "dynamic-programming", deadline.effort())
            )
        interrupted = deadline.interrupted
    placed = None
    if target is not None and place is not None:
        placed = exactly_placed(in_places(source, analysis, target, place, custom), source)
        analysis = placed.judged(analyse(source, placed.target, plan=analysis.plan, custom=custom))
    contents = firmware_files(
        name, source, analysis.plan, target, request=request, shared=shared, placed=placed, custom=custom
    )
    written = {file: contents[file] for file in _except_model(directory, tuple(contents), path)}
    files = write_files(directory, written, force=force, inputs=inputs)
    if shared is not None:
        findings: tuple[Finding, ...] = (_shared_finding(shared.layout),)
    else:
        findings = plan_findings(source.model, analysis.plan, target) if analysis.plan.offsets else (NO_PLAN,)
    if request.has_program:
        findings += unknown_arena_findings(name, analysis.plan)
    findings += on_name
    options: dict[str, object] = {
        "command": "emit",
        "name": name,
        **request.as_options(),
        "arena_style": arena_style,
        "sharing": sharing or "dynamic-programming" if with_buffers else None,
        "custom_operators": file_name(custom_operators),
        "place": place,
    }
    return Emitted(
        with_placed(report(source, analysis, options=options, findings=findings), placed),
        files,
        shared.layout if shared else None,
        interrupted,
    )


def _except_model(directory: Path, names: tuple[str, ...], model: Path) -> tuple[str, ...]:
    """Return the names without that of the model itself, if it already is in the directory."""
    return tuple(name for name in names if not ((directory / name).exists() and (directory / name).samefile(model)))


def _shared_finding(shared: SharedLayout) -> Finding:
    proof = "which is optimal" if shared.proof != "none" else f"the lower bound is {shared.lower_bound:,}"
    cut_short = "; the search was cut short" if shared.cut_short else ""
    text = (
        f"{len(shared.sizes)} shared buffers take {shared.optimized_bytes:,} bytes, {proof}{cut_short}; without "
        f"sharing, the tensors would take {shared.baseline_bytes:,}"
    )
    return Finding("shared-buffers", text)


DEFAULT_GROUP = "shared"


@dataclass(frozen=True, slots=True)
class EmittedShared:
    """The result of `emit_shared`: a report for each model, in order, the arena, and the written files."""

    reports: tuple[Report, ...]
    arena: SharedArenaInfo
    files: tuple[Path, ...]


def emit_shared(
    paths: Sequence[Path],
    target: Target | None,
    *,
    output: Path | None = None,
    name: str | None = None,
    request: FirmwareRequest | None = None,
    arena_style: ArenaStyle = "offsets",
    sharing: Algorithm | None = None,
    place: str | None = None,
    custom_operators: Path | None = None,
    force: bool = False,
) -> EmittedShared:
    """Write the files of each model, of the arena that the models share, and one main.cc.

    Args:
        paths: The models, which are initialised in this order; each is named after its file.
        target: The target, if any.
        output: The directory to write to; by default GROUP-firmware.
        name: GROUP, the name of the arena; by default "shared".
        request: Which files to write; by default a plain project. With project "header", the arena is only a header.
        arena_style: Must be "offsets".
        sharing: Must be None.
        place: The memories of head, tail and models (target/places.py), or "auto"; by default, head and tail are one
            arena.
        custom_operators: The user's description of the custom operators of all models.
        force: Whether to replace existing files.

    Raises:
        UsageError: There are fewer than two models, a model occurs twice, names conflict, or shared buffers are
            requested.
        UnsupportedModelError: A program is requested, but TFLM lacks an operator of a model; or, with the plan of a
            file, the models would overwrite each other's state.
    """
    if arena_style == "buffers" or sharing is not None:
        what = "--shared-arena cannot be combined with --arena-style buffers or --sharing"
        raise UsageError(what, fix="omit --arena-style and --sharing")
    if len(paths) < 2:
        raise UsageError(
            f"--shared-arena needs at least two models, not {len(paths)}", fix="specify two or more .tflite files"
        )
    request = request or FirmwareRequest()
    request.require_tflm()
    check_places(place, target, PlanRequest())
    group = output_name(Path(DEFAULT_GROUP), name or DEFAULT_GROUP)
    names = [output_name(path, None) for path in paths]
    _refuse_same_names(group, names, paths)
    directory = output or Path(f"{group}-firmware")
    custom = read_custom_operators(custom_operators)
    inputs = (*paths, *(() if custom_operators is None else (custom_operators,)))
    sources = [open_tflite(path) for path in paths]
    _refuse_same_models(sources, paths)
    in_place = _models_in_place(directory, names, paths)
    expected = shared_names(group, names, request, with_places=place is not None)
    check_writable(directory, tuple(file for file in expected if file not in in_place), force=force, inputs=inputs)
    customs = [_custom_of_model(custom, sources, position) for position in range(len(sources))]
    analyses = [
        analyse(source, target, PlanRequest(file_plan="only"), custom=model_custom)
        for source, model_custom in zip(sources, customs, strict=True)
    ]
    models = [
        SharedModel(each, source, analysis.plan)
        for each, source, analysis in zip(names, sources, analyses, strict=True)
    ]
    arena = shared_arena(group, models, target, custom)
    if target is not None and place is not None:
        pairs = list(zip(sources, analyses, strict=True))
        arena = _in_places(arena, shared_in_places(pairs, target, place, custom), group)
    contents = shared_files(arena, models, target, request, custom)
    written = {file: content for file, content in contents.items() if file not in in_place}
    files = write_files(directory, written, force=force, inputs=inputs)
    options: dict[str, object] = {
        "command": "emit",
        **request.as_options(),
        "shared_arena": group,
        "custom_operators": file_name(custom_operators),
        "place": place,
    }
    reports = tuple(
        report(
            model.source,
            analysis,
            options={**options, "name": model.name},
            findings=(
                *(plan_findings(model.source.model, model.plan, target) if model.plan.offsets else (NO_PLAN,)),
                *name_findings(path, None, fix="rename the file to get another"),
            ),
        )
        for path, model, analysis in zip(paths, models, analyses, strict=True)
    )
    return EmittedShared(reports, arena.info, files)


def _refuse_same_names(group: str, names: Sequence[str], paths: Sequence[Path]) -> None:
    """Raise UsageError for names that differ at most in case.

    They have the same macros and, on some systems, the same file names.
    """
    seen = {model_macro(group): f"the arena {group}"}
    for name, path in zip(names, paths, strict=True):
        macro = model_macro(name)
        if macro in seen:
            fix = "rename one of the files"
            if macro == model_macro(group):
                fix = "choose a different arena name with --name, or rename the file"
            raise UsageError(
                f"would have the name {name!r} in C, which conflicts with {seen[macro]}", where=str(path), fix=fix
            )
        seen[macro] = str(path)


def _refuse_same_models(sources: Sequence[Source], paths: Sequence[Path]) -> None:
    seen: dict[bytes, Path] = {}
    for source, path in zip(sources, paths, strict=True):
        if source.blob in seen:
            raise UsageError(
                f"is the same model as {seen[source.blob]}", where=str(path), fix="specify each model once"
            )
        seen[source.blob] = path


def _models_in_place(directory: Path, names: Sequence[str], paths: Sequence[Path]) -> frozenset[str]:
    """Return the names of the models that already are in the directory, where the assembler will read them."""
    by_file = {f"{name}.tflite": path for name, path in zip(names, paths, strict=True)}
    return frozenset(
        file for file, path in by_file.items() if (directory / file).exists() and (directory / file).samefile(path)
    )


def _custom_of_model(
    custom: Mapping[str, OperatorEntry], sources: Sequence[Source], position: int
) -> dict[str, OperatorEntry]:
    """Return the descriptions that concern a model: of its own operators, and of operators that no model uses."""
    codes = [
        {operator.custom_code for graph in source.model.subgraphs for operator in graph.operators} for source in sources
    ]
    others = set().union(*codes) - codes[position]
    return {code: entry for code, entry in custom.items() if code not in others}
