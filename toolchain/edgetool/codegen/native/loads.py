"""Constants that are copied into the arena before a step reads them, because it reads them several times.

All constants of a step are one block in flash, which another step copies to a buffer of the arena. The fields of the
step's descriptor then point to parts of that buffer, so that it must have a fixed address.

The core copies right before the constants are read. If the firmware copies with DMA, the copy begins earlier: as soon
as nothing else uses the buffer's bytes and the copy before has ended, because one runs at a time. The buffer then has
whole lines of the data cache for itself, which the core drops when the copy begins and when it has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from edgetool.codegen.native.lower import NativeProgram, Place
from edgetool.codegen.native.plan import NativeMemory
from edgetool.codegen.native.program import Block, Constant, RowInput, Step, describe
from edgetool.memory.checker import Contents, Transfer, check_contents
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
    return _with_tensors(replace(program, steps=tuple(steps), places=places), tensors)


def with_transfers(program: NativeProgram, line_bytes: int) -> NativeProgram:
    """Return a program with loads whose copies the firmware makes, each during the step before it if there is one.

    line_bytes: the size of a line of the data cache; 0 if there is none.
    """
    line, tensors, steps = max(line_bytes, ALIGNMENT), list(program.graph.tensors), list(program.steps)
    begin = 0
    for position, step in enumerate(program.steps):
        if step.block is None:
            continue
        index = step.block.tensor
        tensors[index] = replace(tensors[index], shape=(aligned(tensors[index].size_bytes, line),))
        steps[position] = replace(step, block=replace(step.block, alignment=line))
        steps[position - 1] = replace(steps[position - 1], begins=max(begin, position - 2))
        begin = position
    return _with_tensors(replace(program, steps=tuple(steps)), tensors)


def begun_late(program: NativeProgram) -> NativeProgram:
    """Return the program whose transfers begin when they are waited for, so that their buffers are live briefly."""
    steps = [
        step if step.begins is None else replace(step, begins=position) for position, step in enumerate(program.steps)
    ]
    return replace(program, steps=tuple(steps))


def begun_early(program: NativeProgram, memory: NativeMemory) -> NativeProgram:
    """Return the program whose transfers begin as soon as the bytes of their buffers are free in the arena."""
    steps, begin = list(program.steps), 0
    extents = [
        (offset, offset + buffer.aligned_bytes, buffer.lifetime.last)
        for buffer, offset in zip(memory.problem.buffers, memory.layout.offsets, strict=True)
    ]
    for position, step in enumerate(program.steps):
        if step.begins is None:
            continue
        start, end = _extent(program, memory, step.output)
        users = [last for low, high, last in extents if low < end and start < high and last < position]
        steps[position] = replace(step, begins=max([begin, *(last + 1 for last in users)]))
        begin = position + 1
    return replace(program, steps=tuple(steps))


def _with_tensors(program: NativeProgram, tensors: list[Tensor]) -> NativeProgram:
    main = replace(program.graph, tensors=tuple(tensors))
    return replace(program, model=replace(program.model, subgraphs=(main, *program.model.subgraphs[1:])))


def _constants(step: Step) -> list[tuple[str, Constant]]:
    return [(name, value) for name, value in step.op.values if isinstance(value, Constant)]


def require_loaded(program: NativeProgram, memory: NativeMemory) -> None:
    """Raise InternalError unless each step finds its block in the arena when it reads it.

    The steps are executed symbolically, without regard to the lifetimes for which the arena was planned.
    """
    check_contents(list(_contents(program, memory)))


def _extent(program: NativeProgram, memory: NativeMemory, tensor: int) -> tuple[int, int]:
    place = program.places[tensor]
    start = memory.tensors[place.root] + place.offset
    return start, start + program.graph.tensors[tensor].size_bytes


def _contents(program: NativeProgram, memory: NativeMemory) -> Iterator[Contents | Transfer]:
    begins = {step.begins: step for step in program.steps if step.begins is not None}
    for position, step in enumerate(program.steps):
        label = f"step {position}, operator {step.operator}"
        if position in begins:
            yield _transfer(program, memory, begins[position], label, ends=False)
        if step.begins is not None:
            yield _transfer(program, memory, step, label, ends=True)
            continue
        blocks = [item.source for item in step.inputs if isinstance(item.source, Constant)]
        is_load = step.kernel == "edgetool_copy" and len(blocks) == 1 and blocks[0].c_type == WORD
        written: list[tuple[int, int, bytes | None]] = [
            (*_extent(program, memory, tensor), None) for tensor in step.states
        ]
        start, _ = _extent(program, memory, step.output)
        start += step.output_offset
        written.append((start, start + step.output_bytes, blocks[0].data if is_load else None))
        if step.scratch_bytes:
            scratch = memory.scratch[position]
            written.append((scratch, scratch + step.scratch_bytes, None))
        read = []
        if step.block is not None:
            start, _ = _extent(program, memory, step.block.tensor)
            expected = _expected(step)
            read.append((start, start + len(expected), expected))
        sources = [item.source for item in step.inputs if isinstance(item.source, int)]
        used = [_extent(program, memory, index) for index in sources if program.places[index].constant is None]
        yield Contents(label, tuple(written), tuple(read), tuple(used))


def _transfer(program: NativeProgram, memory: NativeMemory, copy: Step, label: str, *, ends: bool) -> Transfer:
    block = copy.inputs[0].source
    assert isinstance(block, Constant)
    return Transfer(label, _extent(program, memory, copy.output), block.data, ends)


def _expected(step: Step) -> bytes:
    """Return what a step must find in its block: each of its constants where its descriptor points to."""
    assert step.block is not None
    content, constants = bytearray(block_bytes(step) or 0), dict(_constants(step))
    for name, offset in step.block.offsets:
        data = constants.pop(name).data
        content[offset : offset + len(data)] = data
    assert not constants
    return bytes(content)
