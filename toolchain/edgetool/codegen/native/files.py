"""The files of a native program: NAME.h, NAME.c, its weights, the kernels, and on request programs and a project."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.codegen import c_names, header, quantizers
from edgetool.codegen.c_names import comment, comment_text, defines
from edgetool.codegen.memories import PlacedMemory, linker_script, memories_of, model_section
from edgetool.codegen.native.code_size import NativeCode, rows_code, tensors_code
from edgetool.codegen.native.emit import (
    ARENA_SHIFT,
    arrays_of,
    cache_line_bytes,
    io_type,
    kernel_files,
    model_source,
    source_values,
    state_tensors,
    weights_header,
    weights_source,
)
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import ALIGNMENT, NativeMemory
from edgetool.codegen.native.profile import profile_source
from edgetool.codegen.native.row_tables import Handed, RowTables, null_text, row_tables, row_values
from edgetool.codegen.native.stack import stack_bounds
from edgetool.codegen.spec import HeaderSpec, IoSpec
from edgetool.codegen.templates import TemplateValue, fill
from edgetool.errors import UnsupportedModelError
from edgetool.memory.problem import ArenaPart
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.model.types import Tensor

# Sizes and offsets are unsigned integers of 32 bits in the tables.
MAX_ARENA_BYTES = 2**31 - 1
MAX_PARTS = 2 ** (32 - ARENA_SHIFT)
MAX_UNIT_BYTES = 8  # of C's integers
# The part in PlacedSpec; there is one for each memory of the arena.
ARENA = "arena"


def native_files(
    spec: HeaderSpec,
    program: NativeProgram,
    memory: NativeMemory,
    *,
    main: bool = False,
    cmake: bool = False,
    kernels: bool = True,
    profile: bool = False,
    clock_hz: int | None = None,
) -> dict[str, bytes]:
    """Return the C files by name.

    Args:
        spec: The contents of NAME.h.
        program: The steps of the model.
        memory: The offsets of its buffers.
        main: Whether to add main.c, which runs the model once.
        cmake: Whether to add CMakeLists.txt.
        kernels: Whether to add the kernels and what they include.
        profile: Whether to add NAME_profile.c, which times each operator.
        clock_hz: The clock of the core for the profile; None if unknown.

    Raises:
        UnsupportedModelError: The arena is larger than a 32-bit device can address, or there is nothing to time.
    """
    _check_arena(memory.arena_bytes)
    _check_parts(memory.parts)
    name = c_names.model_identifier(spec.name)
    arrays = arrays_of(name, program)
    parts = arena_memories(spec)
    texts = {
        f"{name}.h": _header(
            spec,
            program,
            _Arena.of_tensors(memory),
            arrays.total_bytes,
            () if parts else tensors_code(program, memory, spec.target.core),
        ),
        f"{name}.c": model_source(name, program, memory, arrays, shared=profile, parts=parts),
        f"{name}_weights.h": weights_header(
            name, arrays, shared=[f"edgetool_program {name}_tables"] if profile else ()
        ),
        f"{name}_weights.c": weights_source(name, arrays, model_section(spec.places)),
    }
    if spec.places:
        texts[f"{name}_memories.ld"] = linker_script(spec.name, spec.tool_version, spec.places, spec.placed_code)
    if profile:
        texts[f"{name}_profile.c"] = profile_source(spec, program, clock_hz)
    main_text = _main(spec, program) if main else ""
    copied = kernel_files(program, "edgetool_run_several" if parts else "edgetool_run")
    return _all_files(spec, texts, copied, main_text, cmake=cmake, kernels=kernels, profile=profile)


def row_files(
    spec: HeaderSpec,
    program: NativeProgram,
    problem: RowProblem,
    plan: RowPlan,
    *,
    main: bool = False,
    cmake: bool = False,
    kernels: bool = True,
    profile: bool = False,
    clock_hz: int | None = None,
) -> dict[str, bytes]:
    """Return the C files of a program whose rows are planned, by name.

    Args:
        spec: The contents of NAME.h.
        program: The steps of the model.
        problem: Its rows, with an operator for each input that is fed and each output that is taken; see row_problem.
        plan: The schedule and the offsets of the rows: multiples of place_unit.
        main: As for native_files.
        cmake: As for native_files.
        kernels: As for native_files.
        profile: As for native_files.
        clock_hz: As for native_files.

    Raises:
        UnsupportedModelError: The arena is larger than a 32-bit device can address, a number than its table's type, or
            there is nothing to time.
    """
    _check_arena(plan.memory_bytes)
    _check_parts(plan.parts)
    name = c_names.model_identifier(spec.name)
    arrays = arrays_of(name, program)
    tables = row_tables(name, program, problem, plan, arrays, shared=profile)
    memories = arena_memories(spec)
    fed, taken = ([item.position for item in handed] for handed in (tables.feeds, tables.takes))
    texts = {
        f"{name}.h": _header(
            spec,
            program,
            _Arena.of_rows(problem, plan, tables),
            arrays.total_bytes,
            () if memories else rows_code(program, tables, spec.target.core),
            tables,
        ),
        f"{name}.c": fill(
            "native/model/model.c",
            **source_values(
                name,
                program,
                tables.offsets,
                plan.memory_bytes,
                arrays,
                fed,
                taken,
                parts=plan.parts,
                memories=memories,
            ),
            **row_values(program, plan, tables),
        ),
        f"{name}_weights.h": weights_header(name, arrays, shared=tables.declarations if profile else ()),
        f"{name}_weights.c": weights_source(name, arrays, model_section(spec.places)),
    }
    if spec.places:
        texts[f"{name}_memories.ld"] = linker_script(spec.name, spec.tool_version, spec.places, spec.placed_code)
    if profile:
        texts[f"{name}_profile.c"] = profile_source(spec, program, clock_hz, tables)
    copied = kernel_files(program, "edgetool_rows_several" if memories else "edgetool_rows")
    main_text = _main(spec, program, tables) if main else ""
    return _all_files(spec, texts, copied, main_text, cmake=cmake, kernels=kernels, profile=profile)


def arena_memories(spec: HeaderSpec) -> tuple[PlacedMemory, ...]:
    """Return the memories in which the arena has a part, in the order of the parts; none if it is one array."""
    return tuple(item for item in memories_of(spec.places) if any(part.part == ARENA for part in item.parts))


def run_macros(spec: HeaderSpec, program: NativeProgram) -> bytes:
    """Return macros in front of NAME.c for run.c.

    The arena's parts are in the compiler's own section, where sanitizers report accesses behind their ends, and run.c
    simulates the data cache.
    """
    macro = c_names.model_macro(spec.name)
    text = "".join(f"#define {macro}_IN_{item.word}_SECTION\n" for item in arena_memories(spec))
    if cache_line_bytes(program):
        function = f"{c_names.model_identifier(spec.name)}_run_invalidate"
        text += f"#include <stddef.h>\nvoid {function}(void *address, size_t bytes);\n"
        text += f"#define {macro}_INVALIDATE(address, bytes) {function}(address, bytes)\n"
    return text.encode("ascii")


def _check_arena(arena_bytes: int) -> None:
    """Raise UnsupportedModelError if an arena is too large."""
    if arena_bytes > MAX_ARENA_BYTES:
        raise UnsupportedModelError(
            f"its arena of {arena_bytes:,} bytes is more than a microcontroller can address",
            fix="check the shapes of the model",
        )


def _check_parts(parts: Sequence[ArenaPart]) -> None:
    """Raise UnsupportedModelError if the tables cannot state the parts of an arena."""
    if len(parts) > MAX_PARTS:
        raise UnsupportedModelError(
            f"its arena is in {len(parts)} memories, and the tables have room for {MAX_PARTS}",
            fix="allow fewer memories for the arena",
        )
    for part in parts:
        if part.size_bytes > 2**ARENA_SHIFT:
            raise UnsupportedModelError(
                f"its arena takes {part.size_bytes:,} bytes of {part.memory}, and the tables have room for "
                f"{2**ARENA_SHIFT:,}",
                fix="check the shapes of the model",
            )


def _all_files(
    spec: HeaderSpec,
    texts: dict[str, str],
    copied: dict[str, bytes],
    main: str,
    *,
    cmake: bool,
    kernels: bool,
    profile: bool = False,
) -> dict[str, bytes]:
    """Return the files of a model with its kernels, main.c and CMakeLists.txt."""
    if main:
        texts["main.c"] = main
    if cmake:
        sources = [{"my_file": file} for file in copied if file.endswith(".c")]
        texts["CMakeLists.txt"] = fill(
            "native/model/CMakeLists.cmake",
            my_model=c_names.model_identifier(spec.name),
            my_label=comment_text(spec.name),
            my_version=comment_text(spec.tool_version),
            MY_KERNELS=sources,
            MY_PROFILE=profile,
        )
    return {file: text.encode("ascii") for file, text in texts.items()} | (copied if kernels else {})


def constant_bytes(program: NativeProgram) -> int:
    """Return the size of all constant arrays of a program: weights, biases, scales and tables."""
    return arrays_of("model", program).total_bytes


def run_source(
    spec: HeaderSpec, program: NativeProgram, fed: Collection[int] = (), taken: Collection[int] = ()
) -> bytes:
    """Return the text of run.c, a program that runs the model on samples from a file, for tests.

    fed, taken: the positions of inputs that are fed by rows, and of outputs that are taken by rows.
    """
    graph = program.graph
    inputs = [
        {"my_position": i, "MY_BYTES": _sample_bytes(program, index), "MY_FED": i in fed}
        for i, index in enumerate(graph.inputs)
    ]
    outputs = [{**_bytes(i, graph.tensors[index]), "MY_TAKEN": i in taken} for i, index in enumerate(graph.outputs)]
    return fill(
        "native/model/run.c",
        **c_names.model_names(spec.name),
        MY_PLACED=bool(arena_memories(spec)),
        MY_MEMORIES=[{"my_word": item.word.lower()} for item in arena_memories(spec)],
        MY_TRANSFERS=program.has_transfers,
        MY_CACHED=bool(cache_line_bytes(program)),
        MY_MOSTBYTES=max((step.output_bytes for step in program.steps if step.begins is not None), default=0),
        MY_INPUTS=inputs,
        MY_OUTPUTS=outputs,
        MY_HANDED=bool(fed or taken),
        MY_ROWINPUT=bool(fed),
        MY_ROWOUTPUT=bool(taken),
        MY_FEDS=[item for item in inputs if item["MY_FED"]],
        MY_TAKES=[item for item in outputs if item["MY_TAKEN"]],
    ).encode("ascii")


def _sample_bytes(program: NativeProgram, index: int) -> int:
    """Return the size of an input in a sample: of all of it, or of the rows of a hop."""
    size, stream = program.graph.tensors[index].size_bytes, program.stream
    return size if stream is None else stream.hop_rows * stream.row_bytes


def _bytes(position: int, tensor: Tensor) -> Mapping[str, TemplateValue]:
    return {"my_position": position, "MY_BYTES": tensor.size_bytes}


@dataclass(frozen=True, slots=True)
class _Arena:
    """What NAME.h states of the arena: its size and alignment, and what the size is worth."""

    size_bytes: int
    alignment: int
    worth: str

    @classmethod
    def of_tensors(cls, memory: NativeMemory) -> _Arena:
        """Return the arena of a layout of tensors."""
        bound = memory.layout.lower_bound
        worth = f"In this operator order, no layout that these kernels allow takes less than {bound} bytes."
        return cls(memory.arena_bytes, memory.alignment, worth)

    @classmethod
    def of_rows(cls, problem: RowProblem, plan: RowPlan, tables: RowTables) -> _Arena:
        """Return the arena of a plan of rows."""
        alignment = max((tensor.alignment for tensor in problem.tensors), default=ALIGNMENT)
        worth = (
            f"Rows are computed when they are needed, each of them once; the tables take {tables.bytes} bytes of flash."
        )
        if plan.lower_bound:
            worth += f" No schedule of these rows takes less than {plan.lower_bound} bytes."
        return cls(plan.memory_bytes, max(ALIGNMENT, alignment), worth)


def _header(
    spec: HeaderSpec,
    program: NativeProgram,
    arena: _Arena,
    constants: int,
    codes: Sequence[NativeCode],
    tables: RowTables | None = None,
) -> str:
    """Return the text of NAME.h. codes: the size of the code at each level; tables: those of a plan of rows."""
    name, macro = c_names.model_identifier(spec.name), c_names.model_macro(spec.name)
    graph, stream = program.graph, program.stream
    inputs, outputs = (
        _accessors(specs, program, indices)
        for specs, indices in ((spec.inputs, graph.inputs), (spec.outputs, graph.outputs))
    )
    feeds, takes = ((), ()) if tables is None else (tables.feeds, tables.takes)
    fed, taken = ({item.position for item in handed} for handed in (feeds, takes))

    def element_bytes(index: int) -> int:
        dtype = graph.tensors[index].dtype
        return dtype.bits // 8 if dtype in quantizers.C_TYPES else 1

    def items(
        handed: Sequence[Handed], accessors: Sequence[dict[str, TemplateValue]], indices: Sequence[int]
    ) -> list[dict[str, TemplateValue]]:
        return [
            {
                **accessors[item.position],
                "MY_COUNT": item.rows,
                "MY_ELEMENTS": item.row_bytes // element_bytes(indices[item.position]),
            }
            for item in handed
        ]

    memories: Sequence[header.Limited]
    memories = header.limited(spec.target, ("arena", "ARENA_BYTES"), ("constants", "CONSTANTS_BYTES"))
    if spec.places:
        memories = header.limited_places(spec.places)
        # An offset would be that in all memories, one after the other, which are no array.
        inside = [tuple(replace(item, offset=None) for item in specs) for specs in (spec.inputs, spec.outputs)]
        spec = replace(spec, inputs=inside[0], outputs=inside[1])
    return fill(
        "native/model/model.h",
        **c_names.model_names(spec.name),
        MY_BANNER=_banner(spec),
        my_version=comment_text(spec.tool_version),
        my_sha256=spec.model_sha256,
        MY_UNCALIBRATED=int(spec.uncalibrated),
        MY_LIMITMACROS=header.limit_macros(macro),
        MY_MEMORY=header.target_memory(macro, memories),
        MY_ARENA="\n".join(
            [
                _arena(macro, arena, constants) + _parts(spec, macro),
                _code(codes, spec.target.core),
                _stack(program, spec.target.core, row_wise=tables is not None, placed=bool(arena_memories(spec))),
            ]
        ),
        MY_LIMITS=header.limits(name, macro, memories),
        MY_INPUTCOUNT=len(spec.inputs),
        MY_OUTPUTCOUNT=len(spec.outputs),
        MY_SECTIONS=[{"MY_SECTION": section} for section in header.io_sections(spec, name, macro)],
        MY_STATE=bool(state_tensors(program)),
        MY_CLEARS=bool(state_tensors(program)) or stream is not None,
        MY_HISTORY="the state" if stream is None else "the rings",
        MY_INCREMENTAL=stream is not None,
        MY_WINDOWROWS=0 if stream is None else stream.window_rows,
        MY_HOPROWS=0 if stream is None else stream.hop_rows,
        MY_WINDOWHOPS=0 if stream is None else stream.window_hops,
        MY_UNIT=f"uint{8 * min(arena.alignment, MAX_UNIT_BYTES)}_t",
        MY_PLACED=bool(arena_memories(spec)),
        MY_TRANSFERS=program.has_transfers,
        MY_CACHED=bool(cache_line_bytes(program)),
        MY_LINEBYTES=cache_line_bytes(program),
        MY_MEMORIES=[
            {
                "MY_WORD": item.word,
                "my_word": item.word.lower(),
                "my_region": comment_text(item.name),
                "my_section": item.section,
            }
            for item in arena_memories(spec)
        ],
        MY_INPUTS=[item for item in inputs if item["my_position"] not in fed],
        MY_OUTPUTS=[item for item in outputs if item["my_position"] not in taken],
        MY_ROWWISE=tables is not None,
        MY_OPERATORCOUNT=0 if tables is None else max(1, tables.operators),
        MY_HANDED=bool(feeds or takes),
        MY_ROWINPUT=bool(feeds),
        MY_ROWOUTPUT=bool(takes),
        MY_FEDS=items(feeds, inputs, graph.inputs),
        MY_TAKES=items(takes, outputs, graph.outputs),
        MY_START="begin" if feeds or takes else "invoke",
        MY_END="the end of an inference" if feeds or takes else "an invoke",
        MY_NULLTEXT=null_text(is_handed=bool(feeds or takes), is_placed=bool(arena_memories(spec))),
        MY_ORDERCOMMENT=_order_comment(program, is_handed=bool(feeds or takes), is_taken=bool(takes)),
    )


def _order_comment(program: NativeProgram, *, is_handed: bool, is_taken: bool) -> str:
    """Return when a call is out of order."""
    if program.stream is not None:
        return "init or begin must be called first, a hop needs no more rows, or begin comes before its last row"
    if is_handed:
        return "init or begin must be called first, or it is not the turn of the input" + " or output" * is_taken
    return "init must be called first, and must have succeeded"


def _banner(spec: HeaderSpec) -> str:
    target = spec.target
    lines = [
        f"{comment_text(spec.name)}: the model in plain C, without a runtime.",
        f"Generated by edgetool {comment_text(spec.tool_version)}; do not edit. The code is yours.",
        "",
        f"model   SHA-256 {spec.model_sha256}, {spec.model_bytes} bytes",
        f"target  {comment_text(target.name)} ({comment_text(target.core)})",
    ]
    if target.board is not None:
        lines.append(f"board   {comment_text(target.board)}")
    if spec.uncalibrated:
        lines += [
            "",
            "!!! UNCALIBRATED: quantized with synthetic data, not with your samples.",
            "!!! Do not trust the outputs. Convert again with --calibration.",
        ]
    for note in spec.notes:
        lines += ["", *textwrap.wrap(comment_text(note, limit=header.NOTE_LENGTH), width=100)]
    return comment(lines)


def _arena(macro: str, arena: _Arena, constants: int) -> str:
    text = (
        "The arena contains the inputs, outputs, activations, scratch and state of one context, and nothing else. "
        f"{arena.worth} The "
        "constants are the arrays in flash: weights, biases, scales and tables."
    )
    return comment(textwrap.wrap(text, width=100)) + defines(
        (f"{macro}_ARENA_BYTES", arena.size_bytes),
        (f"{macro}_ARENA_ALIGNMENT", arena.alignment),
        (f"{macro}_CONSTANTS_BYTES", constants),
    )


def _parts(spec: HeaderSpec, macro: str) -> str:
    """Return a macro for what each memory holds, if the arena has parts in several."""
    if not spec.places:
        return ""
    sizes = [
        (f"{macro}_{item.macro}", sum(part.size_bytes for part in item.parts)) for item in memories_of(spec.places)
    ]
    return comment(["What each memory holds, in bytes."]) + defines(*sizes)


def _code(codes: Sequence[NativeCode], core: str) -> str:
    """Return a comment on the flash that the code takes, for the compilers that were measured for the core."""
    if not codes:
        return comment([f"Flash of the code: not measured for {comment_text(core)}."])
    lines = ["Flash of the code besides the constants, and of what it needs of the compiler's libraries:"]
    for item in codes:
        library = f" and {item.library_bytes} of libraries" if item.library_bytes else ""
        lines.append(f"  {item.code_bytes} bytes{library}   {item.compiler} {item.level}, {item.core}")
    return comment(lines)


def _stack(program: NativeProgram, core: str, *, row_wise: bool, placed: bool) -> str:
    """Return a comment on the stack that invoke needs, for the compilers that were measured for the core."""
    bounds = stack_bounds(program, core, row_wise=row_wise, placed=placed)
    if not bounds:
        return comment([f"Stack: not measured for {comment_text(core)}."])
    besides = " besides that of copy_begin and copy_wait" if program.has_transfers else ""
    lines = [f"Stack that invoke needs below its caller, at most{besides}:"]
    lines += [f"  {item.stack_bytes} bytes   {item.compiler} {item.level}, {item.core}" for item in bounds]
    return comment(lines)


def _accessors(
    tensors: Sequence[IoSpec], program: NativeProgram, indices: Sequence[int]
) -> list[dict[str, TemplateValue]]:
    return [
        {
            "my_position": position,
            "my_name": comment_text(tensor.name if tensor.argument is None else tensor.argument),
            "my_kind": f"{tensor.dtype.name} {' x '.join(map(str, tensor.shape)) or 'scalar'}",
            "my_type": io_type(program.graph.tensors[index]),
            "MY_REAL": quantizers.has_real_values(tensor),
        }
        for position, (tensor, index) in enumerate(zip(tensors, indices, strict=True))
    ]


def _main(spec: HeaderSpec, program: NativeProgram, tables: RowTables | None = None) -> str:
    feeds, takes = ((), ()) if tables is None else (tables.feeds, tables.takes)
    fed, taken = ({item.position for item in handed} for handed in (feeds, takes))
    return fill(
        "native/model/main.c",
        **c_names.model_names(spec.name),
        my_label=comment_text(spec.name),
        my_version=comment_text(spec.tool_version),
        MY_PLACED=bool(arena_memories(spec)),
        MY_TRANSFERS=program.has_transfers,
        MY_HANDED=bool(feeds or takes),
        MY_ROWINPUT=bool(feeds),
        MY_ROWOUTPUT=bool(takes),
        MY_INCREMENTAL=program.stream is not None,
        MY_WORDS=max((-(-feed.row_bytes // 4) for feed in feeds), default=1),
        MY_INPUTS=[item for item in _loops(spec.inputs) if item["my_position"] not in fed],
        MY_OUTPUTS=[item for item in _loops(spec.outputs) if item["my_position"] not in taken],
    )


def _loops(tensors: Sequence[IoSpec]) -> list[dict[str, TemplateValue]]:
    return [
        {
            "my_position": position,
            "MY_UNITS": "ELEMENTS" if tensor.dtype in quantizers.C_TYPES else "BYTES",
            "MY_REAL": quantizers.has_real_values(tensor),
        }
        for position, tensor in enumerate(tensors)
        if tensor.size_bytes
    ]
