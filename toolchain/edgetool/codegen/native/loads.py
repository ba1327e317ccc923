"""Constants that are copied into the arena before a step reads them, because it reads them several times.

All constants of a step are one block in flash, which another step copies to a buffer of the arena. The fields of the
step's descriptor then point to parts of that buffer, so that it must have a fixed address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from edgetool.codegen.native.lower import NativeProgram, Place
from edgetool.codegen.native.plan import NativeMemory
from edgetool.codegen.native.program import Block, Constant, RowInput, Step, describe
from edgetool.memory.checker import Contents, check_contents
from edgetool.memory.problem import aligned
from edgetool.model.types import DType, Tensor

ALIGNMENT = 4
# Constants of larger elements would need a larger alignment.
WIDE = frozenset({"int64_t", "uint64_t"})
WORD = "uint32_t"


def block_bytes(step: Step) -> int | None:
    """Return the size of the block of a step's constants; None if it has none, or some that cannot be in one."""
    constants = _constants(step)
    if not constants or any(constant.c_type in WIDE for _, constant in constants):
        return None
    return sum(aligned(len(constant.data), ALIGNMENT) for _, constant in constants)


def with_loads(program: NativeProgram, positions: Collection[int]) -> NativeProgram:
    """Return the program with a copy of the constants of these steps before each of them."""
    tensors, places, steps = list(program.graph.tensors), dict(program.places), []
    for position, step in enumerate(program.steps):
        if position not in positions:
            steps.append(step)
            continue
        data, offsets = b"", []
        for name, constant in _constants(step):
            offsets.append((name, len(data)))
            data += constant.data.ljust(aligned(len(constant.data), ALIGNMENT), b"\0")
        index = len(tensors)
        label = f"constants of operator {step.operator}"
        tensors.append(Tensor(index, label, (len(data),), DType.INT8, None, None, is_variable=False))
        places[index] = Place(index)
        block = Constant(WORD, data, f"{label}, {step.kernel}, which are copied to the arena")
        copy = describe("edgetool_copy", count=(1,) * 5, run=len(data), phases=1, step=(0,) * 5)
        steps.append(
            Step(step.operator, "edgetool_copy", copy, (RowInput(block, len(data)),), output=index, row_bytes=len(data))
        )
        steps.append(replace(step, block=Block(index, tuple(offsets))))
    main = replace(program.graph, tensors=tuple(tensors))
    model = replace(program.model, subgraphs=(main, *program.model.subgraphs[1:]))
    return replace(program, model=model, steps=tuple(steps), places=places)


def _constants(step: Step) -> list[tuple[str, Constant]]:
    return [(name, value) for name, value in step.op.values if isinstance(value, Constant)]


def require_loaded(program: NativeProgram, memory: NativeMemory) -> None:
    """Raise InternalError unless each step finds its block in the arena when it reads it.

    The steps are executed symbolically, without regard to the lifetimes for which the arena was planned.
    """
    check_contents(list(_contents(program, memory)))


def _contents(program: NativeProgram, memory: NativeMemory) -> Iterator[Contents]:
    def extent(tensor: int) -> tuple[int, int]:
        place = program.places[tensor]
        start = memory.tensors[place.root] + place.offset
        return start, start + program.graph.tensors[tensor].size_bytes

    for position, step in enumerate(program.steps):
        blocks = [item.source for item in step.inputs if isinstance(item.source, Constant)]
        is_load = step.kernel == "edgetool_copy" and len(blocks) == 1 and blocks[0].c_type == WORD
        written: list[tuple[int, int, bytes | None]] = [(*extent(tensor), None) for tensor in step.states]
        start, _ = extent(step.output)
        start += step.output_offset
        written.append((start, start + step.output_bytes, blocks[0].data if is_load else None))
        if step.scratch_bytes:
            scratch = memory.scratch[position]
            written.append((scratch, scratch + step.scratch_bytes, None))
        read = []
        if step.block is not None:
            start, end = extent(step.block.tensor)
            read.append((start, end, _expected(step, end - start)))
        yield Contents(f"step {position}, operator {step.operator}", tuple(written), tuple(read))


def _expected(step: Step, size: int) -> bytes:
    """Return what a step must find in its block: each of its constants where its descriptor points to."""
    assert step.block is not None
    content, constants = bytearray(size), dict(_constants(step))
    for name, offset in step.block.offsets:
        data = constants.pop(name).data
        content[offset : offset + len(data)] = data
    assert not constants
    return bytes(content)
