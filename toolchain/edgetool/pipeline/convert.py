"""From a Keras model, a SavedModel or a .tflite to firmware files.

A Keras model or SavedModel as a .tflite that the runtime can run, and what its float original says.

What each form of a model's recurrent layers costs on the device, and which one is taken.

A model converted in the form of its recurrent layers that takes the least of the device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetool import child
from edgetool.child import work_folder
from edgetool.convert.alternatives import alternative_to
from edgetool.convert.convert import convert_model
from edgetool.convert.float_tflite import check_quantizable, computes_in_float, quantized_as
from edgetool.convert.request import INTEGER, TFLITE_SUFFIX, Conversion, ConvertRequest, RnnForm
from edgetool.errors import ConversionError, InvalidModelError, UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.planner import FilePlan, PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.scopes import layer_of
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.legality import UnsupportedOperator, unsupported_operators
from edgetool.passes.ends import conversions_at_ends, readable_inputs, trim_ends
from edgetool.passes.legalize import legalize
from edgetool.passes.rescaling import fold_rescaling
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
from edgetool.pipeline.output import check_readable
from edgetool.pipeline.planning import planned_for
from edgetool.pipeline.quality import input_findings, layer_losses, loss_findings, measure_quality
from edgetool.pipeline.reporting import model_info
from edgetool.pipeline.source import Source, file_name, open_tflite, own_path, read_custom_operators, sha256_of
from edgetool.report.document import ModelInfo, QuantizationInfo
from edgetool.target.types import Kernels, Runtime, Target

if TYPE_CHECKING:
    from edgetool.convert.request import Array

# Schemes for comparison alone: stock TFLM runs none of them, as the analysis of such a file says.
UNRUNNABLE = frozenset(["float16"])


@dataclass(frozen=True, slots=True)
class Made:
    """A conversion whose .tflite is rewritten for the runtime; its notes tell every rewrite. model: that file's."""

    conversion: Conversion
    model: Model


def convert_for(
    request: ConvertRequest,
    runtime: Runtime,
    *,
    name: str,
    workdir: Path,
    kernels: Kernels | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
    progress: child.Progress | None = None,
) -> Made:
    """Convert, and rewrite what the runtime lacks. `workdir` is an empty directory that outlives the arrays' use.

    kernels: the set that must run it; None for every set. custom: operators that the user describes. Raises what
    convert_model does, and ConversionError naming layers and what to use instead where an operator is left that the
    runtime cannot run.
    """
    conversion = convert_model(request, workdir=workdir, progress=progress)
    converted = read_model(conversion.tflite, name=name)
    conversion, ended = _with_own_ends(conversion, converted, request)
    legal = legalize(ended, runtime, allow_approximation=request.allow_approximation)
    illegal = unsupported_operators(legal.model, runtime, custom, kernels=kernels)
    left = [item for item in illegal if item.operator.code != "CUSTOM"]
    if left and request.scheme not in UNRUNNABLE:
        raise _refusal(left, legal.model, conversion, runtime, str(request.path))
    if not legal.applied and ended is converted:
        return Made(conversion, converted)
    notes = (*conversion.notes, *legal.sentences(conversion.layers))
    return Made(replace(conversion, tflite=write_model(legal.model), notes=notes), legal.model)


def _with_own_ends(conversion: Conversion, model: Model, request: ConvertRequest) -> tuple[Conversion, Model]:
    """What firmware can read at the ends: types that TFLM casts, scales with the arithmetic before them, no leftovers.

    The samples follow: they are what the inputs now take.
    """
    readable, types = readable_inputs(model)
    whole = [index for index, array in enumerate(conversion.inputs) if array.dtype.kind in "iub"]
    trimmed, ends = trim_ends(readable, request.io_type, keep_inputs=whole if request.io is None else ())
    folded = fold_rescaling(trimmed)  # last: with nothing left over at the ends it sees more

    def taken(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        pairs = zip(arrays, folded.inputs, strict=True)
        return tuple(array if affine is None else affine.apply(array) for array, affine in pairs)

    evaluation = conversion.evaluation
    if evaluation is not None:
        evaluation = replace(evaluation, inputs=taken(evaluation.inputs))
    notes = (*conversion.notes, *types, *ends, *folded.notes)
    return replace(conversion, inputs=taken(conversion.inputs), evaluation=evaluation, notes=notes), folded.model


def _refusal(
    left: list[UnsupportedOperator], model: Model, conversion: Conversion, runtime: Runtime, where: str
) -> ConversionError:
    """One line per layer and operator; the first is the error itself, the others are its details."""
    lines: dict[str, str] = {}
    for item in left:
        layer = layer_that_made(item, model, conversion)
        kind = conversion.layers.get(layer, "") if layer else ""
        who = f"layer {layer!r} ({kind}) became" if layer else "the model has"
        lines.setdefault(f"{who} {item.operator.label}: {item.why}", alternative_to(item.operator.label, kind))
    first, *others = lines.items()
    return ConversionError(
        f"{runtime.name} cannot run the model: {first[0]}",
        where=where,
        fix=first[1],
        details=tuple(f"{line}; {fix}" for line, fix in others),
    )


def layer_that_made(item: UnsupportedOperator, model: Model, conversion: Conversion) -> str | None:
    """The Keras layer that an operator belongs to, by the names of its tensors; None where they do not tell."""
    graph = model.subgraphs[item.subgraph]
    for indices in (item.operator.outputs, item.operator.inputs):
        for index in indices:
            if index < 0:
                continue
            if index in graph.outputs and item.subgraph == 0 and conversion.output_layers:
                made = conversion.output_layers[graph.outputs.index(index)]
                if made:
                    return made
            found = layer_of(graph.tensors[index].name, conversion.layers)
            if found is not None:
                return found
    return None


WORDS = {"fused": "one operator per LSTM", "unrolled": "one copy per time step"}
MOST_NAMES = 6
WORSE_DB = 6.0  # one bit: what a form may lose against the best before its price counts no more


@dataclass(frozen=True, slots=True)
class RnnPrice:
    """One form of a model: "fused" or "unrolled".

    arena_bytes: None where it is not known. file_bytes: of the planned .tflite. sqnr_db: of its worst output, None
    where it was not measured.
    """

    form: str
    arena_bytes: int | None
    file_bytes: int
    operators: int
    sqnr_db: float | None = None

    @property
    def total_bytes(self) -> int | None:
        """RAM and flash together: the measure by which a form is chosen."""
        return None if self.arena_bytes is None else self.arena_bytes + self.file_bytes


def price_of(
    form: str,
    source: Source,
    target: Target,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    sqnr_db: float | None = None,
) -> RnnPrice:
    """Plan the model for the target, as it would be delivered. Its arena is unknown where it cannot be planned."""
    operators = sum(len(graph.operators) for graph in source.model.subgraphs)
    try:
        planned = planned_for(source, target, custom=custom)
    except (UnsupportedModelError, InvalidModelError):
        return RnnPrice(form, None, len(source.blob), operators, sqnr_db)
    account = planned.analysis.plan.account
    exact = account is not None and not account.is_lower_bound
    arena = account.bytes if account is not None and exact else None
    return RnnPrice(form, arena, len(planned.source.blob), operators, sqnr_db)


def cheapest(prices: Sequence[RnnPrice]) -> RnnPrice:
    """The form that takes the fewest bytes of arena and flash together, of those that are not much worse than the best.

    An unknown arena loses, the first wins ties.
    """
    good = [price for price in prices if not is_worse(price, prices)]
    return min(good, key=_size)


def _size(price: RnnPrice) -> tuple[bool, int]:
    return price.total_bytes is None, price.total_bytes or price.file_bytes


def is_worse(price: RnnPrice, prices: Sequence[RnnPrice]) -> bool:
    """Whether a form's outputs are more than WORSE_DB from those of the best."""
    known = [other.sqnr_db for other in prices if other.sqnr_db is not None]
    return price.sqnr_db is not None and price.sqnr_db < max(known) - WORSE_DB


def rnn_finding(chosen: RnnPrice, others: Sequence[RnnPrice], layers: Sequence[str]) -> Finding:
    """What these layers became, at which price of the whole model, and what it would cost in the other forms."""
    text = f"{_named(layers)} converted to {WORDS[chosen.form]} (--rnn {chosen.form}): {_figures(chosen)}"
    for other in others:
        text += f"; {WORDS[other.form]} (--rnn {other.form}) would take {_figures(other)}"
        if _size(other) < _size(chosen):
            text += f" (rejected: more than {WORSE_DB:.0f} dB worse)"
    return Finding("rnn-form", text)


def only_finding(layers: Sequence[str], why: str) -> Finding:
    """What these layers became, and why there is no other form to compare the price with."""
    text = f"{_named(layers)} converted to {WORDS['fused']}: {WORDS['unrolled']} (--rnn unrolled) does not work: {why}"
    return Finding("rnn-form", text)


def _named(layers: Sequence[str]) -> str:
    """'layers 'a', 'b' and 'c''; of many, the first ones."""
    names = [repr(name) for name in layers[:MOST_NAMES]]
    if len(layers) > MOST_NAMES:
        names.append(f"{len(layers) - MOST_NAMES} more")
    first, last = names[:-1], names[-1]
    return f"layers {', '.join(first)} and {last} were" if first else f"layer {last} was"


def _figures(price: RnnPrice) -> str:
    arena = "an arena of unknown size" if price.arena_bytes is None else f"{price.arena_bytes:,} bytes of arena"
    quality = "" if price.sqnr_db is None else f" and an SQNR of {price.sqnr_db:.1f} dB"
    return f"{arena} and {price.file_bytes:,} bytes of flash, with {price.operators} operators{quality}"


@dataclass(frozen=True, slots=True)
class Form:
    """A converted model, how far it is from the original, and what is to be said of that."""

    conversion: Conversion
    source: Source
    quality: QuantizationInfo
    findings: tuple[Finding, ...] = ()

    @property
    def sqnr_db(self) -> float | None:
        """That of the worst output; None where none is known."""
        return min((item.sqnr_db for item in self.quality.outputs if item.sqnr_db is not None), default=None)


def best_form(
    request: ConvertRequest,
    target: Target,
    *,
    name: str,
    workdir: Path,
    custom: Mapping[str, OperatorEntry] | None = None,
    progress: child.Progress,
) -> Form:
    """Convert and compare; where layers may be fused or unrolled and neither is asked for, both, and take one.

    name: of the file. workdir: an empty directory that outlives the use of the arrays. Raises as convert_for does.
    """
    first = _converted(request, target, name, workdir, custom, progress)
    if request.rnn != "auto" or not first.conversion.fused:
        return first
    layers = _own_names(first.conversion)
    unrolled: RnnForm = "unrolled"
    apart = workdir / "unrolled"
    apart.mkdir()
    try:
        second = _converted(replace(request, rnn=unrolled), target, name, apart, custom, progress)
    except (ConversionError, UnsupportedModelError) as error:  # too many steps, or operators
        return replace(first, findings=(*first.findings, only_finding(layers, error.what)))
    progress("comparing the forms of recurrent layers")
    forms = {"fused": first, "unrolled": second}
    prices = [price_of(kind, form.source, target, custom=custom, sqnr_db=form.sqnr_db) for kind, form in forms.items()]
    chosen = cheapest(prices)
    others = [price for price in prices if price is not chosen]
    taken = forms[chosen.form]
    told = rnn_finding(chosen, others, layers)
    return replace(taken, findings=(*taken.findings, told))


def _own_names(conversion: Conversion) -> tuple[str, ...]:
    """The layers that were fused, as the user made them: Bidirectional has two inside."""
    around = ((scope.rpartition("/")[0], scope) for scope in conversion.fused)
    names = (outer if conversion.layers.get(outer) == "Bidirectional" else scope for outer, scope in around)
    return tuple(dict.fromkeys(names))


def _converted(
    request: ConvertRequest,
    target: Target,
    name: str,
    workdir: Path,
    custom: Mapping[str, OperatorEntry] | None,
    progress: child.Progress,
) -> Form:
    made = convert_for(
        request,
        target.runtime,
        name=name,
        workdir=workdir,
        kernels=target.kernels,
        custom=custom,
        progress=progress,
    )
    conversion = made.conversion
    progress("comparing with the float model")
    quality, findings = measure_quality(conversion, made.model, scheme=request.scheme, workdir=workdir)
    return Form(conversion, Source(name, conversion.tflite, made.model), quality, findings)


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
    plan = plan or PlanRequest()
    if not offline_plan and (plan.order or plan.strategy):
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
        origin = Origin(model_info(given), findings=(*ends, *_as_it_is_findings(request, given)))
    else:
        source, origin = _convert_and_compare(request, target, name, custom, progress or (lambda step: None))
    file_plan: FilePlan = "only" if not offline_plan else "replace" if replan else "use"
    plan = replace(plan, file_plan=file_plan)
    return deliver(
        source,
        replace(origin, findings=(*origin.findings, *named)),
        target,
        destination,
        options=_options(request, plan, destination, custom_operators, as_it_is=as_it_is),
        renumber=not as_it_is,
        request=plan,
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
        return (Finding("already-quantized", f"the model is already quantized ({scheme}) and is used unchanged"),)
    if request.quantize is not None or scheme is not None or not computes_in_float(source.model):
        return ()
    text = (
        "the model uses float32 and is not quantized; use --quantize int8 --calibration DATA to quantize it, "
        "or --quantize float32 to keep it in float32 without this note"
    )
    return (Finding("float-model", text),)


def _with_integer_ends(source: Source, io: str | None) -> tuple[Source, tuple[Finding, ...]]:
    """Without QUANTIZE and DEQUANTIZE at the ends where integers are asked for there; each is reported.

    Raises UsageError if no end has that type, and none of these operators is there to take out.
    """
    if io is None:
        left = [f"{text}; --io int8 leaves that to the firmware" for text in conversions_at_ends(source.model)]
        return source, tuple(Finding("leftover-conversion", text) for text in left)
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
    return replace(source, blob=blob, model=model), tuple(Finding("leftover-conversion", text) for text in notes)


def _convert_and_compare(
    request: ConvertRequest,
    target: Target,
    name: str,
    custom: Mapping[str, OperatorEntry] | None,
    say: Progress,
) -> tuple[Source, Origin]:
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
    return source, Origin(original, quality, findings, conversion.versions, request.trust_model_code)


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
    plan: PlanRequest,
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
        "offline_plan": plan.file_plan != "only",
        "replan": plan.file_plan == "replace",
        **plan.as_options(),
        **destination.firmware.told(),
        "custom_operators": file_name(custom_operators),
    }
