"""Verify generated C against TFLM's reference kernels: compiled for this machine, and on emulated cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgetool.codegen.native.files import constant_bytes, native_files, row_files, run_macros, run_source
from edgetool.codegen.native.lower import NativeProgram, Stream
from edgetool.errors import ConversionError
from edgetool.execute.cores import MACHINES
from edgetool.execute.native import CoreRun, run_native
from edgetool.pipeline.delivery import Progress
from edgetool.pipeline.firmware import header_spec
from edgetool.pipeline.native import native_model
from edgetool.pipeline.native_rows import program_costs
from edgetool.pipeline.native_stream import LEAST_WINDOWS, stream_samples
from edgetool.pipeline.source import Source, open_tflite
from edgetool.pipeline.targets import NATIVE
from edgetool.pipeline.verify import (
    DEFAULT_SAMPLES,
    HOST_ABI,
    Array,
    Samples,
    error_line,
    file_info,
    load_all_samples,
    on_litert,
    outputs_check,
    run_original,
    verify_report,
)
from edgetool.report.document import CheckInfo, HostArena, Report, VerifyInfo
from edgetool.target.types import Target

CORE_MACS = 200_000_000  # of all samples on one emulated core: a few seconds


def verify_native(
    path: Path,
    target: Target | None = None,
    *,
    inputs: Path | None = None,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    place: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compile a model's generated C with sanitizers, run it, and compare its outputs with TFLM's, bit by bit.

    Args:
        path: The .tflite.
        target: The target, if any, which does not influence the outputs.
        inputs: An .npz or .npy file with further samples, which are run after the random ones.
        samples: The number of random samples.
        seed: The seed of the random samples.
        place: As for native_model; each part of the arena is then an array of its own.
        progress: Called with each step.

    Raises:
        UnsupportedModelError: TFLM or the native runtime does not run the model.
        MissingExtraError: There is no C compiler, or TFLM is not installed.

    A failed check is not an error.
    """
    report_step = progress or (lambda step: None)
    source = open_tflite(path)
    model = native_model(source, target, place=place)
    program = model.planned.program
    least = 0 if program.stream is None else LEAST_WINDOWS
    taken = load_all_samples(source, inputs, max(samples, least), seed)
    stream = None
    if program.stream is not None:
        # Those of the file come first, because the end of a long stream is cut off.
        stream = stream_samples(np.roll(taken.arrays[0], taken.info.from_file, axis=0), program.stream)
        taken = replace(taken, arrays=(stream.windows,))
    reference = run_original(source, taken, report_step)
    spec = header_spec("model", source, model.planned.plan, target, uncalibrated=False)
    rows, placed = model.planned.rows, model.planned.placed
    if placed is not None and target is not None:
        spec = replace(spec, places=placed.specs(target, constant_bytes(program)))
    if rows is None:
        files = {**native_files(spec, program, model.planned.memory), "run.c": run_source(spec, program)}
    else:
        fed = [program.graph.inputs.index(tensor) for tensor in rows.fed]
        by_rows = [program.graph.outputs.index(tensor) for tensor in rows.taken]
        files = {**row_files(spec, program, rows.problem, rows.plan), "run.c": run_source(spec, program, fed, by_rows)}
    files["model.c"] = run_macros(spec, program) + files["model.c"]
    outputs = [program.graph.tensors[index] for index in program.graph.outputs]
    try:
        native = run_native(
            files,
            taken.arrays if stream is None else (stream.hops,),
            outputs,
            cores=[core for core in MACHINES if target is None or target.core.name == core],
            core_samples=_core_samples(program),
            progress=report_step,
        )
    except ConversionError as error:
        checks: tuple[CheckInfo, ...] = (
            CheckInfo("native-runs", False, f"the generated code does not run: {error_line(error)}"),
            CheckInfo("outputs-equal", None, "not checked: the generated code does not run"),
        )
    else:
        size = f"{model.planned.memory.arena_bytes:,} bytes"
        text = f"the generated code compiles and runs without a report of a sanitizer in its arena of {size}"
        compared = _outputs_check(source, taken, reference.outputs, native.outputs, program.stream)
        checks = (CheckInfo("native-runs", True, text), compared, _cores_check(native.cores, native.core_samples))
    report_step("running the model on LiteRT")
    arena = model.planned.memory.arena_bytes
    verified = VerifyInfo(
        passed=all(check.passed is not False for check in checks),
        original=file_info(source),
        planned=file_info(source),
        planner="edgetool",
        samples=taken.info,
        checks=checks,
        arena=HostArena(HOST_ABI, False, arena, arena, arena, 0, None, None, None),
        runtimes=(on_litert(source, taken, reference),),
        native=True,
    )
    options: dict[str, object] = {
        "command": "verify",
        "runtime": NATIVE,
        "samples": samples,
        "seed": seed,
        "inputs": inputs.name if inputs is not None else None,
        "place": place,
    }
    return verify_report(source, target, options, verified)


def _outputs_check(
    source: Source, taken: Samples, expected: Sequence[Array], outputs: Sequence[Array], stream: Stream | None
) -> CheckInfo:
    """Compare the outputs with those of TFLM; of a stream, from the first whole window on."""
    if stream is None:
        return outputs_check(source, taken, expected, outputs, other="the generated code")
    count = len(taken.arrays[0])
    windows = replace(taken, info=replace(taken.info, random=count, from_file=0))
    whole = [array[-count:] for array in outputs]
    check = outputs_check(source, windows, expected, whole, other="the generated code")
    text = f"windows of {stream.window_rows:,} rows, each {stream.hop_rows:,} after the one before: {check.message}"
    return replace(check, message=text)


def _core_samples(program: NativeProgram) -> int:
    """Return how many samples an emulated core runs: as many as stay below CORE_MACS, and at least one."""
    return max(1, CORE_MACS // max(1, sum(cost.macs for cost in program_costs(program))))


def _cores_check(runs: Sequence[CoreRun], samples: int) -> CheckInfo:
    """Return the check of the outputs on emulated cores: null if none ran the code."""
    equal = [run.core for run in runs if run.equal]
    parts = []
    if equal:
        count = f"{samples} sample" + "s" * (samples != 1)
        parts.append(f"{', '.join(equal)}, emulated by QEMU: the outputs of {count} are bit-identical")
    parts += [f"{run.core} on QEMU's {run.machine}: {run.why}" for run in runs if run.equal is False]
    reasons: dict[str, list[str]] = {}
    for run in runs:
        if run.equal is None:
            reasons.setdefault(run.why, []).append(run.core)
    parts += [f"not run on {', '.join(cores)}: {why}" for why, cores in reasons.items()]
    verdicts = [run.equal for run in runs if run.equal is not None]
    text = "; ".join(parts) or "not run: QEMU has no machine with the target's core"
    return CheckInfo("native-on-cores", all(verdicts) if verdicts else None, text)
