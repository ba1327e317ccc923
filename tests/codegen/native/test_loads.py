"""Constants that are copied into the arena: what is copied, and what the checker of contents refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.codegen.native.emit import arrays_of
from edgetool.codegen.native.loads import block_bytes, require_loaded, with_loads
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import NativeMemory, place_buffers
from edgetool.codegen.native.program import Block, Constant
from edgetool.errors import InternalError
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
