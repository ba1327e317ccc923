"""Choose the best accepted variant for a target, and write its firmware files as `convert` writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgetool.errors import FailedCheckError, InternalError, UsageError
from edgetool.finding import Finding
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
from edgetool.pipeline.native_emit import check_native, deliver_native
from edgetool.pipeline.planning import cleaned_up, without_faults
from edgetool.pipeline.reporting import model_info
from edgetool.pipeline.source import Source, sha256_of
from edgetool.report.document import ModelInfo, OutputInfo
from edgetool.sweep.front import AXES, FALLBACK_AXES, axis
from edgetool.sweep.jobs import MODEL_BLOB, TFLITE_BLOB, resolved
from edgetool.sweep.metrics import PRECISIONS, Row
from edgetool.sweep.store import Store, SweepRecord, read_notes, read_original, read_quantization, read_versions
from edgetool.target.platform import platform_of

# The axes that decide, in this order, between variants that are equal in the requested axis; then the lower number
# decides. The axes of the default front come first, so that the best variant is on that front.
TIE_BREAKERS = (
    "accuracy", "latency_ms", "arena_bytes", "model_bytes", "energy_uj", "macs", "model_parameters", "sqnr_db",
)  # fmt: skip
MAX_EXAMPLES = 3  # of variants that are not accepted, in an error
DEFAULT_FIX = "relax the limits, prune more, or choose a larger target"


def best_row(rows: Sequence[Row], target: str, by: str = "accuracy") -> Row:
    """Return the accepted row of the target that is best on the axis `by`; TIE_BREAKERS and the number decide ties.

    A row without a value on the axis comes last.

    Args:
        target: the label of one of the sweep's targets.
        by: a key of AXES. If no accepted row has an accuracy, SQNR replaces it.

    Raises UsageError for an unknown target or axis, and for an axis on which no accepted row has a value;
    FailedCheckError if no row is accepted, with the reasons for those that come closest.
    """
    axis(by)
    labels = tuple(dict.fromkeys(row.variant.target for row in rows))
    if target not in labels:
        raise UsageError(
            f"the sweep has no target {target[:40]!r}",
            fix=f"use one of {', '.join(labels)}" if labels else "run the sweep first",
        )
    target_rows = [row for row in rows if row.variant.target == target]
    accepted = [row for row in target_rows if row.judged is not None and row.judged.accepted]
    if not accepted:
        raise _none_accepted(target_rows, target)
    names = (by, *((FALLBACK_AXES[by],) if by in FALLBACK_AXES else ()))
    available = [name for name in names if any(AXES[name].value(row) is not None for row in accepted)]
    if not available:
        raise UsageError(
            f"{by} is unknown for all accepted variants", where=target, fix=f"use one of {', '.join(AXES)}"
        )
    order = tuple(dict.fromkeys((available[0], *TIE_BREAKERS)))
    return min(accepted, key=lambda row: (*(_rank(row, name) for name in order), row.number))


def _rank(row: Row, name: str) -> float:
    """Return the value as a sort key: lower is better, and an unknown value is the worst."""
    value = AXES[name].value(row)
    return math.inf if value is None else AXES[name].sign * value


def _none_accepted(rows: Sequence[Row], target: str) -> FailedCheckError:
    judged = sorted(
        (row for row in rows if row.judged is not None),
        key=lambda row: (len(row.judged.rejected) if row.judged else 0, _rank(row, "arena_bytes"), row.number),
    )
    others = [row for row in rows if row.judged is None]
    details = [f"{_description(row)}: {'; '.join(row.judged.rejected)}" for row in judged[:MAX_EXAMPLES] if row.judged]
    details += [f"{_description(row)}: {row.reason or 'not run yet'}" for row in others][: MAX_EXAMPLES - len(details)]
    lacks_energy = [_lacks_energy(row) for row in judged]
    all_lack_energy = bool(lacks_energy) and all(lacks_energy)
    fix = "omit max_energy, or specify the power in the target's profile" if all_lack_energy else DEFAULT_FIX
    return FailedCheckError(
        f"none of the {len(rows)} variants is accepted" if len(rows) != 1 else "the only variant is not accepted",
        where=target,
        fix=fix,
        details=tuple(details),
    )


def _lacks_energy(row: Row) -> bool:
    """Return whether the row is rejected because its energy is unknown."""
    is_known = row.metrics is None or row.metrics.cost.energy_uj is not None
    return not is_known and row.judged is not None and "energy" in row.judged.causes


def _description(row: Row) -> str:
    variant = row.variant
    parameters = "".join(f", {name} {value}" for name, value in variant.parameters)
    return f"{row.number} ({', '.join((f'level {variant.level:g}', variant.precision, *variant.planning))}{parameters})"


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
    """Plan the model of a finished row for its target again, and write its firmware files.

    The .tflite is identical to the one that `convert` writes for the same model with the same options.

    Args:
        output: the directory, by default NAME-firmware.
        name: used for files and C identifiers; by default the name of the model file, or of the sweep if a builder
            creates the model.

    Raises UsageError for a row that is not done or not in the store, OutputError if a file cannot be written.
    """
    record = store.sweep()
    keys = _keys(store, row)
    spec = next((item for item in record.targets if item.label == row.variant.target), None)
    if spec is None:
        raise UsageError(f"the sweep has no target {row.variant.target!r}", where=str(store.path))
    target = resolved(spec)
    findings_on_name = name_findings(_named_after(record), name)
    name = output_name(_named_after(record), name)
    firmware_request = firmware or FirmwareRequest()
    if target.runtime.is_native:
        check_native(firmware_request)
    directory = output or default_directory(name)
    destination = Destination(name, directory, firmware_request, force=force, inputs=(store.path,))
    destination.check()
    blob = store.blob(keys["convert"], TFLITE_BLOB)
    source = Source(f"{name}.tflite", blob, read_model(blob, name=f"{name}.tflite"))
    percent = row.variant.max_extra_macs
    if target.runtime.is_native:
        target, percent = target.with_overrides(max_extra_macs=percent), None
    request = PlanRequest(seed=int(record.options.get("seed", 0)), max_extra_macs=percent)
    origin = _origin(store, record, row, keys, source)
    if row.variant.optimize:
        source, on_cleanup = cleaned_up(source, None if target.runtime.is_native else platform_of(target))
        origin = replace(origin, findings=(*origin.findings, *on_cleanup))
    options = _options(record, row, request, destination)
    if target.runtime.is_native:
        named = replace(origin, findings=(*origin.findings, *findings_on_name))
        return deliver_native(source, named, target, destination, options=options, request=request, progress=progress)
    rewritten, sentences = without_faults(source, target)
    notes = tuple(Finding("conversion", sentence) for sentence in sentences)
    return deliver(
        rewritten,
        replace(origin, findings=(*origin.findings, *notes, *findings_on_name)),
        target,
        destination,
        options=options,
        renumber=True,
        request=request,
        progress=progress,
    )


def _named_after(record: SweepRecord) -> Path:
    """Return the path whose name the firmware files get: the model's file, or one named like the sweep of a builder."""
    return Path(record.model if record.options.get("builder") is None else f"{record.name}.toml")


def _keys(store: Store, row: Row) -> dict[str, str]:
    """Return the keys of the row's jobs by kind. Raises UsageError unless all of them are done."""
    entry = next((item for item in store.entries() if (item.number, item.variant) == (row.number, row.variant)), None)
    if entry is None:
        raise UsageError(f"has no variant {_description(row)}", where=str(store.path), fix="reload its rows")
    if row.status != "done":
        why = row.reason or "it has not been run yet"
        raise UsageError(
            f"variant {_description(row)} has no model: {why}", where=str(store.path), fix="choose another variant"
        )
    return dict(entry.keys)


def _origin(store: Store, record: SweepRecord, row: Row, keys: Mapping[str, str], source: Source) -> Origin:
    """Return what the conversion report contains besides the plan."""
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
    store: Store, record: SweepRecord, keys: Mapping[str, str], source: Source, converted_file: OutputInfo | None
) -> ModelInfo:
    """Return the Keras file that was converted: the one that a job created, or the user's.

    If the store does not identify the user's file, the converted model replaces it. Counts are those of the converted
    model.
    """
    info = model_info(source)
    model_key = keys.get("prune", keys.get("build"))
    if model_key is not None:
        blob = store.blob(model_key, MODEL_BLOB)
        return replace(info, name=f"{_named_after(record).stem}.keras", sha256=sha256_of(blob), bytes=len(blob))
    if converted_file is None:
        return info
    return replace(info, name=record.model, sha256=converted_file.sha256, bytes=converted_file.bytes)


def _options(record: SweepRecord, row: Row, request: PlanRequest, destination: Destination) -> dict[str, object]:
    """Return the options of the sweep, of the variant and of its files; files by name only, as in the record."""
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
        "optimize": variant.optimize,
        "max_extra_macs": variant.max_extra_macs,
        **destination.firmware.as_options(),
    }
