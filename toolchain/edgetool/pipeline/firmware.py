"""From an analysed model to its C files in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from edgetool import __version__
from edgetool.errors import UsageError
from edgetool.firmware.c_names import is_portable, model_identifier
from edgetool.firmware.header import header
from edgetool.firmware.model_data import model_data
from edgetool.firmware.spec import HeaderSpec, IoSpec, TargetSpec, TensorSpec
from edgetool.memory.planner import MemoryPlan
from edgetool.model.types import Model
from edgetool.pipeline.source import Source, own_path
from edgetool.target.types import Target

ANY_TARGET = TargetSpec(name="unspecified", core="unspecified", kernels="unspecified")


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
    stem = own_path(path).stem
    plain = re.sub(r"[ ._-]+", "_", stem).strip("_")
    return model_identifier(plain if re.fullmatch(r"[A-Za-z0-9_]+", plain) else stem)


def firmware_names(name: str) -> tuple[str, ...]:
    """The names of the C files of a model."""
    return (f"{name}.h", f"{name}_model.c", f"{name}_model.h")


def firmware_files(
    name: str,
    source: Source,
    plan: MemoryPlan,
    target: Target | None,
    *,
    uncalibrated: bool = False,
) -> dict[str, bytes]:
    """The C files by name. The source's .tflite has the plan in it, when the plan has offsets."""
    spec = header_spec(name, source, plan, target, uncalibrated=uncalibrated)
    data_c, data_h = model_data(name, source.blob)
    texts = dict(zip(firmware_names(name), (header(spec), data_c, data_h), strict=True))
    return {file: text.encode("ascii") for file, text in texts.items()}


def header_spec(
    name: str,
    source: Source,
    plan: MemoryPlan,
    target: Target | None,
    *,
    uncalibrated: bool,
) -> HeaderSpec:
    """What the header says of the model."""
    main = source.model.main
    offsets = plan.offsets or {}
    account = plan.account
    return HeaderSpec(
        name=name,
        tool_version=__version__,
        model_sha256=source.sha256,
        model_bytes=len(source.blob),
        target=_target_spec(target),
        arena_bytes=account.bytes if account is not None else None,
        arena_is_lower_bound=account is None or account.is_lower_bound,
        layout_bytes=plan.layout.height,
        lower_bound_bytes=plan.layout.lower_bound,
        tensors=tuple(
            TensorSpec(
                index=buffer.tensor,
                subgraph=buffer.subgraph,
                name=buffer.name,
                offset=offsets.get((buffer.subgraph, buffer.tensor)),
                size_bytes=buffer.size_bytes,
                first_op=buffer.lifetime.operators[0],
                last_op=buffer.lifetime.operators[1],
            )
            for buffer in plan.problem.buffers
            if not buffer.is_scratch
        ),
        inputs=_io(source.model, main.inputs, offsets),
        outputs=_io(source.model, main.outputs, offsets),
        uncalibrated=uncalibrated,
    )


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


def _io(model: Model, indices: tuple[int, ...], offsets: Mapping[tuple[int, int], int]) -> tuple[IoSpec, ...]:
    graph, specs = model.main, []
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
                argument=model.argument_name(graph.index, index),
            )
        )
    return tuple(specs)
