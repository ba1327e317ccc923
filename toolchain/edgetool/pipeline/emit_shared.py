"""The firmware files of several .tflite that share one arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetool.codegen.c_names import model_macro
from edgetool.errors import UsageError
from edgetool.memory.sharing.types import Algorithm
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.emit import ArenaStyle
from edgetool.pipeline.files import check_writable, write_files
from edgetool.pipeline.firmware import FirmwareRequest, name_findings, output_name
from edgetool.pipeline.planned import NO_PLAN, plan_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.shared_arena import SharedModel, shared_arena
from edgetool.pipeline.shared_firmware import shared_files, shared_names
from edgetool.pipeline.source import Source, open_tflite
from edgetool.report.document import Report, SharedArenaInfo
from edgetool.target.types import Target

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
        analyse(source, target, custom=own, wanted="as in file") for source, own in zip(sources, used, strict=True)
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
