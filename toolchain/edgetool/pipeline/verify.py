"""Verify a memory plan: run a .tflite with and without its plan on real TFLM, on random samples and those of a file.

The outputs must be bit-identical, and the planned file must run in exactly the arena that was predicted. The original
also runs on LiteRT for comparison. For each pair of runs, the first difference in bits and the largest distance are
reported.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edgetool import __version__
from edgetool.child import ChildDiedError
from edgetool.convert.numpy_files import load_npy, load_npz
from edgetool.errors import (
    ConversionError,
    EdgetoolError,
    InvalidModelError,
    MissingExtraError,
    ModelError,
    UnsupportedModelError,
    UsageError,
)
from edgetool.execute.quantize import numpy_dtype, quantize, random_inputs
from edgetool.execute.run import (
    DISTRIBUTION,
    TESTED,
    TflmRun,
    installed_version,
    is_tested,
    litert_engine,
    run_model,
    run_tflm,
)
from edgetool.finding import Finding
from edgetool.memory.account import ArenaAccount, account_model
from edgetool.memory.planner import Planner, PlanRequest, plan_memory
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME, decode_plan, unchecked_offsets
from edgetool.model.types import Model, Tensor
from edgetool.model.views import views_of
from edgetool.model.writer import write_model
from edgetool.operators.call import arena_bytes
from edgetool.passes.stripes import portable
from edgetool.pipeline.analysis import fault_findings
from edgetool.pipeline.output import check_readable
from edgetool.pipeline.planning import planned_source
from edgetool.pipeline.reporting import device_options, finding_infos, model_info, target_info
from edgetool.pipeline.source import Source, open_tflite
from edgetool.report.document import (
    CheckInfo,
    DifferenceInfo,
    HostArena,
    OutputDistance,
    Provenance,
    Report,
    RuntimeInfo,
    SampleInfo,
    VerifiedFile,
    VerifyInfo,
)
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.platform import Platform, make_platform, platform_of
from edgetool.target.types import Kernels, Target

Array = npt.NDArray[Any]
Unit = Literal["lsb", "absolute"]


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first difference between two runs: the sample, the output and the element in it, and both values."""

    sample: int
    output: int
    element: tuple[int, ...]
    values: tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance between two arrays: the number of elements, of differing ones, and the largest difference.

    The unit is one step of the integers (lsb), or absolute for floats. largest is None if a difference is infinite, or
    NaN in one array only.
    """

    unit: Unit
    largest: float | None
    differing: int
    elements: int


def first_difference(one: Sequence[Array], other: Sequence[Array]) -> FirstDifference | None:
    """Return the first element whose bits differ in outputs of (N, ...) each; None if there is none.

    Bits are compared, not values: 0.0 and -0.0 differ, a NaN equals itself. Raises ValueError if shapes or dtypes
    differ.
    """
    first: FirstDifference | None = None
    for output, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"output {output} is {a.dtype} {a.shape} and {b.dtype} {b.shape}")
        unequal = np.argwhere((_bytes(a) != _bytes(b)).any(axis=-1))
        if len(unequal) and (first is None or unequal[0][0] < first.sample):
            index = tuple(int(i) for i in unequal[0])
            first = FirstDifference(index[0], output, index[1:], (a[index].item(), b[index].item()))
    return first


def distance(one: Array, other: Array) -> Distance:
    """Return the distance between two arrays of the same shape and dtype; NaN in the same place is no difference."""
    if one.dtype.kind != "f":
        differences = np.abs(one.astype(object) - other.astype(object)) if one.dtype.kind in "iu" else one != other
        return Distance("lsb", float(differences.max(initial=0)), int(np.count_nonzero(differences)), one.size)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        differences = np.abs(one[~same].astype(np.float64) - other[~same].astype(np.float64))
    largest = float(differences.max(initial=0))
    return Distance("absolute", largest if np.isfinite(largest) else None, differences.size, one.size)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return the array's bytes, (*shape, bytes of an element)."""
    return np.ascontiguousarray(array).reshape(array.shape).view(np.uint8).reshape(*array.shape, array.itemsize)


def load_samples(path: Path, model: Model) -> tuple[Array, ...]:
    """Read samples for the model from an .npz or .npy file.

    Arrays are named after the signature's arguments or the tensors; the only array for a single input may have any
    name.

    Returns:
        One array of shape (N, *shape) for each graph input, in the dtype of its tensor.

    Raises:
        UsageError: The arrays do not fit the model.
    """
    check_readable(path)
    arrays = {path.name: load_npy(path)} if path.suffix.lower() == ".npy" else load_npz(path)
    return raw_samples(arrays, model, where=str(path))


def raw_samples(arrays: Mapping[str, Array], model: Model, *, where: str) -> tuple[Array, ...]:
    """Return the arrays in the dtypes of the graph's inputs: real numbers in another dtype are quantized.

    The first dimension of each array counts the samples; it may replace a batch dimension of 1. Raises UsageError if an
    array is missing or does not fit.
    """
    tensors = [model.main.tensors[index] for index in model.main.inputs]
    columns = [
        _raw(_array_named(arrays, _input_names(model, tensor), single=len(tensors) == 1, where=where), tensor, where)
        for tensor in tensors
    ]
    counts = sorted({len(column) for column in columns})
    if len(counts) > 1 or counts == [0]:
        raise UsageError(
            f"contains {', '.join(map(str, counts))} samples",
            where=where,
            fix="provide the same number for every input, at least one",
        )
    return tuple(columns)


def _input_names(model: Model, tensor: Tensor) -> tuple[str, ...]:
    """Return the names that an array for the input may have: first the signature's, then the tensor's."""
    argument = model.argument_name(0, tensor.index)
    return (tensor.name,) if argument is None else (argument, tensor.name)


def _array_named(arrays: Mapping[str, Array], names: tuple[str, ...], *, single: bool, where: str) -> Array:
    for name in names:
        if name in arrays:
            return arrays[name]
    if single and len(arrays) == 1:
        return next(iter(arrays.values()))
    raise UsageError(
        f"has no array {names[0]!r}; it has {', '.join(map(repr, arrays)) or 'none'}",
        where=where,
        fix="name each array after its model input",
    )


def _raw(values: Array, tensor: Tensor, where: str) -> Array:
    dtype = numpy_dtype(tensor.dtype)
    if values.dtype.kind not in "fiub":
        raise UsageError(f"contains {values.dtype} values instead of numbers", where=where, fix="save it as float32")
    shapes = [tensor.shape, *([tensor.shape[1:]] if tensor.shape[:1] == (1,) else [])]
    if not values.ndim or values.shape[1:] not in shapes:
        raise UsageError(
            f"has shape {list(values.shape)} for {tensor.name!r}, which requires samples of shape {list(tensor.shape)}",
            where=where,
            fix="provide an array of shape (N, *shape)",
        )
    shaped = values.reshape(len(values), *tensor.shape)
    if dtype.kind in "iu" and values.dtype.kind == "f" and np.isnan(values).any():
        raise UsageError(
            f"contains NaN for {tensor.name!r}, which {dtype} cannot represent",
            where=where,
            fix="remove the NaN values",
        )
    raw = shaped if values.dtype == dtype else quantize(shaped, tensor.quantization, tensor.dtype)
    is_integer = dtype.kind in "iu" and (tensor.quantization is None or not tensor.quantization.scales)
    if is_integer and not np.array_equal(raw.astype(np.float64), shaped.astype(np.float64)):
        raise UsageError(
            f"contains values that {tensor.name!r} ({dtype} without a scale) cannot represent", where=where
        )
    return raw


# The tflite-micro wheel contains these kernels, built for this ABI.
HOST_ABI = "x86-64"
HOST_KERNELS: Kernels = "reference"


@dataclass(frozen=True, slots=True)
class ComparedFiles:
    """The input file and the two files that are run.

    Attributes:
        source: The input file.
        original: The file without a plan, or the file that the user specified as the original.
        planned: The file with the plan.
        planner: The origin of the plan.
        account: The account of the planned file on the machine that runs it.
        findings: Why the plan is unsafe, if it is run nevertheless.
    """

    source: Source
    original: Source
    planned: Source
    planner: Planner
    account: ArenaAccount
    findings: tuple[Finding, ...]


def host_platform() -> Platform:
    """Return the platform of the wheel: reference kernels for x86-64, of the newest version of TFLM."""
    return make_platform(load_runtime(DEFAULT_RUNTIME), HOST_ABI, HOST_KERNELS)


def _untested(target: Target | None) -> tuple[str, ...]:
    """Return the target's kernel set, if it or its version does not run here."""
    if target is None or target.runtime.is_native:
        return ()
    same = target.kernels == HOST_KERNELS and target.runtime.name == DEFAULT_RUNTIME
    return () if same else (target.kernels,)


def choose_files(path: Path, target: Target | None, *, original: Path | None, run_unsafe_plan: bool) -> ComparedFiles:
    """Choose the two files to run, as verify_model describes; with an `original`, the model itself is not changed.

    Raises InvalidModelError for an unsafe plan (unless run_unsafe_plan), UsageError if `original` has different inputs
    or outputs.
    """
    source = open_tflite(path)
    planned = source
    if original is not None:
        original_source = open_tflite(original)
        _check_same_interface(original_source, source)
    elif decode_plan(source.model) is not None:
        without_plan = without_metadata(source.model, METADATA_NAME)
        if views := views_of(source.model):
            # Only a plan makes tensors parts of others: SLICE and CONCATENATION compute the same on any runtime.
            without_plan = portable(without_plan, views)
        original_source = Source(source.name, write_model(without_plan), without_plan)
    else:
        original_source = source
        plan = plan_memory(source.model, host_platform() if target is None else platform_of(target))
        planned = planned_source(source, plan, target)
    account, findings = _account(planned.model, host_platform(), run_unsafe_plan=run_unsafe_plan)
    return ComparedFiles(source, original_source, planned, _planner(source, planned), account, findings)


def _planner(source: Source, planned: Source) -> Planner:
    if decode_plan(planned.model) is None:
        return "runtime"
    return "file" if planned is source else "edgetool"


def _account(model: Model, host: Platform, *, run_unsafe_plan: bool) -> tuple[ArenaAccount, tuple[Finding, ...]]:
    """Return the account of an unchanged file, and a finding if its plan is unsafe but followed nevertheless."""
    try:
        account = plan_memory(model, host, PlanRequest(file_plan="only")).account
        assert account is not None
        return account, ()
    except InvalidModelError as error:
        if not run_unsafe_plan:
            raise InvalidModelError(
                error.what,
                where=error.where,
                fix="create a new one with 'edgetool plan --replan -o', or run it anyway with --run-unsafe-plan",
                details=error.details,
            ) from error
        finding = Finding("unsafe-plan", f"{error.what}; it was run as requested", where=error.where)
    return account_model(model, host, offsets=unchecked_offsets(model)), (finding,)


def _check_same_interface(original: Source, source: Source) -> None:
    for what in ("inputs", "outputs"):
        signatures = [
            [(tensors[i].shape, tensors[i].dtype.name) for i in getattr(item.model.main, what)]
            for item in (original, source)
            for tensors in (item.model.main.tensors,)
        ]
        if signatures[0] != signatures[1]:
            texts = (", ".join(f"{dtype} {list(shape)}" for shape, dtype in item) or "none" for item in signatures)
            raise UsageError(
                "the {} are {} here but {} in the model".format(what, *texts),
                where=original.name,
                fix="use --original only with another version of the same model",
            )


Progress = Callable[[str], None]
DEFAULT_SAMPLES = 8
# The granularity of arena sizes: TFLM aligns both ends of its arena to it.
ARENA_STEP = 16
# All random samples are in memory at once, and copied for each run.
MAX_SAMPLE_BYTES = 2**29


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples on which both files are run, in this order on one interpreter.

    file: the name of the file of the samples after the random ones.
    """

    info: SampleInfo
    arrays: tuple[Array, ...]
    file: str

    def name(self, index: int) -> str:
        """Return the name of a sample, such as "random sample 3" or "data.npz sample 0"."""
        from_file = index - self.info.random
        return f"random sample {index}" if from_file < 0 else f"{self.file} sample {from_file}"


def verify_model(
    path: Path,
    target: Target | None = None,
    *,
    original: Path | None = None,
    inputs: Path | None = None,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    run_unsafe_plan: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Run the original and the planned file on TFLM, each in a separate process, and report every check in `verify`.

    A file with a memory plan is compared with the same file without the plan. A file without a plan is compared with
    the same file with edgetool's plan for the target, or for this machine without a target.

    Args:
        path: The .tflite.
        target: The target, if any.
        original: Another file to compare with.
        inputs: An .npz or .npy file with further samples, which are run after the random ones.
        samples: The number of random samples.
        seed: The seed of the random samples.
        run_unsafe_plan: Whether to run an unsafe plan nevertheless.
        progress: Called with each step.

    Raises:
        UnsupportedModelError: TFLM does not run the original.
        InvalidModelError: The plan in the file is unsafe (unless run_unsafe_plan).
        MissingExtraError: TFLM is not installed.

    A failed check is not an error.
    """
    report_step = progress or (lambda step: None)
    files = choose_files(path, target, original=original, run_unsafe_plan=run_unsafe_plan)
    all_samples = load_all_samples(files.original, inputs, samples, seed)
    reference = run_original(files.original, all_samples, report_step)
    checks, planned_run = _run_checks(files, all_samples, reference, report_step)
    # An unsafe plan never passes, even if no difference shows on these samples.
    checks = (*checks, *(CheckInfo("plan-safe", False, finding.message) for finding in files.findings))
    # The kernels of this machine cannot show faults that only those of the target have.
    faults = () if target is None else tuple(fault_findings(files.planned.model, target, None))
    checks = (*checks, *(CheckInfo("kernel-fault", False, fault.message) for fault in faults))
    report_step("running the original on LiteRT")
    verified = VerifyInfo(
        passed=all(check.passed is not False for check in checks),
        original=file_info(files.original),
        planned=file_info(files.planned),
        planner=files.planner,
        samples=all_samples.info,
        checks=checks,
        arena=_host_arena(files.account, planned_run),
        runtimes=(on_litert(files.original, all_samples, reference),),
        kernels_run=(HOST_KERNELS,),
        kernels_untested=_untested(target),
    )
    options: dict[str, object] = {
        "command": "verify",
        "samples": samples,
        "seed": seed,
        "original": original.name if original is not None else None,
        "inputs": inputs.name if inputs is not None else None,
        "run_unsafe_plan": run_unsafe_plan,
    }
    return verify_report(files.source, target, options, verified, (*files.findings, *faults))


def verify_report(
    source: Source,
    target: Target | None,
    options: Mapping[str, object],
    verified: VerifyInfo,
    findings: tuple[Finding, ...] = (),
) -> Report:
    """Return the report of a verification."""
    return Report(
        provenance=Provenance(
            tool=f"edgetool {__version__}",
            versions=_versions(),
            options={**options, **device_options(target)},
            trust_model_code=False,
        ),
        model=model_info(source),
        target=target_info(target),
        verify=verified,
        findings=finding_infos(findings),
    )


def _versions() -> dict[str, str]:
    tflm = installed_version()
    return {"python": platform.python_version(), **({} if tflm is None else {DISTRIBUTION: tflm})}


def load_all_samples(source: Source, path: Path | None, count: int, seed: int) -> Samples:
    """Return random samples and those of a file. Raises UsageError if they do not fit the model, or are too many."""
    _refuse_too_many(source.model, count)
    random = random_inputs(source.model, count, seed)
    if path is None:
        return Samples(SampleInfo(count, seed, 0), random, "")
    from_file = load_samples(path, source.model)
    arrays = tuple(np.concatenate(pair) for pair in zip(random, from_file, strict=True))
    return Samples(SampleInfo(count, seed, len(from_file[0]) if from_file else 0), arrays, path.name)


def _refuse_too_many(model: Model, count: int) -> None:
    size_bytes = count * sum(arena_bytes(model.main.tensors[index]) for index in model.main.inputs)
    if max(size_bytes, count) > MAX_SAMPLE_BYTES:
        raise UsageError(
            f"{count:,} random samples take {size_bytes:,} bytes, more than {MAX_SAMPLE_BYTES:,}",
            where="--samples",
            fix="specify fewer",
        )


def run_original(source: Source, samples: Samples, report_step: Progress) -> TflmRun:
    """Run a model on TFLM. Raises UnsupportedModelError if TFLM does not run it."""
    try:
        return run_tflm(source.blob, samples.arrays, progress=lambda step: report_step(f"the original: {step}"))
    except (ChildDiedError, UnsupportedModelError) as error:
        raise UnsupportedModelError(error.what, where=source.name, details=error.details) from error


def _run_checks(
    files: ComparedFiles, samples: Samples, reference: TflmRun, report_step: Progress
) -> tuple[tuple[CheckInfo, ...], TflmRun | None]:
    """Run all checks; return them in order, and the run of the planned file in an arena of ample size."""
    account = files.account
    names = ("outputs-equal", "arena-used", "arena-sufficient", "arena-smallest")
    try:
        run = run_tflm(
            files.planned.blob, samples.arrays, progress=lambda step: report_step(f"the planned file: {step}")
        )
    except (ModelError, ConversionError) as error:
        failed = CheckInfo("planned-runs", False, f"the planned file does not run: {error_line(error)}")
        skipped = (CheckInfo(name, None, "not checked: the planned file does not run") for name in names)
        return (failed, *skipped), None
    checks = [
        CheckInfo("planned-runs", True, "the planned file runs"),
        _planned_outputs_check(files, samples, reference, run),
    ]
    if account.is_lower_bound:
        reason = f"not checked: the predicted arena is only a lower bound ({_unaccounted(account)})"
        return (*checks, *(CheckInfo(name, None, reason) for name in names[1:])), run
    checks.append(_used_check(account, run))
    for name, size in (("arena-sufficient", account.bytes), ("arena-smallest", account.bytes - ARENA_STEP)):
        report_step(f"the planned file in an arena of {size:,} bytes")
        failure = _failure_in(files.planned, samples, run, size)
        checks.append(_arena_check(name, size, failure))
    return _with_version_hint(checks), run


def _with_version_hint(checks: list[CheckInfo]) -> tuple[CheckInfo, ...]:
    """Add a hint to failed checks of the arena if the prediction was not tested with the installed TFLM."""
    installed = installed_version()
    if installed is None or is_tested(installed):
        return tuple(checks)
    cause = (
        f"; {DISTRIBUTION} {installed} is installed, and the prediction is for {TESTED[0]} to {TESTED[1]}: "
        "pip install 'edgetool[verify]'"
    )
    return tuple(
        replace(check, message=check.message + cause)
        if check.check.startswith("arena") and check.passed is False
        else check
        for check in checks
    )


def _planned_outputs_check(files: ComparedFiles, samples: Samples, reference: TflmRun, run: TflmRun) -> CheckInfo:
    return outputs_check(files.original, samples, reference.outputs, run.outputs, other="the planned file")


def outputs_check(
    original: Source, samples: Samples, expected: Sequence[Array], outputs: Sequence[Array], *, other: str
) -> CheckInfo:
    """Compare the outputs of the original with those of another run, which `other` names, bit by bit."""
    difference = first_difference(expected, outputs)
    count = samples.info.random + samples.info.from_file
    if difference is None:
        return CheckInfo("outputs-equal", True, f"{count} consecutive samples: all outputs are bit-identical")
    name = _output_names(original)[difference.output]
    original_value, other_value = difference.values
    message = (
        f"{samples.name(difference.sample)}, output {name!r}, element {list(difference.element)}: "
        f"{original_value} in the original, {other_value} in {other}"
    )
    info = DifferenceInfo(
        difference.sample, name, difference.element, _json_number(original_value), _json_number(other_value)
    )
    return CheckInfo("outputs-equal", False, message, info)


def _used_check(account: ArenaAccount, run: TflmRun) -> CheckInfo:
    used = run.allocation
    predicted = (account.used_bytes, account.head_bytes, account.tail_bytes)
    same = predicted == (used.total, used.head, used.tail)
    message = f"on {HOST_ABI} TFLM uses {used.total:,} bytes of its arena ({used.head:,} head, {used.tail:,} tail)"
    if not same:
        message += ", but {:,} ({:,} head, {:,} tail) were predicted".format(*predicted)
    return CheckInfo("arena-used", same, message)


def _failure_in(planned: Source, samples: Samples, run: TflmRun, size: int) -> str | None:
    """Return why the planned file does not work in an arena of that size; None if it does."""
    if size <= 0:
        return "the arena size is not positive"
    try:
        outputs = run_model(planned.blob, samples.arrays, engine="tflm", arena_bytes=size)
    except (ModelError, ConversionError) as error:  # TFLM refused it, or the process died
        return error_line(error)
    return None if first_difference(run.outputs, outputs) is None else "its outputs are wrong"


def _arena_check(name: str, size: int, failure: str | None) -> CheckInfo:
    if name == "arena-sufficient":
        if failure is None:
            return CheckInfo(name, True, f"it runs in the predicted arena of {size:,} bytes")
        return CheckInfo(name, False, f"it does not run in the predicted arena of {size:,} bytes: {failure}")
    if failure is None:
        text = f"it also runs in {size:,} bytes: the predicted arena is not the smallest"
        return CheckInfo(name, False, text)
    return CheckInfo(name, True, f"it does not run in {size:,} bytes")


def on_litert(original: Source, samples: Samples, reference: TflmRun) -> RuntimeInfo:
    """Return the distance of LiteRT's outputs from TFLM's; their reference kernels round differently in some cases."""
    try:
        outputs = run_model(original.blob, samples.arrays, engine=litert_engine(original.model))
    except (ModelError, ConversionError, MissingExtraError) as error:
        return RuntimeInfo("LiteRT", error_line(error))
    rows = []
    for name, micro, lite in zip(_output_names(original), reference.outputs, outputs, strict=True):
        if micro.shape != lite.shape or micro.dtype != lite.dtype:
            mismatch = f"its output {name!r} is {lite.dtype} {list(lite.shape[1:])}, not {micro.dtype}"
            return RuntimeInfo("LiteRT", f"{mismatch} {list(micro.shape[1:])}")
        gap = distance(micro, lite)
        rows.append(OutputDistance(name, gap.unit, gap.largest, gap.differing, gap.elements))
    return RuntimeInfo("LiteRT", None, tuple(rows))


def _host_arena(account: ArenaAccount, run: TflmRun | None) -> HostArena:
    return HostArena(
        abi=HOST_ABI,
        is_lower_bound=account.is_lower_bound,
        predicted_bytes=account.bytes,
        predicted_used_bytes=account.used_bytes,
        predicted_head_bytes=account.head_bytes,
        predicted_tail_bytes=account.tail_bytes,
        used_bytes=run.allocation.total if run is not None else None,
        head_bytes=run.allocation.head if run is not None else None,
        tail_bytes=run.allocation.tail if run is not None else None,
    )


def _output_names(source: Source) -> tuple[str, ...]:
    graph = source.model.main
    return tuple(source.model.argument_name(0, index) or graph.tensors[index].name for index in graph.outputs)


def file_info(source: Source) -> VerifiedFile:
    """Return the description of a file."""
    return VerifiedFile(source.name, source.sha256, len(source.blob))


def _json_number(value: object) -> int | float | None:
    """Return the value as JSON can represent it; None for NaN and infinity."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def error_line(error: EdgetoolError) -> str:
    """Return the error in one line, with the last message of the runtime."""
    return f"{error.what} ({error.details[-1].strip()})" if error.details else error.what


def _unaccounted(account: ArenaAccount) -> str:
    labels = dict.fromkeys(item.refusal or item.label for item in account.unaccounted)
    return ", ".join(labels)
