"""The C files of a .tflite.

Several models in one arena: its account, and what is to be said of it.

From models that share an arena to their firmware files in memory.

The firmware files of several .tflite that share one arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgetool import __version__
from edgetool.codegen.c_names import model_macro
from edgetool.codegen.cmake.project import cmake_lists
from edgetool.codegen.spec import ProgramSpec, SharedArenaSpec
from edgetool.codegen.tflm.arena import arena_header, arena_source
from edgetool.codegen.tflm.main import main_source
from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.gate.judge import judge_fit
from edgetool.memory.account import SharedAccount, Tenant, account_shared
from edgetool.memory.planner import DEFAULT_SECONDS, Plan, PlanRequest
from edgetool.memory.sharing.plan import SharedLayout, shared_offsets, whole_problem
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
    own_arena_findings,
    program_files,
    program_spec,
)
from edgetool.pipeline.output import check_writable, write_files
from edgetool.pipeline.planning import NO_PLAN, interruptible, plan_findings
from edgetool.pipeline.reporting import finding_infos, report
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.report.document import Report, SharedArenaInfo, SharedModelInfo
from edgetool.target.platform import platform_of
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class SharedModel:
    """One of the models: its C name, its file and the plan in that file."""

    name: str
    source: Source
    plan: Plan


@dataclass(frozen=True, slots=True)
class SharedArena:
    """The arena: its account, None without a target, and what the document says of it.

    known_head_bytes: what the heads are known to take without a target.
    """

    account: SharedAccount | None
    known_head_bytes: int
    info: SharedArenaInfo


def shared_arena(
    name: str, models: Sequence[SharedModel], target: Target | None, custom: Mapping[str, OperatorEntry]
) -> SharedArena:
    """The arena of these models, initialised in this order, each with the plan in its file.

    name: the arena's C name; custom: operators that the user describes, by custom code. Raises UnsupportedModelError
    where a plan puts what a model must remember to where the others write.
    """
    for model in models:
        _refuse_state_in_head(model)
    account = None
    if target is not None:
        tenants = [Tenant(model.source.model, model.plan.offsets) for model in models]
        account = account_shared(tenants, platform_of(target), custom=custom)
    height = max(model.plan.layout.height for model in models)
    return SharedArena(account, height, _info(name, models, target, account, height))


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
    fits, findings = _judged(models, target, account, height)
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


def _judged(
    models: Sequence[SharedModel], target: Target | None, account: SharedAccount | None, height: int
) -> tuple[bool | None, list[Finding]]:
    """Whether the arena fits the region, and the findings: memory, a lower bound, a better order."""
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
        least = "at least " if account.is_lower_bound else ""
        text = f"the shared arena needs {least}{account.bytes:,} bytes; {fit.region} has {fit.sram_bytes:,}"
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


ArenaStyle = Literal["offsets", "buffers"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """What `emit` made. shared: the buffers of the arena style "buffers"."""

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
    custom_operators: Path | None = None,
    force: bool = False,
) -> Emitted:
    """Write the firmware files of a .tflite into `output`, by default the directory NAME-firmware.

    request: which files, by default a plain project, with shared buffers header and data alone. arena_style: "offsets"
    of tensors in an arena, as in the file's memory plan; or whole "buffers" that tensors share, for runtimes without an
    arena, and `sharing` is how they are found, "dynamic-programming" when not given. custom_operators: the user's
    description of custom operators. Raises UsageError for sharing without buffers, and a program for TFLM with them;
    UnsupportedModelError for a program of a model whose operators TFLM lacks.
    """
    if sharing is not None and arena_style != "buffers":
        raise UsageError(f"--sharing {sharing} applies only to shared buffers", fix="add --arena-style buffers")
    with_buffers = arena_style == "buffers"
    request = request or (HEADER_ONLY if with_buffers else FirmwareRequest())
    if with_buffers and request.has_program:
        raise UsageError(
            f"shared buffers are for runtimes without an arena: --project {request.project} generates a TFLM program",
            fix="use --project header",
        )
    named = name_findings(path, name)
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    custom = read_custom_operators(custom_operators)
    inputs = (path,) if custom_operators is None else (path, custom_operators)
    source = open_tflite(path)
    names = firmware_names(name, request, with_buffers=with_buffers)
    check_writable(directory, _others(directory, names, path), force=force, inputs=inputs)
    analysis = analyse(source, target, PlanRequest(file_plan="only"), custom=custom)
    shared, interrupted = None, False
    if with_buffers:
        with interruptible(DEFAULT_SECONDS) as deadline:
            problem = whole_problem(source.model, analysis.plan.timeline)
            shared = SharedBuffers(
                problem, shared_offsets(problem, sharing or "dynamic-programming", deadline.effort())
            )
        interrupted = deadline.interrupted
    made = firmware_files(name, source, analysis.plan, target, request=request, shared=shared, custom=custom)
    written = {file: made[file] for file in _others(directory, tuple(made), path)}
    files = write_files(directory, written, force=force, inputs=inputs)
    if shared is not None:
        findings: tuple[Finding, ...] = (_shared_finding(shared.layout),)
    else:
        findings = plan_findings(source.model, analysis.plan, target) if analysis.plan.offsets else (NO_PLAN,)
    if request.has_program:
        findings += own_arena_findings(name, analysis.plan)
    findings += named
    options: dict[str, object] = {
        "command": "emit",
        "name": name,
        **request.told(),
        "arena_style": arena_style,
        "sharing": sharing or "dynamic-programming" if with_buffers else None,
        "custom_operators": file_name(custom_operators),
    }
    return Emitted(
        report(source, analysis, options=options, findings=findings),
        files,
        shared.layout if shared else None,
        interrupted,
    )


def _others(directory: Path, names: tuple[str, ...], model: Path) -> tuple[str, ...]:
    """The files but for the model itself, which the assembler may read where it is."""
    return tuple(name for name in names if not ((directory / name).exists() and (directory / name).samefile(model)))


def _shared_finding(shared: SharedLayout) -> Finding:
    known = "which is optimal" if shared.proof != "none" else f"the lower bound is {shared.lower_bound:,}"
    cut = "; the search was cut short" if shared.cut_short else ""
    text = (
        f"{len(shared.sizes)} shared buffers take {shared.optimized_bytes:,} bytes, {known}{cut}; without "
        f"sharing, the tensors would take {shared.baseline_bytes:,}"
    )
    return Finding("shared-buffers", text)


GROUP = "shared"


@dataclass(frozen=True, slots=True)
class EmittedShared:
    """What `emit --shared-arena` made: a report for each model, in order, and the arena."""

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
    custom_operators: Path | None = None,
    force: bool = False,
) -> EmittedShared:
    """Write the files of each model, the arena that they share and one main.cc into `output`, or GROUP-firmware.

    The models are initialised in the order of their paths. name: GROUP, what the arena is called, by default "shared";
    each model has its file's name. request: which files, by default a plain project; with project "header" the
    arena is a header alone. custom_operators: the user's description of custom operators, of all models. Raises
    UsageError for fewer than two models, one given twice, names that meet, or shared buffers; UnsupportedModelError for
    a program of a model whose operators TFLM lacks, and a plan that has the models overwrite each other's state.
    """
    if arena_style == "buffers" or sharing is not None:
        what = "--shared-arena cannot be combined with --arena-style buffers or --sharing"
        raise UsageError(what, fix="omit --arena-style and --sharing")
    if len(paths) < 2:
        raise UsageError(
            f"--shared-arena needs at least two models, not {len(paths)}", fix="specify two or more .tflite files"
        )
    request = request or FirmwareRequest()
    group = output_name(Path(GROUP), name or GROUP)
    names = [output_name(path, None) for path in paths]
    _refuse_one_name(group, names, paths)
    directory = output or Path(f"{group}-firmware")
    custom = read_custom_operators(custom_operators)
    inputs = (*paths, *(() if custom_operators is None else (custom_operators,)))
    sources = [open_tflite(path) for path in paths]
    _refuse_one_model(sources, paths)
    lying = _models_in_place(directory, names, paths)
    expected = shared_names(group, names, request)
    check_writable(directory, tuple(file for file in expected if file not in lying), force=force, inputs=inputs)
    used = [_used(custom, sources, position) for position in range(len(sources))]
    analyses = [
        analyse(source, target, PlanRequest(file_plan="only"), custom=own)
        for source, own in zip(sources, used, strict=True)
    ]
    models = [
        SharedModel(each, source, analysis.plan)
        for each, source, analysis in zip(names, sources, analyses, strict=True)
    ]
    arena = shared_arena(group, models, target, custom)
    made = shared_files(arena, models, target, request, custom)
    written = {file: content for file, content in made.items() if file not in lying}
    files = write_files(directory, written, force=force, inputs=inputs)
    options: dict[str, object] = {
        "command": "emit",
        **request.told(),
        "shared_arena": group,
        "custom_operators": file_name(custom_operators),
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


def _refuse_one_name(group: str, names: Sequence[str], paths: Sequence[Path]) -> None:
    """Names that differ only in case have the same macros, and on some systems the same files."""
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


def _refuse_one_model(sources: Sequence[Source], paths: Sequence[Path]) -> None:
    seen: dict[bytes, Path] = {}
    for source, path in zip(sources, paths, strict=True):
        if source.blob in seen:
            raise UsageError(
                f"is the same model as {seen[source.blob]}", where=str(path), fix="specify each model once"
            )
        seen[source.blob] = path


def _models_in_place(directory: Path, names: Sequence[str], paths: Sequence[Path]) -> frozenset[str]:
    """The models that lie already where the assembler will read them."""
    own = {f"{name}.tflite": path for name, path in zip(names, paths, strict=True)}
    return frozenset(
        file for file, path in own.items() if (directory / file).exists() and (directory / file).samefile(path)
    )


def _used(custom: Mapping[str, OperatorEntry], sources: Sequence[Source], position: int) -> dict[str, OperatorEntry]:
    """The descriptions that concern a model: those of its operators, and those of operators that no model has."""
    codes = [
        {operator.custom_code for graph in source.model.subgraphs for operator in graph.operators} for source in sources
    ]
    others = set().union(*codes) - codes[position]
    return {code: entry for code, entry in custom.items() if code not in others}
