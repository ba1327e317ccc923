"""What a store keeps of its sweep, beside the variants: what tables, judgements and plots need without a sweep.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from edgetool.gate.limits import Budget
from edgetool.report.json import plain
from edgetool.sweep.spec import Strategy, SweepLimits, SweepSpec, TargetSpec
from edgetool.sweep.typed import require_types


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """model: the name of the model's file, or "module:function" of a builder. options: JSON, all that was asked for,
    files by name without their directories, so that the record is the same on any machine."""

    name: str
    model: str
    parameter_names: tuple[str, ...]
    targets: tuple[TargetSpec, ...]
    limits: SweepLimits
    strategy: Strategy
    objectives: tuple[str, ...]
    options: Mapping[str, Any]


def record_of(spec: SweepSpec) -> SweepRecord:
    """The record of a sweep that is about to run."""
    builder = spec.builder
    return SweepRecord(
        name=spec.name,
        model=_model_name(spec),
        parameter_names=() if builder is None else tuple(name for name, _ in builder.parameters),
        targets=spec.targets,
        limits=spec.limits,
        strategy=spec.strategy,
        objectives=spec.search.objectives,
        options=_options(spec),
    )


def record_to_json(record: SweepRecord) -> dict[str, Any]:
    """The record as a JSON value."""
    value: dict[str, Any] = plain(record)
    value["options"] = dict(record.options)
    return value


def record_from_json(value: Mapping[str, Any]) -> SweepRecord:
    """The record of what record_to_json gave. Raises KeyError, TypeError or ValueError for anything else."""
    limits = dict(value["limits"])
    active = limits["active_budget"]
    limits["budgets"] = tuple(Budget(**budget) for budget in limits["budgets"])
    limits["active_budget"] = None if active is None else Budget(**active)
    record = SweepRecord(
        name=value["name"],
        model=value["model"],
        parameter_names=tuple(value["parameter_names"]),
        targets=tuple(
            TargetSpec(**{**target, "overrides": tuple((name, given) for name, given in target["overrides"])})
            for target in value["targets"]
        ),
        limits=SweepLimits(**limits),
        strategy=value["strategy"],
        objectives=tuple(value["objectives"]),
        options=value["options"],
    )
    require_types(record)
    return record


def _model_name(spec: SweepSpec) -> str:
    if spec.builder is not None:
        return f"{spec.builder.module}:{spec.builder.function}"
    return "" if spec.model is None else spec.model.name


# Said elsewhere in the record, or not to be said: a directory of this machine.
_APART = {"name", "model", "builder", "targets", "limits", "strategy", "search", "pruning", "fine_tune"}
_FILES = ("calibration", "evaluate")


def _options(spec: SweepSpec) -> dict[str, Any]:
    flat = {item.name: getattr(spec, item.name) for item in fields(spec) if item.name not in _APART}
    files = {name: None if flat[name] is None else flat[name].name for name in _FILES}
    tune, builder = spec.fine_tune, spec.builder
    options: dict[str, Any] = plain(
        {
            **flat,
            **files,
            "pruning": spec.pruning,
            "fine_tune": None
            if tune is None
            else {
                **{name: getattr(tune, name) for name in ("epochs", "learning_rate", "batch_size", "loss")},
                "data": tune.data.name,
            },
            "builder": None
            if builder is None
            else {
                "builder": _model_name(spec),
                "files": [path.name for path in builder.files],
                "parameters": dict(builder.parameters),
            },
            "search": spec.search if spec.strategy == "search" else None,
        }
    )
    return options
