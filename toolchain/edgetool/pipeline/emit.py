"""The C files of a model, and the command that writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgetool import __version__
from edgetool.errors import InvalidModelError, UsageError
from edgetool.finding import Finding
from edgetool.firmware.c_names import is_portable, model_identifier
from edgetool.firmware.header import header
from edgetool.firmware.model_data import model_data
from edgetool.firmware.spec import HeaderSpec, IoSpec, TargetSpec, TensorSpec
from edgetool.memory.checker import check_layout
from edgetool.memory.offline_plan import METADATA_NAME, PLANNED_AT_RUN_TIME, decode_plan
from edgetool.memory.planner import MemoryPlan
from edgetool.memory.types import Layout, LayoutProblem
from edgetool.model.types import Graph, Model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.files import check_writable, write_files
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source, open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target

ANY_TARGET = TargetSpec(name="unspecified", core="unspecified", kernels="unspecified")


@dataclass(frozen=True, slots=True)
class Emitted:
    """What `emit` made."""

    report: Report
    files: tuple[Path, ...]


def emit_files(
    path: Path,
    target: Target | None,
    *,
    output: Path | None = None,
    name: str | None = None,
    force: bool = False,
) -> Emitted:
    """Write header and model data of a .tflite into `output`, by default the directory NAME-firmware."""
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    source = open_tflite(path)
    check_writable(directory, firmware_names(name), force=force, inputs=(path,))
    analysis = analyse(source, target, with_estimate=target is not None)
    in_file, findings = plan_in_file(source.model, analysis.plan)
    made = firmware_files(name, source, analysis.plan, target, offsets=in_file)
    files = write_files(directory, made, force=force, inputs=(path,))
    return Emitted(report(source, analysis, options={"command": "emit", "name": name}, findings=findings), files)


def output_name(path: Path, name: str | None) -> str:
    """What files and C names are called: the given name, or one made from the model's file name.

    Raises UsageError when the given name is no portable C identifier.
    """
    if name is not None:
        if not is_portable(name):
            raise UsageError(
                "is not a C name: 1 to 31 letters, digits and '_', no digit first, no word of C or C++",
                where=f"--name {name!r}",
                fix="choose another",
            )
        return name
    return model_identifier(re.sub(r"[^A-Za-z0-9]+", "_", path.resolve().stem).strip("_") or "model")


def firmware_names(name: str) -> tuple[str, ...]:
    """The names of the C files of a model."""
    return (f"{name}.h", f"{name}_model.c", f"{name}_model.h")


def firmware_files(
    name: str,
    source: Source,
    plan: MemoryPlan,
    target: Target | None,
    *,
    offsets: dict[tuple[int, int], int],
    uncalibrated: bool = False,
    notes: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """The C files by name. `offsets` are those that the .tflite itself fixes, by (subgraph, tensor)."""
    spec = header_spec(name, source, plan, target, offsets=offsets, uncalibrated=uncalibrated, notes=notes)
    data_c, data_h = model_data(name, source.blob)
    texts = dict(zip(firmware_names(name), (header(spec), data_c, data_h), strict=True))
    return {file: text.encode("ascii") for file, text in texts.items()}


def header_spec(
    name: str,
    source: Source,
    plan: MemoryPlan,
    target: Target | None,
    *,
    offsets: dict[tuple[int, int], int],
    uncalibrated: bool,
    notes: tuple[str, ...],
) -> HeaderSpec:
    """What the header says of the model."""
    main = source.model.main
    return HeaderSpec(
        name=name,
        tool_version=__version__,
        model_sha256=source.sha256,
        model_bytes=len(source.blob),
        target=_target_spec(target),
        arena_bytes=None,
        arena_is_lower_bound=True,
        layout_bytes=plan.layout.height,
        lower_bound_bytes=plan.layout.lower_bound,
        tensors=tuple(
            TensorSpec(
                index=buffer.tensor,
                subgraph=buffer.subgraph,
                name=buffer.name,
                offset=offsets.get((buffer.subgraph, buffer.tensor)),
                size_bytes=buffer.size_bytes,
                first_op=buffer.lifetime.first,
                last_op=buffer.lifetime.last,
            )
            for buffer in plan.problem.buffers
        ),
        inputs=_io(main, main.inputs, offsets),
        outputs=_io(main, main.outputs, offsets),
        uncalibrated=uncalibrated,
        notes=notes,
    )


def plan_in_file(model: Model, plan: MemoryPlan) -> tuple[dict[tuple[int, int], int], tuple[Finding, ...]]:
    """The offsets that the file's own plan fixes, judged; empty with a note when it has none.

    Raises InvalidModelError when two live tensors overlap in it, or an offset is negative or unaligned.
    """
    offsets = decode_plan(model)
    where = f"metadata {METADATA_NAME}"
    if offsets is None:
        note = "the file has no memory plan: TFLM places the tensors by itself, and the header has no offsets"
        return {}, (Finding("no-plan", "note", note),)
    fixed = [b for b in plan.problem.buffers if offsets[b.subgraph, b.tensor] != PLANNED_AT_RUN_TIME]
    problem = LayoutProblem(tuple(fixed))
    placed = tuple(offsets[b.subgraph, b.tensor] for b in fixed)
    height = max((offset + b.aligned_bytes for offset, b in zip(placed, fixed, strict=True)), default=0)
    violations = check_layout(problem, Layout(placed, height, 0, "none"))
    if violations:
        raise InvalidModelError(
            f"the plan is unsafe: {violations[0].message}",
            where=where,
            fix="write the plan anew with 'edgetool plan -o'",
            details=tuple(violation.message for violation in violations[1:6]),
        )
    return {(b.subgraph, b.tensor): offset for b, offset in zip(fixed, placed, strict=True)}, ()


def _target_spec(target: Target | None) -> TargetSpec:
    if target is None:
        return ANY_TARGET
    region = target.arena_region
    return TargetSpec(
        name=target.name,
        core=target.core.name,
        kernels=target.kernels,
        board=target.board,
        runtime=target.runtime.name,
        region=region.name if region is not None else None,
        sram_bytes=region.size_bytes if region is not None else None,
        flash_bytes=target.flash_bytes,
    )


def _io(graph: Graph, indices: tuple[int, ...], offsets: dict[tuple[int, int], int]) -> tuple[IoSpec, ...]:
    specs = []
    for index in indices:
        tensor = graph.tensors[index]
        quantization = tensor.quantization
        scaled = quantization is not None and len(quantization.scales) == 1
        zero_points = quantization.zero_points if quantization is not None else ()
        specs.append(
            IoSpec(
                index=index,
                name=tensor.name,
                shape=tensor.shape,
                dtype=tensor.dtype,
                scale=quantization.scales[0] if quantization is not None and scaled else None,
                zero_point=(zero_points[0] if zero_points else 0) if scaled else None,
                offset=offsets.get((graph.index, index)),
            )
        )
    return tuple(specs)
