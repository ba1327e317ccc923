"""From a Keras model, a SavedModel or a .tflite to firmware files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from edgetool.child import work_folder
from edgetool.convert.float_tflite import check_quantizable, computes_in_float, quantized_as
from edgetool.convert.request import INTEGER, TFLITE_SUFFIX, ConvertRequest
from edgetool.errors import UsageError
from edgetool.finding import Finding
from edgetool.model.writer import write_model
from edgetool.operators.types import OperatorEntry
from edgetool.passes.ends import leftover_ends, trim_ends
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.delivery import (
    Converted,
    Destination,
    Found,
    Planning,
    Progress,
    conversion_findings,
    default_directory,
    deliver,
)
from edgetool.pipeline.files import check_readable
from edgetool.pipeline.firmware import FirmwareRequest, name_findings, output_name
from edgetool.pipeline.layer_findings import layer_losses, loss_findings
from edgetool.pipeline.plan_request import PlanRequest
from edgetool.pipeline.recurrent_form import best_form
from edgetool.pipeline.reporting import model_info
from edgetool.pipeline.signal_findings import input_findings
from edgetool.pipeline.source import Source, open_tflite, own_path, sha256_of
from edgetool.report.document import ModelInfo
from edgetool.target.types import Target

# Fields of a request that say how the layers of a Keras model are loaded and converted.
KERAS_OPTIONS = ("trust_model_code", "rnn", "signature", "custom_objects", "input_shapes")
# Fields of a request that are called otherwise on the command line.
OPTIONS = {"input_shapes": "--input-shape"}


def convert_file(
    request: ConvertRequest,
    target: Target,
    *,
    output: Path | None = None,
    name: str | None = None,
    force: bool = False,
    offline_plan: bool = True,
    replan: bool = False,
    plan: PlanRequest | None = None,
    firmware: FirmwareRequest | None = None,
    custom_operators: Path | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Convert, plan as asked, estimate, judge, and write every file into `output` (by default NAME-firmware).

    A .tflite is taken as it is unless it is in float32 and the request has a `quantize`; a memory plan in one that is
    taken as it is is honoured unless `replan` says otherwise. Without `offline_plan` the model file is left as it is.
    firmware: which files beside it, by default a plain project; where TFLM lacks an operator, header and data alone,
    with a finding. custom_operators: the user's description of custom operators. strict: where any finding is an error
    nothing is written, so that no build goes on with that model.
    """
    path = request.path
    is_tflite = path.suffix.lower() == TFLITE_SUFFIX and path.is_file()
    if replan and path.exists() and not is_tflite:
        raise UsageError(
            "--replan applies only to the memory plan in a .tflite; a converted model is always planned",
            where=str(path),
            fix="omit the option",
        )
    if replan and not offline_plan:
        raise UsageError("--no-offline-plan and --replan are mutually exclusive", fix="specify only one of them")
    wishes = plan or PlanRequest()
    if not offline_plan and (wishes.order or wishes.strategy):
        raise UsageError("--no-offline-plan leaves the file unchanged: --order and --strategy cannot be applied")
    named = name_findings(path, name)
    name = output_name(path, name)
    read = (path, request.calibration, request.evaluate, request.custom_objects, custom_operators)
    inputs = tuple(item for item in read if item is not None)
    destination = Destination(
        name, output or default_directory(name), firmware or FirmwareRequest(), force=force, inputs=inputs
    )
    for item in inputs:
        check_readable(item)
    custom = read_custom_operators(custom_operators)
    destination.check()
    given = open_tflite(path) if is_tflite else None
    as_it_is = given is not None and _stays_as_it_is(request, given)
    if given is not None and as_it_is:
        source, ends = _with_integer_ends(given, request.io)
        found = Found(model_info(given), findings=(*ends, *_as_it_is_findings(request, given)))
    else:
        source, found = _convert_and_compare(request, target, name, custom, progress or (lambda step: None))
    planning = Planning(wishes, offline_plan=offline_plan, replan=replan)
    return deliver(
        source,
        replace(found, findings=(*found.findings, *named)),
        target,
        destination,
        options=_options(request, planning, destination, custom_operators, as_it_is=as_it_is),
        made_anew=not as_it_is,
        planning=planning,
        custom=custom,
        strict=strict,
        progress=progress,
    )


def _stays_as_it_is(request: ConvertRequest, source: Source) -> bool:
    """Whether a .tflite is taken as it is; otherwise it is float and is to be quantized.

    Raises UsageError for options that cannot apply, and UnsupportedModelError for a float model that cannot be
    quantized.
    """
    where, scheme = str(request.path), quantized_as(source.model)
    if request.quantize in INTEGER and scheme is None:
        _refuse_options(request, KERAS_OPTIONS, "a .tflite has no layers and no code", "omit the option")
        check_quantizable(source.model, request.quantize, where)
        return False
    if request.quantize is not None and request.quantize != (scheme or "float32"):
        raise UsageError(
            f"the model is already quantized ({scheme}): --quantize {request.quantize} cannot be applied",
            where=where,
            fix="omit the option, or use the float model",
        )
    how = "use --quantize int8 or int16x8 to quantize it" if scheme is None else "use the float model"
    names = [item.name for item in fields(ConvertRequest) if item.name not in ("path", "quantize", "io", "limits")]
    if request.io is not None and (scheme is None or request.io not in ("int8", "int16")):
        names.append("io")  # there is no QUANTIZE of that type to take out
    _refuse_options(request, names, "the .tflite is used unchanged", f"omit the option, or {how}")
    return True


def _refuse_options(request: ConvertRequest, names: Sequence[str], why: str, fix: str) -> None:
    """Raise UsageError for the fields of the request that were given but cannot apply, as the user knows them."""
    default = ConvertRequest(request.path)
    given = [
        OPTIONS.get(name, f"--{name.replace('_', '-')}")
        for name in names
        if getattr(request, name) != getattr(default, name)
    ]
    if given:
        raise UsageError(f"{why}: {', '.join(given)} cannot be applied", where=str(request.path), fix=fix)


def _as_it_is_findings(request: ConvertRequest, source: Source) -> tuple[Finding, ...]:
    """A note how a float model is quantized if the user did not say how, or that a quantized one already is."""
    scheme = quantized_as(source.model)
    if request.quantize is not None and scheme is not None:
        return (
            Finding("already-quantized", "note", f"the model is already quantized ({scheme}) and is used unchanged"),
        )
    if request.quantize is not None or scheme is not None or not computes_in_float(source.model):
        return ()
    text = (
        "the model uses float32 and is not quantized; use --quantize int8 --calibration DATA to quantize it, "
        "or --quantize float32 to keep it in float32 without this note"
    )
    return (Finding("float-model", "note", text),)


def _with_integer_ends(source: Source, io: str | None) -> tuple[Source, tuple[Finding, ...]]:
    """Without QUANTIZE and DEQUANTIZE at the ends where integers are asked for there; each is reported.

    Raises UsageError if no end has that type, and none of these operators is there to take out.
    """
    if io is None:
        left = [f"{text}; --io int8 leaves that to the firmware" for text in leftover_ends(source.model)]
        return source, tuple(Finding("leftover-conversion", "note", text) for text in left)
    model, notes = trim_ends(source.model, io)
    types = [model.main.tensors[index].dtype.name.lower() for index in (*model.main.inputs, *model.main.outputs)]
    if not notes and io not in types:
        raise UsageError(
            f"the .tflite is used unchanged, and its inputs and outputs are {', '.join(dict.fromkeys(types))}: "
            f"--io {io} cannot be applied",
            where=source.name,
            fix="omit the option, or use the float model",
        )
    blob = source.blob if model is source.model else write_model(model)
    return replace(source, blob=blob, model=model), tuple(
        Finding("leftover-conversion", "note", text) for text in notes
    )


def _convert_and_compare(
    request: ConvertRequest,
    target: Target,
    name: str,
    custom: Mapping[str, OperatorEntry] | None,
    say: Progress,
) -> tuple[Source, Found]:
    """The converted model and how far it is from the original; all temporary files are gone on return."""
    with work_folder() as folder:
        form = best_form(request, target, name=f"{name}.tflite", workdir=folder, custom=custom, progress=say)
    conversion, source = form.conversion, form.source
    quality = replace(form.quality, layers=layer_losses(conversion.debug))
    lost = loss_findings(quality, dense_per_tensor=request.dense_per_tensor, approximated=request.allow_approximation)
    coarse = input_findings(
        source.model, conversion.inputs, quality.outputs, conversion.layers, measured=bool(quality.layers)
    )
    findings = (*conversion_findings(quality, conversion.notes), *lost, *coarse, *form.findings)
    original = _original_info(request.path, source)
    return source, Found(original, quality, findings, conversion.versions, request.trust_model_code)


def _original_info(path: Path, source: Source) -> ModelInfo:
    """The input file's name, hash and size, with the counts of the converted model."""
    sha256, size_bytes = hash_of_path(path)
    return replace(model_info(source), name=own_path(path).name, sha256=sha256, bytes=size_bytes)


def hash_of_path(path: Path) -> tuple[str, int]:
    """SHA-256 and bytes of a file; of a directory, over its files' relative names and hashes, sorted."""
    if not path.is_dir():
        blob = path.read_bytes()
        return sha256_of(blob), len(blob)
    digest, total = hashlib.sha256(), 0
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        blob = file.read_bytes()
        total += len(blob)
        digest.update(f"{file.relative_to(path).as_posix()}\n{sha256_of(blob)}\n".encode())
    return digest.hexdigest(), total


def _options(
    request: ConvertRequest,
    planning: Planning,
    destination: Destination,
    custom_operators: Path | None,
    *,
    as_it_is: bool,
) -> dict[str, object]:
    """What the user asked for, files by name alone: the same input gives the same report anywhere."""
    return {
        "command": "convert",
        "name": destination.name,
        "quantize": request.quantize if as_it_is else request.scheme,
        "io": request.io,
        "dense_per_tensor": request.dense_per_tensor,
        "calibration": request.calibration.name if request.calibration is not None else None,
        "mean": request.mean,
        "std": request.std,
        "scale": request.scale,
        "offset": request.offset,
        "samples": request.samples,
        "seed": request.seed,
        "evaluate": request.evaluate.name if request.evaluate is not None else None,
        "rnn": request.rnn,
        "allow_approximation": request.allow_approximation,
        "signature": request.signature,
        "custom_objects": file_name(request.custom_objects),
        "input_shapes": [[name, list(sizes)] for name, sizes in request.input_shapes],
        "keep_float": list(request.keep_float),
        "debug_quantization": request.debug_quantization,
        "offline_plan": planning.offline_plan,
        "replan": planning.replan,
        **planning.request.told(),
        **destination.firmware.told(),
        "custom_operators": file_name(custom_operators),
    }
