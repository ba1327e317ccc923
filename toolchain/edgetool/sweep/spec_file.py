"""Reads a sweep.toml, strictly: every key is known, every value possible, every file there, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from edgetool.convert.request import MAX_SAMPLES, METHODS, NORMALISATION, ConvertRequest, Value
from edgetool.errors import SettingsError, UsageError
from edgetool.gate.limits import parse_budget
from edgetool.sweep import spec_keys as keys
from edgetool.sweep.front import AXES
from edgetool.sweep.spec import (
    Builder,
    FineTune,
    Pruning,
    Search,
    Strategy,
    SweepLimits,
    SweepSpec,
)
from edgetool.sweep.spec_targets import read_targets
from edgetool.sweep.toml_file import read_toml
from edgetool.sweep.variant import PRECISIONS
from edgetool.target.profile import problems_as_error
from edgetool.target.schema import Section

Keys = Mapping[str, tuple[str, Callable[[object], Any]]]  # key -> field and how it is read

MAX_GRID = 100_000
MAX_SEED = 2**32 - 1
# What a file must not decide for whoever runs it.
OF_THE_COMMAND_LINE = {"trust_model_code": "--trust-model-code", "jobs": "--jobs", "scheduler": "--scheduler"}
LIMITS: Keys = {
    "active_memory_budget": ("active_budget", parse_budget),
    "reserve": ("reserve_bytes", keys.size_bytes),
    "reserve_flash": ("reserve_flash_bytes", keys.size_bytes),
    "max_latency": ("max_latency_ms", keys.latency_ms),
    "max_energy": ("max_energy_uj", keys.energy_uj),
    "min_accuracy": ("min_accuracy", keys.accuracy),
    "max_accuracy_loss": ("max_accuracy_loss", keys.accuracy_loss),
}


def read_spec(path: Path, *, trust_model_code: bool = False) -> SweepSpec:
    """The sweep that the file asks for. Paths in it are relative to its folder.

    Raises SettingsError naming file and key, its details the further problems; UsageError for a file that cannot be
    read, and for a builder without trust_model_code.
    """
    where = str(path)
    top = Section(read_toml(path, what="a sweep.toml"), [])
    spec = _spec(top, path, trust_model_code=trust_model_code)
    for name, option in OF_THE_COMMAND_LINE.items():
        if top.has(name):
            top.taken.add(name)
            top.note(name, "cannot be set in the file", f"pass {option} to 'edgetool sweep run'")
    top.finish()
    if top.problems:
        raise problems_as_error(top.problems, where, SettingsError)
    if spec.builder is not None and not trust_model_code:
        raise UsageError(
            f"{spec.builder.path.name} would be run on this machine",
            where=f"{where}: builder",
            fix="use --trust-model-code if you trust its author",
        )
    return spec


def _spec(top: Section, path: Path, *, trust_model_code: bool) -> SweepSpec:
    """The sweep; of no use where problems were noted."""
    folder = path.parent
    file, data = keys.path_in(folder), keys.path_in(folder, suffix=".npz")
    model, builder = keys.value_of(top, "model", file), _builder(top, folder)
    _check_model(top, model)
    spec = SweepSpec(
        name=top.text("name", required=False) or path.stem,
        model=model,
        builder=builder,
        precisions=keys.list_of(top, "precisions", keys.word(PRECISIONS), 'as in precisions = ["int8"]') or ("int8",),
        targets=read_targets(top, folder),
        pruning=_pruning(top, model),
        fine_tune=_fine_tune(top, data),
        search=_search(top),
        limits=_limits(top),
        trust_model_code=trust_model_code,
        **_given(
            top,
            {
                "calibration": ("calibration", file),
                "evaluate": ("evaluate", data),
                **{name: (name, keys.numbers) for name in NORMALISATION},
                "samples": ("samples", keys.whole(1, MAX_SAMPLES)),
                "seed": ("seed", keys.whole(0, MAX_SEED)),
                "strategy": ("strategy", keys.word(get_args(Strategy))),
                "job_timeout": ("job_seconds", keys.job_seconds),
            },
        ),
    )
    _check_normalisation(top, spec)
    _check_size(top, spec)
    return spec


def _given(section: Section, table: Keys) -> dict[str, Any]:
    """The fields that the file gives: what it leaves out keeps its default."""
    values = {field: keys.value_of(section, key, parse) for key, (field, parse) in table.items()}
    return {field: value for field, value in values.items() if value is not None}


def _check_model(top: Section, model: Path | None) -> None:
    if top.has("model") == top.has("builder"):
        what = (
            "both a model and a builder are specified"
            if top.has("model")
            else "neither a model nor a builder is specified"
        )
        top.note("model", what, 'write model = "model.keras", or builder = "module:function"')
    if model is not None and model.suffix.lower() == ".tflite":
        top.note("model", f"{model.name} is already converted", "specify the Keras model it was converted from")


def _builder(top: Section, folder: Path) -> Builder | None:
    named = keys.value_of(top, "builder", keys.module_and_function)
    files = keys.list_of(
        top, "builder_files", keys.path_in(folder, suffix=".py"), 'as in builder_files = ["blocks.py"]'
    )
    parameters = _parameters(top)
    for key in ("builder_files", "parameters"):
        if top.has(key) and not top.has("builder"):
            top.note(key, "requires a builder, but none is specified", 'write builder = "module:function"')
    if named is None:
        return None
    module, function = named
    path = folder / f"{module}.py"
    if not path.is_file():
        top.note(
            "builder", f"there is no {module}.py beside the sweep.toml", "specify the name of a module in that folder"
        )
    return Builder(path, module, function, files or (), parameters)


def _parameters(top: Section) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    section = top.optional("parameters")
    if section is None:
        return ()
    found = []
    for name in section.table:
        if not keys.is_name(name):
            section.note(name, "is not a valid Python parameter name")
        values = keys.list_of(section, name, keys.parameter, f"as in {name[:40]} = [0.5, 1.0]")
        found.append((name, values or ()))
    return tuple(found)


def _pruning(top: Section, model: Path | None) -> Pruning:
    section = top.optional("pruning")
    if section is None:
        return Pruning()
    levels = keys.list_of(section, "levels", keys.level, "as in levels = [0, 0.25, 0.5]")
    exclude = keys.list_of(section, "exclude", keys.pattern, 'as in exclude = ["head_*"]')
    method = _given(section, {"method": ("method", keys.word(METHODS))})
    section.finish()
    if model is not None and model.is_dir() and any(levels or ()):
        section.note("levels", "a SavedModel cannot be pruned", "provide the model as .keras or .h5, or omit levels")
    return Pruning(tuple(sorted(levels or (0.0,))), exclude=exclude or (), **method)


def _fine_tune(top: Section, data: Callable[[object], Path]) -> FineTune | None:
    section = top.optional("fine_tune")
    if section is None:
        return None
    path = keys.value_of(section, "data", data)
    if not section.has("data"):
        section.note("data", "is missing", "specify an .npz file with training data x and y")
    given = _given(
        section,
        {
            "epochs": ("epochs", keys.whole(1, 100_000)),
            "learning_rate": ("learning_rate", keys.between(1e-12, 1e3)),
            "batch_size": ("batch_size", keys.whole(1, 10**6)),
            "loss": ("loss", keys.pattern),
        },
    )
    section.finish()
    return FineTune(path or Path(), **given)


def _search(top: Section) -> Search:
    section = top.optional("search")
    if section is None:
        return Search()
    given = _given(
        section,
        {"trials": ("trials", keys.whole(1, MAX_GRID)), "batch": ("batch", keys.whole(1, 1000))},
    )
    objectives = keys.list_of(section, "objectives", keys.word(AXES), 'as in objectives = ["accuracy", "latency_ms"]')
    section.finish()
    return Search(objectives=objectives or Search().objectives, **given)


def _limits(top: Section) -> SweepLimits:
    budgets = keys.list_of(top, "memory_budgets", parse_budget, 'as in memory_budgets = ["64KiB", "256KiB:flash"]')
    return SweepLimits(budgets=budgets or (), **_given(top, LIMITS))


def _check_normalisation(top: Section, spec: SweepSpec) -> None:
    """By the conversion's own rules, which name its options. They apply to the data of fine-tuning, too."""
    try:
        ConvertRequest(
            path=Path(),
            calibration=spec.calibration,
            evaluate=spec.evaluate or (spec.fine_tune.data if spec.fine_tune is not None else None),
            **{name: getattr(spec, name) for name in NORMALISATION},
        )
    except UsageError as error:
        key = (error.where or next(name for name in NORMALISATION if getattr(spec, name) is not None)).lstrip("-")
        top.note(key, error.what.replace("--", ""), error.fix.replace("--", "") if error.fix else None)


def _check_size(top: Section, spec: SweepSpec) -> None:
    lists = [spec.pruning.levels, spec.precisions, spec.targets]
    lists += [values for _, values in spec.builder.parameters] if spec.builder else []
    variants = math.prod(len(values) for values in lists)
    if spec.strategy == "grid" and variants > MAX_GRID:
        top.note(
            "strategy",
            f"the grid has {variants:,} variants, but at most {MAX_GRID:,} can be run",
            'write strategy = "search", or shorten a list',
        )
