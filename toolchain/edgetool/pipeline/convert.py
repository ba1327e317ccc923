"""Convert a Keras model, a SavedModel or a .tflite to firmware files.

The converted .tflite is legalized for the runtime, cleaned up, rewritten so that no kernel of the target computes wrong
outputs, and compared with the float model. Recurrent layers can be fused or unrolled: unless the user chooses, both
forms are converted, and the one that needs less memory is delivered.
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
from edgetool.convert.float_tflite import check_quantizable, computes_in_float, is_quantizable, quantized_as
from edgetool.convert.request import (
    INTEGER,
    ONNX_SUFFIX,
    PROGRAM_SUFFIX,
    TFLITE_SUFFIX,
    Conversion,
    ConvertRequest,
    RnnForm,
)
from edgetool.errors import ConversionError, InvalidModelError, UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.planner import FilePlan, PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.scopes import layer_of
from edgetool.model.types import Model, Operator
from edgetool.model.writer import write_model
from edgetool.operators.entry import KernelFault, OperatorEntry
from edgetool.operators.legality import UnsupportedOperator, kernel_faults, unsupported_operators
from edgetool.passes.ends import conversions_at_ends, fold_rescaling, readable_inputs, trim_ends
from edgetool.passes.faults import avoid_faults
from edgetool.passes.legalize import legalize
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
from edgetool.pipeline.native import native_model
from edgetool.pipeline.native_emit import check_native, deliver_native
from edgetool.pipeline.output import check_readable
from edgetool.pipeline.places import check_places
from edgetool.pipeline.planning import cleaned_up, planned_for, rewritten_for
from edgetool.pipeline.quality import input_findings, layer_losses, loss_findings, measure_quality
from edgetool.pipeline.reporting import model_info
from edgetool.pipeline.source import Source, absolute_path, file_name, open_tflite, read_custom_operators, sha256_of
from edgetool.report.document import ModelInfo, QuantizationInfo
from edgetool.target.native_places import read_native_places
from edgetool.target.platform import Platform, platform_of
from edgetool.target.types import Kernels, Runtime, Target

if TYPE_CHECKING:
    from edgetool.convert.request import Array

# Schemes only for comparison: stock TFLM cannot run them, which the analysis of such a file reports.
COMPARISON_SCHEMES = frozenset(["float16"])


@dataclass(frozen=True, slots=True)
class LegalizedConversion:
    """A conversion whose .tflite is rewritten for the runtime and its kernels; its notes list every rewrite.

    model: the parsed .tflite. findings: what the clean-up changed.
    """

    conversion: Conversion
    model: Model
    findings: tuple[Finding, ...] = ()


def convert_for(
    request: ConvertRequest,
    runtime: Runtime,
    *,
    name: str,
    workdir: Path,
    kernels: Kernels | None = None,
    platform: Platform | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
    progress: child.Progress | None = None,
) -> LegalizedConversion:
    """Convert a model, legalize it for the runtime, clean it up, and avoid the faults of its kernels.

    Args:
        request: What to convert, and how.
        runtime: The version of TFLM that must run the model.
        name: The name of the .tflite in error messages.
        workdir: An empty directory, which must exist for as long as the arrays of the conversion are used.
        kernels: The kernels that must run the model; None for all of them.
        platform: The build that must compute the outputs of the reference kernels; None for no certain one.
        custom: Operators that the user describes, by custom code.
        progress: Called with each step.

    Raises:
        ConversionError: The runtime cannot run an operator of the legalized model, or its kernel in this build computes
            wrong outputs; the error names the layers and what to use instead. convert_model raises it and other errors,
            too.
    """
    conversion = convert_model(request, workdir=workdir, progress=progress)
    converted = read_model(conversion.tflite, name=name)
    conversion, simplified = _with_simple_interface(conversion, converted, request)
    legalized = legalize(simplified, runtime, allow_approximation=request.allow_approximation)
    model, notes = legalized.model, legalized.sentences(conversion.layers)
    findings: tuple[Finding, ...] = ()
    if request.optimize is not False:
        unclean = Source(name, conversion.tflite if model is converted else write_model(model), model)
        cleaned, findings = cleaned_up(unclean, None if runtime.is_native else platform, custom)
        model = cleaned.model
    if platform is not None:
        avoided = avoid_faults(model, runtime, platform, custom)
        model, notes = avoided.model, (*notes, *avoided.sentences(conversion.layers))
    unsupported = unsupported_operators(model, runtime, custom, kernels=kernels)
    builtin = [item for item in unsupported if item.operator.code != "CUSTOM"]
    if builtin and request.scheme not in COMPARISON_SCHEMES:
        raise _unsupported_error(builtin, model, conversion, runtime, str(request.path))
    if platform is not None and (faults := kernel_faults(model, platform, custom)):
        raise _fault_error(faults, model, conversion, platform, str(request.path))
    if model is converted:
        return LegalizedConversion(conversion, converted, findings)
    conversion = replace(conversion, tflite=write_model(model), notes=(*conversion.notes, *notes))
    return LegalizedConversion(conversion, model, findings)


def _with_simple_interface(conversion: Conversion, model: Model, request: ConvertRequest) -> tuple[Conversion, Model]:
    """Rewrite the inputs and outputs so that firmware can use them.

    CAST at the inputs, and QUANTIZE and DEQUANTIZE at inputs and outputs, are removed (passes/ends.py). Arithmetic
    that only rescales an input is folded into its quantization (passes/ends.py). The samples of the conversion are
    adapted to the new inputs.
    """
    readable, types = readable_inputs(model)
    integer_inputs = [index for index, array in enumerate(conversion.inputs) if array.dtype.kind in "iub"]
    trimmed, ends = trim_ends(readable, request.io_type, keep_inputs=integer_inputs if request.io is None else ())
    folded = fold_rescaling(trimmed)  # last: type conversions at the inputs would hide operators from it

    def adapted(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        pairs = zip(arrays, folded.inputs, strict=True)
        return tuple(array if affine is None else affine.apply(array) for array, affine in pairs)

    evaluation = conversion.evaluation
    if evaluation is not None:
        evaluation = replace(evaluation, inputs=adapted(evaluation.inputs))
    notes = (*conversion.notes, *types, *ends, *folded.notes)
    return replace(conversion, inputs=adapted(conversion.inputs), evaluation=evaluation, notes=notes), folded.model


def _unsupported_error(
    unsupported: list[UnsupportedOperator], model: Model, conversion: Conversion, runtime: Runtime, where: str
) -> ConversionError:
    """Return an error with one line for each layer and operator; the lines after the first are its details."""
    fix_by_line: dict[str, str] = {}
    for item in unsupported:
        kind, subject = _layer_and_operator(item.subgraph, item.operator, model, conversion)
        fix_by_line.setdefault(f"{subject}: {item.why}", alternative_to(item.operator.label, kind))
    return _error_of_lines(f"{runtime.name} cannot run the model", fix_by_line, where)


def _fault_error(
    faults: Sequence[tuple[int, Operator, KernelFault]],
    model: Model,
    conversion: Conversion,
    platform: Platform,
    where: str,
) -> ConversionError:
    """Return an error with one line for each layer and fault; the lines after the first are its details."""
    fix_by_line: dict[str, str] = {}
    for subgraph, operator, fault in faults:
        _, subject = _layer_and_operator(subgraph, operator, model, conversion)
        fix_by_line.setdefault(f"{subject} {fault.condition}, which {fault.effect}", fault.remedy)
    return _error_of_lines(f"the {platform.kernels} kernels would compute wrong outputs", fix_by_line, where)


def _layer_and_operator(subgraph: int, operator: Operator, model: Model, conversion: Conversion) -> tuple[str, str]:
    """Return the class of the operator's layer, and text such as "layer 'a' (Conv2D) became CONV_2D"."""
    layer = layer_of_operator(subgraph, operator, model, conversion)
    kind = conversion.layers.get(layer, "") if layer else ""
    return kind, f"layer {layer!r} ({kind}) became {operator.label}" if layer else f"the model has {operator.label}"


def _error_of_lines(what: str, fix_by_line: Mapping[str, str], where: str) -> ConversionError:
    first, *others = fix_by_line.items()
    return ConversionError(
        f"{what}: {first[0]}",
        where=where,
        fix=first[1],
        details=tuple(f"{line}; {fix}" for line, fix in others),
    )


def layer_of_operator(subgraph: int, operator: Operator, model: Model, conversion: Conversion) -> str | None:
    """Return the Keras layer that an operator belongs to, by the names of its tensors; None if they do not show it."""
    graph = model.subgraphs[subgraph]
    for indices in (operator.outputs, operator.inputs):
        for index in indices:
            if index < 0:
                continue
            if index in graph.outputs and subgraph == 0 and conversion.output_layers:
                output_layer = conversion.output_layers[graph.outputs.index(index)]
                if output_layer:
                    return output_layer
            layer = layer_of(graph.tensors[index].name, conversion.layers)
            if layer is not None:
                return layer
    return None


FORM_NAMES = {"fused": "one operator per LSTM", "unrolled": "one copy per time step"}
MAX_LAYERS_NAMED = 6
WORSE_DB = 6.0  # one bit: a form whose SQNR is this much below the best form's is rejected, however small it is


@dataclass(frozen=True, slots=True)
class FormCost:
    """The memory and accuracy of one form of a model on the device.

    Attributes:
        form: "fused" or "unrolled".
        arena_bytes: The size of the arena; None if it is unknown.
        file_bytes: The size of the planned .tflite.
        operators: The number of operators in all subgraphs.
        sqnr_db: The SQNR of the worst output; None if it was not measured.
    """

    form: str
    arena_bytes: int | None
    file_bytes: int
    operators: int
    sqnr_db: float | None = None

    @property
    def total_bytes(self) -> int | None:
        """Return the sum of RAM and flash, by which a form is chosen; None if the arena is unknown."""
        return None if self.arena_bytes is None else self.arena_bytes + self.file_bytes


def cost_of(
    form: str,
    source: Source,
    target: Target,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    sqnr_db: float | None = None,
) -> FormCost:
    """Return the cost of a model, planned for the target as it would be delivered.

    The size of the arena is unknown if the model cannot be planned.
    """
    operators = sum(len(graph.operators) for graph in source.model.subgraphs)
    try:
        if target.runtime.is_native:
            memory = native_model(source, target).planned.memory
            return FormCost(form, memory.arena_bytes, len(source.blob), operators, sqnr_db)
        planned = planned_for(source, target, custom=custom)
    except (UnsupportedModelError, InvalidModelError):
        return FormCost(form, None, len(source.blob), operators, sqnr_db)
    account = planned.analysis.plan.account
    exact = account is not None and not account.is_lower_bound
    arena = account.bytes if account is not None and exact else None
    return FormCost(form, arena, len(planned.source.blob), operators, sqnr_db)


def cheapest(costs: Sequence[FormCost]) -> FormCost:
    """Return the form with the fewest bytes of arena and flash in total, without forms that are much less accurate.

    A form whose arena is unknown is the last choice; the first of equal forms is returned.
    """
    accurate = [cost for cost in costs if not is_worse(cost, costs)]
    return min(accurate, key=_size)


def _size(cost: FormCost) -> tuple[bool, int]:
    return cost.total_bytes is None, cost.total_bytes or cost.file_bytes


def is_worse(cost: FormCost, costs: Sequence[FormCost]) -> bool:
    """Return whether the SQNR of a form is more than WORSE_DB below that of the best form."""
    measured = [other.sqnr_db for other in costs if other.sqnr_db is not None]
    return cost.sqnr_db is not None and cost.sqnr_db < max(measured) - WORSE_DB


def rnn_finding(chosen: FormCost, others: Sequence[FormCost], layers: Sequence[str]) -> Finding:
    """Report the form of the layers, the cost of the whole model, and its cost in the other forms."""
    text = f"{_layer_names(layers)} converted to {FORM_NAMES[chosen.form]} (--rnn {chosen.form}): {_figures(chosen)}"
    for other in others:
        text += f"; {FORM_NAMES[other.form]} (--rnn {other.form}) would take {_figures(other)}"
        if _size(other) < _size(chosen):
            text += f" (rejected: more than {WORSE_DB:.0f} dB worse)"
    return Finding("rnn-form", text)


def only_fused_finding(layers: Sequence[str], why: str) -> Finding:
    """Report that the layers are fused, and why they cannot be unrolled."""
    fused, unrolled = FORM_NAMES["fused"], FORM_NAMES["unrolled"]
    text = f"{_layer_names(layers)} converted to {fused}: {unrolled} (--rnn unrolled) does not work: {why}"
    return Finding("rnn-form", text)


def _layer_names(layers: Sequence[str]) -> str:
    """Return text such as "layers 'a', 'b' and 'c' were", which names at most MAX_LAYERS_NAMED layers."""
    names = [repr(name) for name in layers[:MAX_LAYERS_NAMED]]
    if len(layers) > MAX_LAYERS_NAMED:
        names.append(f"{len(layers) - MAX_LAYERS_NAMED} more")
    first, last = names[:-1], names[-1]
    return f"layers {', '.join(first)} and {last} were" if first else f"layer {last} was"


def _figures(cost: FormCost) -> str:
    arena = "an arena of unknown size" if cost.arena_bytes is None else f"{cost.arena_bytes:,} bytes of arena"
    quality = "" if cost.sqnr_db is None else f" and an SQNR of {cost.sqnr_db:.1f} dB"
    return f"{arena} and {cost.file_bytes:,} bytes of flash, with {cost.operators} operators{quality}"


@dataclass(frozen=True, slots=True)
class Form:
    """A model converted in one form of its recurrent layers, its loss against the original, and findings on that."""

    conversion: Conversion
    source: Source
    quality: QuantizationInfo
    findings: tuple[Finding, ...] = ()

    @property
    def sqnr_db(self) -> float | None:
        """Return the SQNR of the worst output; None if none was measured."""
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
    """Convert the model, and compare it with the original.

    If its layers can be fused or unrolled, and the request leaves the choice open, convert both and return the better.

    Args:
        request: What to convert, and how.
        target: The target for which the forms are planned.
        name: The name of the .tflite.
        workdir: An empty directory, which must exist for as long as the arrays of the conversion are used.
        custom: Operators that the user describes, by custom code.
        progress: Called with each step.

    Raises the same errors as convert_for.
    """
    first = _converted(request, target, name, workdir, custom, progress)
    if request.rnn != "auto" or not first.conversion.fused:
        return first
    layers = _fused_layers(first.conversion)
    unrolled: RnnForm = "unrolled"
    unrolled_workdir = workdir / "unrolled"
    unrolled_workdir.mkdir()
    try:
        second = _converted(replace(request, rnn=unrolled), target, name, unrolled_workdir, custom, progress)
    except (ConversionError, UnsupportedModelError) as error:  # for example too many time steps or operators
        return replace(first, findings=(*first.findings, only_fused_finding(layers, error.what)))
    progress("comparing the forms of recurrent layers")
    forms = {"fused": first, "unrolled": second}
    costs = [cost_of(kind, form.source, target, custom=custom, sqnr_db=form.sqnr_db) for kind, form in forms.items()]
    chosen = cheapest(costs)
    others = [cost for cost in costs if cost is not chosen]
    form = forms[chosen.form]
    return replace(form, findings=(*form.findings, rnn_finding(chosen, others, layers)))


def _fused_layers(conversion: Conversion) -> tuple[str, ...]:
    """Return the names of the user's layers that were fused: a Bidirectional, not the two layers in it."""
    scopes = ((scope.rpartition("/")[0], scope) for scope in conversion.fused)
    names = (outer if conversion.layers.get(outer) == "Bidirectional" else scope for outer, scope in scopes)
    return tuple(dict.fromkeys(names))


def _converted(
    request: ConvertRequest,
    target: Target,
    name: str,
    workdir: Path,
    custom: Mapping[str, OperatorEntry] | None,
    progress: child.Progress,
) -> Form:
    legalized = convert_for(
        request,
        target.runtime,
        name=name,
        workdir=workdir,
        kernels=target.kernels,
        platform=platform_of(target),
        custom=custom,
        progress=progress,
    )
    conversion = legalized.conversion
    progress("comparing with the float model")
    quality, findings = measure_quality(conversion, legalized.model, scheme=request.scheme, workdir=workdir)
    source = Source(name, conversion.tflite, legalized.model)
    return Form(conversion, source, quality, (*legalized.findings, *findings))


# Fields of a request that apply only to the layers and the code of a Keras model.
KERAS_OPTIONS = ("trust_model_code", "rnn", "signature", "custom_objects")
# All fields about how a model is imported; a .tflite is not.
IMPORT_OPTIONS = (*KERAS_OPTIONS, "input_shapes", "keep_layout")
# The suffixes of models that edgetool imports from other frameworks.
FOREIGN = {PROGRAM_SUFFIX: "a PyTorch program", ONNX_SUFFIX: "an ONNX model"}
# Fields of a request whose option on the command line has a different name.
OPTION_NAMES = {"input_shapes": "--input-shape"}


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
    place: str | None = None,
    custom_operators: Path | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Convert a model, plan it as requested, estimate it, judge it, and write every file.

    A .tflite is used unchanged unless it is in float32 and the request has a `quantize`; or, with `optimize`, it is
    cleaned up and rewritten so that no kernel of the target computes wrong outputs. If TFLM lacks an operator,
    only the header and the data are written, with a finding.

    Args:
        request: What to convert, and how.
        target: The target.
        output: The directory to write to; by default NAME-firmware.
        name: The name for files and in C; by default, it is derived from the file's name.
        force: Whether to replace existing files.
        offline_plan: Whether to write a memory plan into the file; without it, its contents are left unchanged.
        replan: Whether to replace the memory plan of a .tflite that is used unchanged; otherwise it is kept.
        plan: How to plan.
        firmware: Which files to write besides the model; by default a plain project.
        place: The memories of head, tail and model (target/places.py), or those of native code
            (target/native_places.py), or "auto"; by default, head and tail are one
            arena.
        custom_operators: The user's description of custom operators.
        strict: Whether to write nothing if any finding is an error, so that no build continues with that model.
        progress: Called with each step.
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
    if target.runtime.is_native:
        check_native(firmware or FirmwareRequest())
        if custom_operators is not None or not offline_plan:
            option = "--no-offline-plan" if custom_operators is None else "--custom-operators"
            raise UsageError(f"{option} does not apply to native code", fix="omit it, or use one of TFLM's runtimes")
        if place is not None:
            read_native_places(place, target)
    else:
        if firmware is not None:
            firmware.require_tflm()
        check_places(place, target, plan)
    on_name = name_findings(path, name)
    name = output_name(path, name)
    files = (path, request.calibration, request.evaluate, request.custom_objects, custom_operators)
    inputs = tuple(item for item in files if item is not None)
    destination = Destination(
        name,
        output or default_directory(name),
        firmware or FirmwareRequest(),
        force=force,
        inputs=inputs,
        with_places=place is not None,
    )
    for item in inputs:
        check_readable(item)
    custom = read_custom_operators(custom_operators)
    destination.check()
    if not is_tflite:
        _check_options(request)
    tflite = open_tflite(path) if is_tflite else None
    unchanged = tflite is not None and _stays_unchanged(request, tflite)
    if tflite is not None and unchanged:
        source, on_ends = _with_integer_interface(tflite, request.io)
        source, on_rewrites = rewritten_for(source, target, custom) if request.optimize else (source, ())
        notes = (*on_ends, *_unchanged_findings(request, tflite), *on_rewrites)
        origin = Origin(model_info(tflite), findings=notes)
    else:
        source, origin = _convert_and_compare(request, target, name, custom, progress or (lambda step: None))
    file_plan: FilePlan = "only" if not offline_plan else "replace" if replan else "use"
    plan = replace(plan, file_plan=file_plan)
    if target.runtime.is_native:
        return deliver_native(
            source,
            replace(origin, findings=(*origin.findings, *on_name)),
            target,
            destination,
            options=_options(request, plan, destination, custom_operators, unchanged=unchanged),
            request=plan,
            place=place,
            strict=strict,
            progress=progress,
        )
    return deliver(
        source,
        replace(origin, findings=(*origin.findings, *on_name)),
        target,
        destination,
        options={**_options(request, plan, destination, custom_operators, unchanged=unchanged), "place": place},
        renumber=not unchanged or request.optimize is True,
        request=plan,
        place=place,
        custom=custom,
        strict=strict,
        progress=progress,
    )


def _stays_unchanged(request: ConvertRequest, source: Source) -> bool:
    """Return whether a .tflite is used unchanged; otherwise, it is a model to quantize, at least in part.

    Raises UsageError for options that cannot apply, and UnsupportedModelError for a float model that cannot be
    quantized.
    """
    where, scheme = str(request.path), quantized_as(source.model)
    if request.quantize in INTEGER and is_quantizable(source.model, request.quantize):
        _refuse_options(request, IMPORT_OPTIONS, "a .tflite has no layers and no code", "omit the option")
        check_quantizable(source.model, request.quantize, where)
        return False
    if request.quantize is not None and request.quantize != (scheme or "float32"):
        raise UsageError(
            f"the model is already quantized ({scheme}): --quantize {request.quantize} cannot be applied",
            where=where,
            fix="omit the option, or use the float model",
        )
    how = "use --quantize int8 or int16x8 to quantize it" if scheme is None else "use the float model"
    kept = ("path", "quantize", "io", "optimize", "limits")
    names = [item.name for item in fields(ConvertRequest) if item.name not in kept]
    if request.io is not None and (scheme is None or request.io not in ("int8", "int16")):
        names.append("io")  # there is no QUANTIZE of that type to remove
    _refuse_options(request, names, "the .tflite is used unchanged", f"omit the option, or {how}")
    return True


def _check_options(request: ConvertRequest) -> None:
    """Raise UsageError for options that cannot apply to a model that is converted."""
    foreign = FOREIGN.get(request.path.suffix.lower())
    if foreign is not None:
        _refuse_options(request, KERAS_OPTIONS, f"{foreign} has no layers of Keras and no code", "omit the option")
    else:
        _refuse_options(
            request, ("keep_layout",), "the model has its channels last, as on the device", "omit the option"
        )


def _refuse_options(request: ConvertRequest, names: Sequence[str], why: str, fix: str) -> None:
    """Raise UsageError if any of these fields of the request is specified; the error lists them as options."""
    default = ConvertRequest(request.path)
    specified = [
        OPTION_NAMES.get(name, f"--{name.replace('_', '-')}")
        for name in names
        if getattr(request, name) != getattr(default, name)
    ]
    if specified:
        raise UsageError(f"{why}: {', '.join(specified)} cannot be applied", where=str(request.path), fix=fix)


def _unchanged_findings(request: ConvertRequest, source: Source) -> tuple[Finding, ...]:
    """Note that the model is already quantized, or how to quantize a float model if the user did not choose."""
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


def _with_integer_interface(source: Source, io: str | None) -> tuple[Source, tuple[Finding, ...]]:
    """Remove QUANTIZE and DEQUANTIZE at the inputs and outputs if `io` requests integers, and report each.

    Raises UsageError if no input or output has that type and there is no such operator to remove.
    """
    if io is None:
        hints = [f"{text}; --io int8 leaves that to the firmware" for text in conversions_at_ends(source.model)]
        return source, tuple(Finding("leftover-conversion", text) for text in hints)
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
    progress: Progress,
) -> tuple[Source, Origin]:
    """Convert the model, and compare it with the original; all temporary files are deleted."""
    with work_folder() as folder:
        form = best_form(request, target, name=f"{name}.tflite", workdir=folder, custom=custom, progress=progress)
    conversion, source = form.conversion, form.source
    quality = replace(form.quality, layers=layer_losses(conversion.debug))
    on_loss = loss_findings(
        quality, dense_per_tensor=request.dense_per_tensor, approximated=request.allow_approximation
    )
    on_inputs = input_findings(
        source.model, conversion.inputs, quality.outputs, conversion.layers, measured=bool(quality.layers)
    )
    findings = (
        *conversion_findings(quality, (*conversion.layout_notes, *conversion.notes)),
        *on_loss,
        *on_inputs,
        *form.findings,
    )
    original = _original_info(request.path, source)
    return source, Origin(
        original,
        quality,
        findings,
        conversion.versions,
        request.trust_model_code,
        header_notes=conversion.layout_notes,
    )


def _original_info(path: Path, source: Source) -> ModelInfo:
    """Return the input file's name, hash and size, with the counts of the converted model."""
    sha256, size_bytes = hash_of_path(path)
    return replace(model_info(source), name=absolute_path(path).name, sha256=sha256, bytes=size_bytes)


def hash_of_path(path: Path) -> tuple[str, int]:
    """Return the SHA-256 and the size in bytes of a file or of a directory.

    The hash of a directory is that of the sorted relative names and hashes of its files.
    """
    if not path.is_dir():
        blob = path.read_bytes()
        return sha256_of(blob), len(blob)
    digest, total_bytes = hashlib.sha256(), 0
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        blob = file.read_bytes()
        total_bytes += len(blob)
        digest.update(f"{file.relative_to(path).as_posix()}\n{sha256_of(blob)}\n".encode())
    return digest.hexdigest(), total_bytes


def _options(
    request: ConvertRequest,
    plan: PlanRequest,
    destination: Destination,
    custom_operators: Path | None,
    *,
    unchanged: bool,
) -> dict[str, object]:
    """Return the options of the user; files are stated by name only, so that the report does not depend on paths."""
    return {
        "command": "convert",
        "name": destination.name,
        "quantize": request.quantize if unchanged else request.scheme,
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
        "keep_layout": request.keep_layout,
        "optimize": not unchanged if request.optimize is None else request.optimize,
        "offline_plan": plan.file_plan != "only",
        "replan": plan.file_plan == "replace",
        **plan.as_options(),
        **destination.firmware.as_options(),
        "custom_operators": file_name(custom_operators),
    }
