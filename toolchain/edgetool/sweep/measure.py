"""What a model needs on a target and what it loses against its float original."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgetool.child import Limits
from edgetool.convert.quality import OutputQuality as Compared
from edgetool.convert.quality import accuracy, compare_outputs
from edgetool.convert.request import Conversion
from edgetool.errors import ConversionError
from edgetool.execute.run import DEFAULT_LIMITS
from edgetool.gate.limits import Of
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.compare import classifies, run_quantized
from edgetool.pipeline.effort import Watch
from edgetool.pipeline.plan_request import PlanRequest
from edgetool.pipeline.planned_model import PlannedModel, planned_for
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source
from edgetool.report.document import Accuracy, OutputQuality, QuantizationInfo
from edgetool.sweep.metrics import Cost, Metrics, Quality
from edgetool.sweep.reference import Array, Reference, outputs_for
from edgetool.target.types import Target

MODEL_NAME = "model.tflite"
# Errors that are judged by the sweep itself, which knows the reserves.
JUDGED = frozenset(["arena-too-large", "model-too-large", "arena-lower-bound"])


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """arena_bytes: what to declare; where it is not exact, what it is not below. model_bytes: of the planned file."""

    arena_bytes: int
    model_bytes: int
    exact: bool

    def used(self, *, reserve_bytes: int = 0, reserve_flash_bytes: int = 0) -> dict[Of, int]:
        """By what budgets are of: the arena, RAM with its reserve, flash with its reserve."""
        return {
            "arena": self.arena_bytes,
            "ram": self.arena_bytes + reserve_bytes,
            "flash": self.model_bytes + reserve_flash_bytes,
        }


def measured_memory(tflite: bytes, target: Target, *, seed: int = 0) -> MemoryUse:
    """The memory that a .tflite takes on the target, planned as `convert` does.

    Raises ModelError for a file that is no model, or none that can be planned.
    """
    made = _planned(tflite, target, seed)
    plan = made.analysis.plan
    return MemoryUse(
        arena_bytes=plan.account.bytes if plan.account is not None else plan.layout.height,
        model_bytes=len(made.source.blob),
        exact=plan.account is not None and not plan.account.is_lower_bound,
    )


def measured_cost(tflite: bytes, target: Target, *, name: str = MODEL_NAME, seed: int = 0) -> Cost:
    """What a .tflite costs on the target: the figures that `convert` reports of the file that it writes for it.

    The search for a plan ends after so many steps, whatever the time: the same model and seed give the same figures.
    Raises ModelError for a file that is no model, or none that can be planned.
    """
    made = _planned(tflite, target, seed, name=name)
    told = report(made.source, made.analysis, options={}, findings=made.unwritten)
    arena, memory, estimate = told.arena, told.memory, told.estimate
    assert arena is not None
    assert memory is not None
    assert estimate is not None
    least = arena.bytes if arena.bytes is not None else arena.layout_bytes
    findings = [(item.level, item.message) for item in told.findings if item.rule not in JUDGED]
    return Cost(
        arena_bytes=None if arena.is_lower_bound else arena.bytes,
        arena_least_bytes=least,
        arena_proof=arena.proof,
        model_bytes=len(made.source.blob),
        parameters=told.model.parameters,
        macs=estimate.macs,
        latency_ms=estimate.latency_ms,
        energy_uj=estimate.energy_uj,
        bandwidth_utilization=estimate.bandwidth_utilization,
        region=memory.region,
        sram_bytes=memory.sram_bytes,
        flash_bytes=memory.flash_bytes,
        errors=tuple(message for level, message in findings if level == "error"),
        warnings=tuple(message for level, message in findings if level == "warning"),
    )


def measured_quality(
    conversion: Conversion,
    reference: Reference,
    *,
    scheme: str,
    workdir: Path,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Quality, QuantizationInfo]:
    """What a conversion loses against the float original, run on LiteRT's reference kernels; the same per output.

    Raises ConversionError when the model does not run there, or what it or its original says is not finite,
    InternalError when the conversion and the reference are not of the same samples and outputs, CalibrationError when
    the labels do not fit the outputs.
    """
    model = read_model(conversion.tflite, name=MODEL_NAME)
    positions = outputs_for(conversion, reference)
    outputs = _run(conversion.tflite, model, conversion.inputs, workdir, limits)
    compared = compare_outputs([reference.outputs[index] for index in positions], outputs)
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    names = [model.argument_name(0, tensor.index) or tensor.name for tensor in tensors]
    _check_finite(compared, names)
    evaluation = conversion.evaluation
    labelled = evaluation.output if evaluation is not None else None
    may = classifies(model.main, labelled)
    agreements = answered = _agreements(compared, may)
    accuracies = None
    if evaluation is not None and reference.float_accuracy is not None:
        evaluated = _run(conversion.tflite, model, evaluation.inputs, workdir, limits)
        answers = compare_outputs([reference.evaluated[index] for index in positions], evaluated)
        _check_finite(answers, names)
        answered = _agreements(answers, may)
        original = reference.evaluated[positions[evaluation.output]]
        right = accuracy(evaluated[evaluation.output], evaluation.labels, original=original)
        accuracies = Accuracy(float=reference.float_accuracy, quantized=right)
    answering = answered if labelled is None else (answered[labelled],)
    quality = Quality(
        accuracy=accuracies.quantized if accuracies is not None else None,
        float_accuracy=reference.float_accuracy,
        agreement=next((item for item in answering if item is not None), None),
        sqnr_db=_worst_sqnr_db(compared),
        calibrated=conversion.calibrated,
        samples=conversion.samples,
        equal=all(map(_is_equal, compared)),
    )
    per_output = tuple(
        OutputQuality(name, item.sqnr_db, item.cosine, agreement)
        for name, item, agreement in zip(names, compared, agreements, strict=True)
    )
    return quality, QuantizationInfo(scheme, conversion.calibrated, conversion.samples, per_output, accuracies)


def variant_metrics(
    conversion: Conversion, reference: Reference, target: Target, *, scheme: str, workdir: Path, seed: int = 0
) -> Metrics:
    """Everything that is measured of a variant: measured_quality and measured_cost, and what they raise."""
    quality, _ = measured_quality(conversion, reference, scheme=scheme, workdir=workdir)
    return Metrics(quality, measured_cost(conversion.tflite, target, seed=seed))


def _planned(tflite: bytes, target: Target, seed: int, *, name: str = MODEL_NAME) -> PlannedModel:
    options = PlanRequest(seed=seed).options(Watch(None, seed=seed))
    return planned_for(Source(name, tflite, read_model(tflite, name=name)), target, options=options)


def _run(tflite: bytes, model: Model, inputs: tuple[Array, ...], workdir: Path, limits: Limits) -> tuple[Array, ...]:
    try:
        return run_quantized(tflite, model, inputs, workdir, limits=limits)
    except ConversionError as error:
        raise ConversionError(
            f"the converted model cannot run: {error.what}", where=error.where, fix=error.fix, details=error.details
        ) from error


def _check_finite(compared: tuple[Compared, ...], names: list[str]) -> None:
    """Nothing is known of how far such outputs are off: not equal, and not a little."""
    for name, item in zip(names, compared, strict=True):
        if item.max_abs_error is None:
            raise ConversionError(
                "the outputs of the variant or its original are not finite for these samples",
                where=f"output {name!r}",
                fix="look for a layer that overflows or divides by zero, or choose another precision",
            )


def _is_equal(item: Compared) -> bool:
    return item.max_abs_error == 0


def _worst_sqnr_db(compared: tuple[Compared, ...]) -> float | None:
    """Of the outputs that differ; None where none does, or where one has noise and no signal."""
    differing = [item.sqnr_db for item in compared if not _is_equal(item)]
    known = [value for value in differing if value is not None]
    return min(known, default=None) if len(known) == len(differing) else None


def _agreements(compared: tuple[Compared, ...], classes: tuple[bool, ...]) -> tuple[float | None, ...]:
    """The share of samples with the same class, per output that can give classes."""
    return tuple(item.top1_agreement if may else None for item, may in zip(compared, classes, strict=True))
