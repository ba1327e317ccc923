"""Constants that are copied into the arena: what is copied, and what the checker of contents refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.codegen.native.emit import arrays_of
from edgetool.codegen.native.loads import (
    begun_early,
    begun_late,
    block_bytes,
    require_loaded,
    with_loads,
    with_transfers,
)
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import NativeMemory, memory_of, native_problem, place_buffers
from edgetool.codegen.native.program import Block, Constant
from edgetool.errors import InternalError
from edgetool.memory.checker import Contents, Transfer, check_contents, require_valid
from edgetool.memory.problem import Layout
from tests.model.builders import residual_model


@pytest.fixture
def program() -> NativeProgram:
    """A residual block, in which the constants of every step that has any are copied."""
    plain = lower(residual_model())
    positions = [position for position, step in enumerate(plain.steps) if block_bytes(step)]
    assert len(positions) > 1
    return with_loads(plain, positions)


def loads(program: NativeProgram) -> list[int]:
    """The steps that read a block."""
    return [position for position, step in enumerate(program.steps) if step.block is not None]


def test_each_block_has_all_constants_once(program: NativeProgram) -> None:
    plain = lower(residual_model())
    assert len(program.steps) == len(plain.steps) + len(loads(program))
    for position in loads(program):
        step, copy = program.steps[position], program.steps[position - 1]
        (item,) = copy.inputs
        assert isinstance(item.source, Constant)
        assert step.block is not None
        assert (copy.kernel, copy.output, len(item.source.data)) == (
            "edgetool_copy",
            step.block.tensor,
            block_bytes(step),
        )
        for name, offset in step.block.offsets:
            constant = dict(step.op.values)[name]
            assert isinstance(constant, Constant)
            assert item.source.data[offset : offset + len(constant.data)] == constant.data
            assert offset % 4 == 0
    sizes = [sum(len(item.data) for item in arrays_of("net", each).constants) for each in (plain, program)]
    assert sizes[0] <= sizes[1] < sizes[0] + 4 * 4 * len(loads(program)) + 1


def test_a_plan_keeps_every_block_until_it_is_read(program: NativeProgram) -> None:
    require_loaded(program, place_buffers(program))


def test_the_checker_refuses_lost_blocks(program: NativeProgram) -> None:
    memory, position = place_buffers(program), loads(program)[-1]
    step, copy = program.steps[position], program.steps[position - 1]
    assert step.block is not None

    def steps(*changed: object) -> NativeProgram:
        return replace(program, steps=(*program.steps[: position - 1], *changed, *program.steps[position + 1 :]))  # type: ignore[arg-type]

    def at(offset: int) -> NativeMemory:
        assert step.block is not None
        return replace(memory, tensors={**memory.tensors, step.block.tensor: offset})

    def refused(other: NativeProgram, layout: NativeMemory) -> None:
        with pytest.raises(InternalError, match="does not find its constants"):
            require_loaded(other, layout)

    output = program.places[step.output].root
    refused(steps(step, copy), memory)  # the copy comes too late
    refused(steps(replace(copy, inputs=program.steps[1 - 1].inputs), step), memory)  # of something else
    refused(program, at(memory.tensors[output]))  # the step's own output is there
    assert block_bytes(step)
    wrong = Block(step.block.tensor, tuple((name, offset + 4) for name, offset in step.block.offsets))
    refused(steps(copy, replace(step, block=wrong)), memory)  # the descriptor points to other constants
    if step.scratch_bytes:
        refused(program, replace(memory, scratch={**memory.scratch, position: memory.tensors[step.block.tensor]}))


def copies(program: NativeProgram) -> list[int]:
    """The steps that wait for a copy which the firmware makes."""
    return [position for position, step in enumerate(program.steps) if step.begins is not None]


@pytest.mark.parametrize("line", [0, 32])
def test_copies_of_the_firmware_begin_a_step_earlier_one_after_the_other(program: NativeProgram, line: int) -> None:
    ahead = with_transfers(program, line)
    assert [position + 1 for position in copies(ahead)] == loads(program)
    end = 0
    for position in copies(ahead):
        begins = ahead.steps[position].begins
        assert begins == max(end, position - 1)
        end = position + 1  # the reader of this copy can run while the next copy does
    buffers = {buffer.tensor: buffer for buffer in native_problem(ahead).buffers}
    for position in loads(ahead):
        block, copy = ahead.steps[position].block, ahead.steps[position - 1]
        assert block is not None
        slot = buffers[block.tensor]
        assert (slot.lifetime.first, slot.lifetime.last) == (copy.begins, position)
        assert slot.alignment == max(line, 4)
        assert slot.size_bytes % max(line, 4) == 0
        assert 0 <= slot.size_bytes - copy.output_bytes < max(line, 4)
    require_loaded(ahead, place_buffers(ahead))
    late = begun_late(ahead)
    assert [late.steps[position].begins for position in copies(late)] == copies(late)


def test_copies_begin_as_soon_as_their_bytes_are_free(program: NativeProgram) -> None:
    late = begun_late(with_transfers(program, 32))
    memory = place_buffers(late)
    early = begun_early(late, memory)
    # The same layout is valid for the longer lifetimes, and no copy could begin a step before.
    layout = Layout(memory.layout.offsets, memory.layout.height, 0, "none")
    problem = native_problem(early)
    require_valid(problem, layout)
    require_loaded(early, memory_of(early, problem, layout))
    end = 0
    for position in copies(early):
        begins = early.steps[position].begins
        assert begins is not None
        if begins > end:
            before = (replace(early.steps[position], begins=begins - 1),)
            sooner = replace(early, steps=(*early.steps[:position], *before, *early.steps[position + 1 :]))
            with pytest.raises(InternalError):
                require_valid(native_problem(sooner), layout)
        end = position + 1


SLOT, DATA = (32, 64), b"constant"
BEGIN, END = Transfer("begin", SLOT, DATA, ends=False), Transfer("end", SLOT, DATA, ends=True)
READER = Contents("reader", read=((32, 40, DATA),))


def test_the_checker_accepts_what_does_not_touch_a_running_copy() -> None:
    other = Contents("other", written=((0, 32, None), (64, 70, None)), used=((16, 32),))
    check_contents([BEGIN, other, END, other, READER])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([BEGIN, READER, END], "reader uses bytes that begin is copying to"),
        ([BEGIN, Contents("other", used=((63, 65),)), END, READER], "other uses bytes that begin is copying to"),
        ([BEGIN, Contents("other", written=((40, 41, None),)), END], "other uses bytes"),
        ([BEGIN, END, Contents("other", written=((33, 34, None),)), READER], "reader does not find its constants"),
        ([Contents("other", written=((32, 40, DATA),)), BEGIN, END, BEGIN, READER], "reader uses bytes"),
        ([BEGIN, BEGIN, END], "begin begins a copy out of turn"),
        ([END, READER], "end waits for a copy out of turn"),
        ([BEGIN, replace(END, content=b"others")], "end waits for a copy out of turn"),
        ([BEGIN], "nothing waits for the copy that begin began"),
    ],
)
def test_the_checker_refuses_wrong_copies(steps: list[Contents | Transfer], said: str) -> None:
    with pytest.raises(InternalError, match=said):
        check_contents(steps)
