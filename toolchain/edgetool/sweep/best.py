"""The best accepted variant for a target, and its firmware files, made by the same way as those of `convert`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgetool.errors import FailedCheckError, InternalError, UsageError
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.pipeline.delivery import (
    Converted,
    Destination,
    Origin,
    Progress,
    conversion_findings,
    default_directory,
    deliver,
)
from edgetool.pipeline.firmware import FirmwareRequest, name_findings, output_name
from edgetool.pipeline.reporting import model_info
from edgetool.pipeline.source import Source, sha256_of
from edgetool.report.document import ModelInfo, OutputInfo
from edgetool.sweep.front import AXES, INSTEAD, axis
from edgetool.sweep.jobs import MODEL_BLOB, TFLITE_BLOB
from edgetool.sweep.metrics import PRECISIONS, Row
from edgetool.sweep.store import Store, SweepRecord, read_notes, read_original, read_quantization, read_versions
from edgetool.sweep.targets import resolved

# What decides between variants that are equal in the axis that is asked for, in this order; then the lower number. With
# those of the usual front before the others, the best is on that front.
TIES = (
    "accuracy", "latency_ms", "arena_bytes", "model_bytes", "energy_uj", "macs", "model_parameters", "sqnr_db",
)  # fmt: skip
NEAREST = 3
HELPS = "relax the limits, prune more, or choose a larger target"


def best_row(rows: Sequence[Row], target: str, by: str = "accuracy") -> Row:
    """The accepted row of the target that is best in the axis; where some are equal in it, by TIES, then the number.

    target: a label of the sweep's. Without any accuracy, SQNR stands for it. A row that lacks the figure comes last.
    Raises UsageError for an unknown target or axis, and for one of which nothing is known; FailedCheckError where no
    row is accepted, with the reasons of those that are nearest.
    """
    axis(by)
    labels = tuple(dict.fromkeys(row.variant.target for row in rows))
    if target not in labels:
        raise UsageError(
            f"the sweep has no target {target[:40]!r}",
            fix=f"use one of {', '.join(labels)}" if labels else "run the sweep first",
        )
    own = [row for row in rows if row.variant.target == target]
    accepted = [row for row in own if row.judged is not None and row.judged.accepted]
    if not accepted:
        raise _none_accepted(own, target)
    names = (by, *((INSTEAD[by],) if by in INSTEAD else ()))
    known = [name for name in names if any(AXES[name].value(row) is not None for row in accepted)]
    if not known:
        raise UsageError(
            f"{by} is unknown for all accepted variants", where=target, fix=f"use one of {', '.join(AXES)}"
        )
    order = tuple(dict.fromkeys((known[0], *TIES)))
    return min(accepted, key=lambda row: (*(_rank(row, name) for name in order), row.number))


def _rank(row: Row, name: str) -> float:
    """Lower is better; what is not known is worst."""
    value = AXES[name].value(row)
    return math.inf if value is None else AXES[name].sign * value


def _none_accepted(rows: Sequence[Row], target: str) -> FailedCheckError:
    judged = sorted(
        (row for row in rows if row.judged is not None),
        key=lambda row: (len(row.judged.rejected) if row.judged else 0, _rank(row, "arena_bytes"), row.number),
    )
    others = [row for row in rows if row.judged is None]
    details = [f"{_called(row)}: {'; '.join(row.judged.rejected)}" for row in judged[:NEAREST] if row.judged]
    details += [f"{_called(row)}: {row.reason or 'not run yet'}" for row in others][: NEAREST - len(details)]
    unknown = [_lacks_energy(row) for row in judged]
    fix = "omit max_energy, or specify the power in the target's profile" if unknown and all(unknown) else HELPS
    return FailedCheckError(
        f"none of the {len(rows)} variants is accepted" if len(rows) != 1 else "the only variant is not accepted",
        where=target,
        fix=fix,
        details=tuple(details),
    )


def _lacks_energy(row: Row) -> bool:
    """Whether it is rejected since nobody knows its energy."""
    known = row.metrics is None or row.metrics.cost.energy_uj is not None
    return not known and row.judged is not None and "energy" in row.judged.causes


def _called(row: Row) -> str:
    variant = row.variant
    parameters = "".join(f", {name} {value}" for name, value in variant.parameters)
    return f"{row.number} (level {variant.level:g}, {variant.precision}{parameters})"


def write_best(
    store: Store,
    row: Row,
    *,
    output: Path | None = None,
    name: str | None = None,
    firmware: FirmwareRequest | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Write the firmware files of a row that is done, the model planned anew for its target.

    output: the directory, by default NAME-firmware. name: of files and C names, by default the model file's, of a
    builder the sweep's. The .tflite is the very one that `convert` writes of the same model with the same options.
    Raises UsageError for a row that is not done or is not the store's, OutputError for what cannot be written.
    """
    record = store.sweep()
    keys = _keys(store, row)
    spec = next((item for item in record.targets if item.label == row.variant.target), None)
    if spec is None:
        raise UsageError(f"the sweep has no target {row.variant.target!r}", where=str(store.path))
    target = resolved(spec)
    named = name_findings(_named_after(record), name)
    name = output_name(_named_after(record), name)
    wanted = firmware or FirmwareRequest()
    destination = Destination(name, output or default_directory(name), wanted, force=force, inputs=(store.path,))
    destination.check()
    blob = store.blob(keys["convert"], TFLITE_BLOB)
    source = Source(f"{name}.tflite", blob, read_model(blob, name=f"{name}.tflite"))
    request = PlanRequest(seed=int(record.options.get("seed", 0)))
    origin = _origin(store, record, row, keys, source)
    return deliver(
        source,
        replace(origin, findings=(*origin.findings, *named)),
        target,
        destination,
        options=_options(record, row, request, destination),
        renumber=True,
        request=request,
        progress=progress,
    )


def _named_after(record: SweepRecord) -> Path:
    """The model's file, or one that is called as the sweep of a builder."""
    return Path(record.model if record.options.get("builder") is None else f"{record.name}.toml")


def _keys(store: Store, row: Row) -> dict[str, str]:
    """The keys of the row's jobs by kind; all of them are done."""
    entry = next((item for item in store.entries() if (item.number, item.variant) == (row.number, row.variant)), None)
    if entry is None:
        raise UsageError(f"has no variant {_called(row)}", where=str(store.path), fix="reload its rows")
    if row.status != "done":
        why = row.reason or "it has not been run yet"
        raise UsageError(
            f"variant {_called(row)} has no model: {why}", where=str(store.path), fix="choose another variant"
        )
    return dict(entry.keys)


def _origin(store: Store, record: SweepRecord, row: Row, keys: Mapping[str, str], source: Source) -> Origin:
    """What the report of the conversion says beside the plan."""
    where = f"{store.path}: variant {row.number}"
    outcome = store.outcome(keys["convert"])
    if outcome is None:
        raise InternalError(f"variant {row.number} is done, but its converted model is missing", where=str(store.path))
    value = outcome.value
    quantization = read_quantization(value, where)
    return Origin(
        _original(store, record, keys, source, read_original(value, where)),
        quantization,
        conversion_findings(quantization, read_notes(value, where)),
        read_versions(value, where),
        trust_model_code=bool(record.options.get("trust_model_code")),
        arena_bytes=None if row.metrics is None else row.metrics.cost.arena_bytes,
    )


def _original(
    store: Store, record: SweepRecord, keys: Mapping[str, str], source: Source, told: OutputInfo | None
) -> ModelInfo:
    """The Keras file that was converted: the one that a job made, or the user's; where nothing tells of that, the
    converted file stands for it. Counts are those of the converted model."""
    info = model_info(source)
    made = keys.get("prune", keys.get("build"))
    if made is not None:
        blob = store.blob(made, MODEL_BLOB)
        return replace(info, name=f"{_named_after(record).stem}.keras", sha256=sha256_of(blob), bytes=len(blob))
    return info if told is None else replace(info, name=record.model, sha256=told.sha256, bytes=told.bytes)


def _options(record: SweepRecord, row: Row, request: PlanRequest, destination: Destination) -> dict[str, object]:
    """What was asked for: of the sweep, of the variant and of its files. Files by name alone, as in the record."""
    variant, precision = row.variant, PRECISIONS[row.variant.precision]
    return {
        "command": "sweep best",
        "sweep": record.name,
        "name": destination.name,
        "variant": row.number,
        "level": variant.level,
        "precision": precision.name,
        "parameters": dict(variant.parameters),
        **record.options,
        "quantize": precision.quantize,
        "dense_per_tensor": precision.dense_per_tensor,
        "offline_plan": True,
        "replan": False,
        **request.as_options(),
        **destination.firmware.as_options(),
    }
