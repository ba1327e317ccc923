"""Generate the firmware files of a planned model in memory: header, data, C++ program and CMakeLists.txt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgetool import __version__
from edgetool.codegen.c_names import MAX_LENGTH, is_portable, is_system_name, model_identifier, model_macro
from edgetool.codegen.cmake.project import cmake_lists
from edgetool.codegen.header import buffers_source, header, incbin_source, model_data
from edgetool.codegen.memories import LIBRARY_FILES, MODELS, linker_script, model_section
from edgetool.codegen.spec import (
    BuffersSpec,
    Data,
    HeaderSpec,
    HeaderTarget,
    IoSpec,
    PlacedSpec,
    ProgramSpec,
    TensorSpec,
)
from edgetool.codegen.tflm.profile import profile_source
from edgetool.codegen.tflm.runner import main_source, ops_header, runner_header, runner_source
from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.lifetimes import recurrent_state
from edgetool.memory.planner import Plan
from edgetool.memory.problem import LayoutProblem
from edgetool.memory.sharing.assign import SharedLayout
from edgetool.model.loops import subgraph_runs
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.types import Model, Operator
from edgetool.operators.control import resource_variables
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import format_counts
from edgetool.pipeline.code import code_of
from edgetool.pipeline.placed_code import placed_code
from edgetool.pipeline.places import Placed
from edgetool.pipeline.registrations import registrations_of
from edgetool.pipeline.source import Source, absolute_path
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.types import Runtime, Target

HEADER_ONLY_FIX = "or write only the header and the data with --project header"


def program_spec(
    source: Source,
    header_spec: HeaderSpec,
    target: Target | None,
    custom: Mapping[str, OperatorEntry] | None,
    shared_arena: str | None = None,
) -> ProgramSpec:
    """Return the contents of a model's C++ files for the target's version of TFLM, or the default version.

    Args:
        source: The model.
        header_spec: The contents of its header.
        target: The target, if any.
        custom: Operators that the user describes, by custom code.
        shared_arena: The C name of the arena that the model shares with others, if it does.

    Raises:
        UnsupportedModelError: An operator has a kernel neither in TFLM nor among those that the user describes.
    """
    runtime = load_runtime(DEFAULT_RUNTIME) if target is None else target.runtime
    _refuse_without_kernel(source, runtime, custom or {})
    kernels = None if target is None else target.kernels
    return ProgramSpec(
        header=header_spec,
        registrations=registrations_of(source.model, runtime, kernels, custom or {}),
        runtime=runtime.name,
        commit=runtime.tflm_commit,
        resource_variables=len(resource_variables(source.model)),
        events=_events(source.model),
        clock_hz=None if target is None else target.clock_hz,
        shared_arena=shared_arena,
    )


def with_same_kernels(programs: Sequence[ProgramSpec]) -> tuple[ProgramSpec, ...]:
    """Return the programs of one firmware, with the default kernel of an operator if any of them registers that one.

    The firmware would otherwise contain a kernel for all types and another one for some of them.
    """
    general = {item.operator for program in programs for item in program.registrations if item.function is None}
    return tuple(
        replace(
            program,
            registrations=tuple(
                replace(item, function=None, header="") if item.operator in general else item
                for item in program.registrations
            ),
        )
        for program in programs
    )


def _refuse_without_kernel(source: Source, runtime: Runtime, custom: Mapping[str, OperatorEntry]) -> None:
    without_kernel = [
        operator
        for operator in _operators(source.model)
        if runtime.resolver_method(operator.code, operator.custom_code) is None
        and (operator.code != "CUSTOM" or operator.custom_code not in custom)
    ]
    if not without_kernel:
        return
    all_custom = all(operator.code == "CUSTOM" for operator in without_kernel)
    fix = (
        "describe the operators with --custom-operators and provide their kernels"
        if all_custom
        else "convert a model without these operators"
    )
    raise UnsupportedModelError(
        f"{runtime.name} has no kernel for {format_counts(Counter(operator.label for operator in without_kernel))}",
        where=source.name,
        fix=f"{fix}, {HEADER_ONLY_FIX}",
    )


def _operators(model: Model) -> Iterator[Operator]:
    return (operator for graph in model.subgraphs for operator in graph.operators)


def _events(model: Model) -> int | None:
    """Return how many operators one inference runs; None if that depends on the data.

    Both branches of an IF are counted; the subgraphs that CALL_ONCE runs are not.
    """
    counts = [
        None if runs is None and graph.operators else (runs or 0) * len(graph.operators)
        for graph, runs in zip(model.subgraphs, subgraph_runs(model), strict=True)
    ]
    exact_counts = [count for count in counts if count is not None]
    return sum(exact_counts) if len(exact_counts) == len(counts) else None


ANY_TARGET = HeaderTarget(name="unspecified", core="unspecified", kernels="unspecified")
Project = Literal["header", "plain", "cmake"]


@dataclass(frozen=True, slots=True)
class FirmwareRequest:
    """The files to generate. Raises UsageError for a profile without a program.

    Attributes:
        project: "header" for only the header and the data in C; "plain" for these and the C++ program for TFLM (op
            resolver, runner and main.cc); "cmake" for these and a CMakeLists.txt.
        data: The model as a C "array", or included by the assembler ("incbin").
        profile: Whether to add a second program, which prints the ticks of each operator.
        kernels: Whether to add the kernels of native code.
    """

    project: Project = "plain"
    data: Data = "array"
    profile: bool = False
    kernels: bool = True

    def __post_init__(self) -> None:
        if self.profile and self.project == "header":
            raise UsageError("--profile needs a program, which --project header omits", fix="use --project plain")
        if not self.kernels and self.project == "cmake":
            raise UsageError("the project of --project cmake needs the kernels", fix="omit --no-kernels")

    @property
    def has_program(self) -> bool:
        """Return whether there are C++ files for TFLM."""
        return self.project != "header"

    def as_options(self) -> dict[str, object]:
        """Return the request as options of a report."""
        options: dict[str, object] = {"project": self.project, "data": self.data, "profile": self.profile}
        return options if self.kernels else {**options, "no_kernels": True}

    def require_tflm(self) -> None:
        """Raise UsageError if the request has an option of native code."""
        if not self.kernels:
            raise UsageError("--no-kernels needs --runtime native", fix="omit it, or add --runtime native")


OVERLAP_NOTE = (
    "In the memory plan, {count} memory with an input of their operator, as far as the kernels of the "
    "target permit: use the plan with no other kernels, and do not set preserve_all_tensors."
)
COMPILED_PLAN_NOTE = (
    "The memory plan comes from the compiled operators in the file, in which tensors overlap intentionally: "
    "the operators "
    "determine the contents at each offset while they run."
)
MAX_NAME_SHOWN = 60  # characters of a name in a message
HEADER_ONLY = FirmwareRequest("header")


@dataclass(frozen=True, slots=True)
class SharedBuffers:
    """All tensors that need RAM, and their layout in shared buffers."""

    problem: LayoutProblem
    layout: SharedLayout


def output_name(path: Path, name: str | None) -> str:
    """Return the name for files and in C: the given name, or one derived from the model's file name.

    Raises UsageError if the given name is not a portable C identifier, or if a system header has it.
    """
    if name is not None:
        if is_system_name(name):
            raise UsageError(
                f"{name}.h would shadow a header of that name, or is not a valid file name on Windows",
                where=f"--name {name!r}",
                fix="choose another name",
            )
        if not is_portable(name):
            raise UsageError(
                "is not a valid name: use 1 to 31 letters, digits and underscores; it must not start with a "
                "digit or be a C or C++ keyword",
                where=f"--name {name!r}",
                fix="choose another name",
            )
        return name
    return model_identifier(_plain_name(path))


def _plain_name(path: Path) -> str:
    """Return the file's stem with separators replaced by underscores, or unchanged if it has other characters."""
    stem = absolute_path(path).stem
    plain = re.sub(r"[ ._-]+", "_", stem).strip("_")
    return plain if re.fullmatch(r"[A-Za-z0-9_]+", plain) else stem


def name_findings(path: Path, name: str | None, *, fix: str = "choose one with --name") -> tuple[Finding, ...]:
    """Return a note if the name that `output_name` returns differs from the file's name.

    Args:
        path: The model's file.
        name: The name that the user specified, if any.
        fix: How to choose another name.
    """
    plain = _plain_name(path)
    if name is not None or (used := model_identifier(plain)) == plain:
        return ()
    shown = plain if len(plain) <= MAX_NAME_SHOWN else f"{plain[:MAX_NAME_SHOWN]}..."
    what = f"shortened to {used!r}" if len(plain) > MAX_LENGTH else f"not a valid C name and becomes {used!r}"
    return (Finding("name-changed", f"the name {shown!r} is {what} in files and in C; {fix}"),)


def firmware_names(
    name: str, request: FirmwareRequest, *, with_buffers: bool = False, with_places: bool = False
) -> tuple[str, ...]:
    """Return the names of a model's files, including those of shared buffers and of placed parts if requested."""
    names = [f"{name}.h", f"{name}_model.h"]
    names += [f"{name}_model.c"] if request.data == "array" else [f"{name}_model.S", f"{name}.tflite"]
    names += [f"{name}_buffers.c"] if with_buffers else []
    names += [f"{name}_memories.ld"] if with_places else []
    if request.has_program:
        names += [f"{name}_ops.h", f"{name}_runner.h", f"{name}_runner.cc", "main.cc"]
        names += [f"{name}_profile.cc"] if request.profile else []
    return (*names, "CMakeLists.txt") if request.project == "cmake" else tuple(names)


def firmware_files(
    name: str,
    source: Source,
    plan: Plan,
    target: Target | None,
    *,
    request: FirmwareRequest = HEADER_ONLY,
    uncalibrated: bool = False,
    notes: tuple[str, ...] = (),
    shared: SharedBuffers | None = None,
    placed: Placed | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> dict[str, bytes]:
    """Return the contents of the files by name.

    Args:
        name: The name for files and in C.
        source: The model; its file contains the plan if the plan has offsets.
        plan: The memory plan.
        target: The target, if any.
        request: Which files to generate.
        uncalibrated: Whether the quantization is uncalibrated, which the header then states.
        notes: Sentences for the comment at the top of the header.
        shared: The shared buffers that hold the tensors instead of an arena.
        placed: The memories of head, tail and model, instead of an arena.
        custom: Operators that the user describes, by custom code.

    Raises:
        UnsupportedModelError: A program is requested, but TFLM lacks an operator of the model.
    """
    spec = header_spec(name, source, plan, target, uncalibrated=uncalibrated, notes=notes)
    if shared is not None:
        spec = _with_buffers(spec, shared)
    if placed is not None:
        spec = replace(spec, places=placed_specs(placed), placed_code=placed_code(placed.code, LIBRARY_FILES))
    files = model_files(spec, source.blob, request, model_section(spec.places))
    if shared is not None:
        files[f"{name}_buffers.c"] = buffers_source(spec).encode("ascii")
    if placed is not None:
        files[f"{name}_memories.ld"] = linker_script(
            spec.name, spec.tool_version, spec.places, spec.placed_code
        ).encode("ascii")
    if not request.has_program:
        return files
    program = program_spec(source, spec, target, custom)
    files |= program_files(program, request)
    files["main.cc"] = main_source([program]).encode("ascii")
    if request.project == "cmake":
        text = cmake_lists(program, data=request.data, profile=request.profile)
        files["CMakeLists.txt"] = text.encode("ascii")
    return files


def unknown_arena_findings(name: str, plan: Plan) -> tuple[Finding, ...]:
    """Report that the user has to define the arena size, if no exact size is known."""
    if plan.account is not None and not plan.account.is_lower_bound:
        return ()
    text = f"compile {name}_runner.cc with -D{model_macro(name)}_ARENA_BYTES=...: its arena size is unknown"
    return (Finding("arena-to-define", text),)


def model_files(
    spec: HeaderSpec, blob: bytes, request: FirmwareRequest, section: str | None = None
) -> dict[str, bytes]:
    """Return the header and the data files of a model, by name; section: that of the data, None for the usual one."""
    name = spec.name
    array, declaration = model_data(name, blob, section)
    files = {f"{name}.h": header(spec).encode("ascii"), f"{name}_model.h": declaration.encode("ascii")}
    if request.data == "array":
        return files | {f"{name}_model.c": array.encode("ascii")}
    return files | {f"{name}_model.S": incbin_source(name, section).encode("ascii"), f"{name}.tflite": blob}


def program_files(program: ProgramSpec, request: FirmwareRequest) -> dict[str, bytes]:
    """Return the C++ files of one model without main.cc, by name."""
    name = program.header.name
    texts = {
        f"{name}_ops.h": ops_header(program),
        f"{name}_runner.h": runner_header(program),
        f"{name}_runner.cc": runner_source(program),
    }
    if request.profile:
        texts[f"{name}_profile.cc"] = profile_source(program)
    return {file: text.encode("ascii") for file, text in texts.items()}


def header_spec(
    name: str,
    source: Source,
    plan: Plan,
    target: Target | None,
    *,
    uncalibrated: bool,
    notes: tuple[str, ...] = (),
) -> HeaderSpec:
    """Return the contents of the model's header."""
    main = source.model.main
    offsets = plan.offsets or {}
    account = plan.account
    code = None if target is None else code_of(source.model, target)
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
        tensors=_tensors(plan.problem, offsets),
        inputs=_io(source.model, main.inputs, offsets),
        outputs=_io(source.model, main.outputs, offsets),
        uncalibrated=uncalibrated,
        notes=(*notes, *_notes(source.model, plan)),
        state=recurrent_state(source.model),
        code=None if code is None else code.figure,
    )


def _notes(model: Model, plan: Plan) -> tuple[str, ...]:
    if plan.offsets and keeps_own_plan(model):
        return (COMPILED_PLAN_NOTE,)
    overlapping = plan.overlapping if plan.offsets else ()
    if not overlapping:
        return ()
    text = OVERLAP_NOTE.format(
        count="1 output shares" if len(overlapping) == 1 else f"{len(overlapping)} outputs share"
    )
    overwritten = sorted({pair.input for pair in overlapping} & set(model.main.inputs))
    if overwritten:
        text += f" Invoke overwrites input tensor {' and '.join(map(str, overwritten))}."
    return (text,)


def _tensors(problem: LayoutProblem, offsets: Mapping[tuple[int, int], int]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            index=buffer.tensor,
            subgraph=buffer.subgraph,
            name=buffer.name,
            offset=offsets.get((buffer.subgraph, buffer.tensor)),
            size_bytes=buffer.size_bytes,
            first_op=buffer.lifetime.operators[0],
            last_op=buffer.lifetime.operators[1],
        )
        for buffer in problem.buffers
        if not buffer.is_scratch
    )


def _with_buffers(spec: HeaderSpec, buffers: SharedBuffers) -> HeaderSpec:
    """Return the header with each tensor in its shared buffer instead of at an offset."""
    problem, shared = buffers.problem, buffers.layout
    buffer_of = {
        (problem.buffers[index].subgraph, problem.buffers[index].tensor): number
        for number, group in enumerate(shared.groups)
        for index in group
    }

    def in_buffers(tensors: tuple[IoSpec, ...]) -> tuple[IoSpec, ...]:
        return tuple(replace(tensor, offset=None, buffer=buffer_of.get((0, tensor.index))) for tensor in tensors)

    return replace(
        spec,
        tensors=tuple(replace(t, buffer=buffer_of[t.subgraph, t.index]) for t in _tensors(problem, {})),
        inputs=in_buffers(spec.inputs),
        outputs=in_buffers(spec.outputs),
        buffers=BuffersSpec(shared.sizes, shared.baseline_bytes, shared.lower_bound),
    )


def placed_specs(placed: Placed) -> tuple[PlacedSpec, ...]:
    """Return the parts of the model for its firmware; code is where the user's build puts it."""
    regions = {region.name: region for region in placed.target.regions}
    code = placed.target.code_region
    return tuple(
        PlacedSpec(
            part=item.part,
            memory=item.memory,
            memory_bytes=item.memory_bytes,
            size_bytes=item.bytes,
            base_address=regions[item.memory].base_address,
            is_default=item.part in MODELS and code is not None and item.memory == code.name,
        )
        for item in placed.parts
        if item.part not in ("code", "code copy")
    )


def _target_spec(target: Target | None) -> HeaderTarget:
    if target is None:
        return ANY_TARGET
    region = target.arena_region
    return HeaderTarget(
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
        scale, zero_point = tensor.per_tensor or (None, None)
        specs.append(
            IoSpec(
                index=index,
                name=tensor.name,
                shape=tensor.shape,
                dtype=tensor.dtype,
                scale=scale,
                zero_point=zero_point,
                offset=offsets.get((graph.index, index)),
                argument=model.argument_name(graph.index, index),
            )
        )
    return tuple(specs)
