"""The loop counts of the steps of a program, by the rule of each step's kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from edgetool.codegen.native.loops import (
    convolution,
    dense,
    depthwise,
    elementwise,
    movement,
    pooling,
    recompute,
    vector,
)
from edgetool.codegen.native.loops.call import WORD, Code, LoopRule, StepCall, run_loops
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import NativeMemory
from edgetool.codegen.native.program import Step
from edgetool.operators.loops import LoopCounts, TooLongError, combined
from edgetool.target.types import Core

_MODULES = (convolution, dense, depthwise, elementwise, movement, pooling, recompute, vector)
RULES: Mapping[str, LoopRule] = {name: rule for module in _MODULES for name, rule in module.RULES.items()}
# The kernels whose loops depend on the distance of the output from the input, and on whether they share bytes.
BY_DISTANCE = frozenset({"edgetool_depthwise_3x3_s8"})
BY_SHARED_BYTES = frozenset({"edgetool_conv2d_vector_s8"})
KNOWN_CALLS = 1024  # whose loops are counted once: plans of one model share most of them
# The loops of kernels that read all constants in each iteration; all other kernels are taken to read them once.
CONSTANT_READS: Mapping[str, tuple[str, ...]] = {
    "edgetool_conv2d_lean_s8": ("pixels", "pixels outside"),
    "edgetool_conv2d_s16": ("pixels",),
    "edgetool_conv2d_s8": ("pixels",),
    "edgetool_conv2d_tiled_s8": ("groups", "groups in a line"),
    "edgetool_conv2d_vector_s8": ("groups", "pixels alone"),
    "edgetool_conv_sums_s8": ("rows of inputs",),
    "edgetool_dense_s16": ("rows",),
    "edgetool_dense_s8": ("rows",),
    "edgetool_dense_vector_s8": ("rows",),
    # The weights of a few channels stay in a cache.
    "edgetool_expand_depthwise_s8": ("rows of inputs",),
    "edgetool_lstm": ("steps",),
}


@dataclass(frozen=True, slots=True)
class StepLoops:
    """The loop counts of a step. counts: None if counting them would take too long. is_loaded: see Step.block."""

    operator: int
    kernel: str
    counts: LoopCounts | None
    is_loaded: bool = False

    @property
    def constant_reads(self) -> int:
        """How many times the step reads its constants in flash in one inference: once if it reads a copy in RAM."""
        if self.is_loaded:
            return 1
        loops = {} if self.counts is None else self.counts.loops
        return max(1, sum(loops.get(name, 0) for name in CONSTANT_READS.get(self.kernel, ())))


def code_of(core: Core) -> Code:
    """Return the variant of the kernels for a core."""
    return Code.of(core.isa, dsp=core.dsp, mve=core.mve)


def program_loops(program: NativeProgram, memory: NativeMemory, code: Code) -> tuple[StepLoops, ...]:
    """Return the loop counts of each step in one inference."""
    found = []
    for position, step in enumerate(program.steps):
        starts = tuple(_start(program, memory, item.source) for item in step.inputs)
        output = (_start(program, memory, step.output) + step.output_offset) % WORD
        # Calls that differ in nothing that matters are the same, and their loops are counted once.
        shares = step.kernel in BY_SHARED_BYTES and _shares_bytes(program, memory, step)
        distance = _distance(program, memory, step) if step.kernel in BY_DISTANCE else None
        call = StepCall(step, code, position in memory.fields, starts, output, shares, distance)
        try:
            counts: LoopCounts | None = step_loops(call)
        except TooLongError:
            counts = None
        found.append(StepLoops(step.operator, step.kernel, counts, step.block is not None))
    return tuple(found)


@lru_cache(maxsize=KNOWN_CALLS)
def step_loops(call: StepCall) -> LoopCounts:
    """Return the loop counts of a step with those of edgetool_run. Raises TooLongError if there are too many steps."""
    counts = RULES.get(call.step.kernel, _output_bytes)(call)
    return LoopCounts(counts.path, combined(run_loops(call), counts.loops))


def _output_bytes(call: StepCall) -> LoopCounts:
    """Return the loop counts of a kernel without a rule."""
    return LoopCounts("all", {"output bytes": call.elements})


def _shares_bytes(program: NativeProgram, memory: NativeMemory, step: Step) -> bool:
    """Return whether the output of a step has bytes of one of its inputs."""
    start, end = _extent(program, memory, step.output)
    sources = [item.source for item in step.inputs if isinstance(item.source, int)]
    extents = [_extent(program, memory, i) for i in sources if program.places[i].constant is None]
    return any(first < end and start < last for first, last in extents)


def _distance(program: NativeProgram, memory: NativeMemory, step: Step) -> int | None:
    """Return the bytes from the output of a step to its first input, None if they do not share bytes."""
    source = step.inputs[0].source if step.inputs else None
    if not isinstance(source, int) or program.places[source].constant is not None:
        return None
    start, end = _extent(program, memory, step.output)
    first, last = _extent(program, memory, source)
    return first - start - step.output_offset if first < end and start < last else None


def _extent(program: NativeProgram, memory: NativeMemory, tensor: int) -> tuple[int, int]:
    place = program.places[tensor]
    start = memory.tensors[place.root] + place.offset
    return start, start + program.graph.tensors[tensor].size_bytes


def _start(program: NativeProgram, memory: NativeMemory, source: object) -> int:
    """Return the address of a tensor or constant, modulo 4: arrays of constants are taken to be aligned."""
    if not isinstance(source, int) or program.places[source].constant is not None:
        return 0
    place = program.places[source]
    return (memory.tensors[place.root] + place.offset) % WORD
