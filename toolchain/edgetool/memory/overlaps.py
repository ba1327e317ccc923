"""Which tensors of the main graph may share bytes on a build of TFLM: an output, and an input that dies there.

The distance between the two is a rule of the operator and the kernel set (`operators/`). Whether an input dies is
known from the lifetimes; it never does if the application may read it after Invoke. The distances for any other kernel
set are kept together with those for the reference kernels, so that every plan also runs there, and can be verified on
the host. No rule of another set permits what the reference kernels do not, so this costs nothing.

Tensors that TFLM places itself are left alone: scratch buffers, variables, and tensors without an offset in the plan.
So are the tensors of other subgraphs, which operators of several runs share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.memory.bound import alias_pairs, lower_bound
from edgetool.memory.lifetimes import DEAD, Timeline
from edgetool.memory.problem import LayoutProblem, Lifetime, Overlap
from edgetool.model.types import Graph, Model, Operator
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.overlap import InputOverlap
from edgetool.operators.registry import OPERATORS
from edgetool.target.platform import Platform
from edgetool.target.types import Abi

# The reference kernels, which read and write in the same order on every processor.
REFERENCE = Platform("reference", dsp=False, mve=False, abi=Abi("", 4, 1, 8), structs={}, options={}, op_data={})


@dataclass(frozen=True, slots=True)
class Permission:
    """Two tensors of the main graph, by index, that may share bytes: an operator's input and its output.

    distance: the least offset(source) - offset(result) in bytes; None if they may only have the same offset.
    """

    source: int
    result: int
    distance: int | None


# What an operator of the main graph permits, by its index; None for a build stands for the reference kernels.
OperatorOverlaps = Mapping[int, tuple[InputOverlap, ...]]


def operator_overlaps(
    model: Model, platform: Platform | None, known: dict[object, tuple[InputOverlap, ...]] | None = None
) -> OperatorOverlaps:
    """Return what the kernels of a build permit for each operator of the main graph, wherever its inputs die.

    known: the results for the same build, by what they depend on, to which others are added: equal operators are
    computed once.
    """
    known = {} if known is None else known
    result = {}
    for operator in model.main.operators:
        key = _contents(model.main, operator)
        if key not in known:
            known[key] = _permitted_overlaps(model, operator, platform)
        if known[key]:
            result[operator.index] = known[key]
    return result


def _contents(graph: Graph, operator: Operator) -> object:
    """Return all that what the kernels of an operator permit may depend on."""
    tensors = [None if i < 0 else graph.tensors[i] for i in (*operator.inputs, *operator.outputs)]
    operands = tuple(t and (t.shape, t.dtype, t.quantization, t.is_variable, t.data) for t in tensors)
    aliases = tuple(operator.inputs.index(i) for i in operator.inputs)
    return operator.code, operator.custom_code, operator.custom_options, operator.options, operands, aliases


def _permitted_overlaps(model: Model, operator: Operator, platform: Platform | None) -> tuple[InputOverlap, ...]:
    reference = _kernel_overlaps(model, operator, REFERENCE)
    kernels = reference
    if platform is not None and platform.kernels != "reference":
        kernels = _kernel_overlaps(model, operator, platform)
    both = {i: _stricter(reference[i], kernels[i]) for i in reference.keys() & kernels.keys()}
    return tuple(InputOverlap(i, both[i]) for i in sorted(both))


def _kernel_overlaps(model: Model, operator: Operator, platform: Platform) -> dict[int, int | None]:
    """Return the distance of each input that the kernel's output may overlap, by position."""
    entry = OPERATORS.get(operator.code)
    rule = None if entry is None else entry.overlaps.get(platform.kernels)
    if rule is None or not operator.outputs:
        return {}
    try:
        return {item.input: item.distance for item in rule(Call(model, model.main, operator, platform, {}))}
    except KernelRefusal:
        # The model does not run with this operator, which the account reports.
        return {}


def _stricter(first: int | None, second: int | None) -> int | None:
    """Return the distance that satisfies both; offsets that differ never satisfy a rule for equal ones."""
    return None if first is None or second is None else max(first, second)


def permissions(
    model: Model, times: Timeline, overlaps: OperatorOverlaps, *, keep_inputs: bool = False
) -> tuple[Permission, ...]:
    """Return the tensors of the main graph that may share bytes in the order of the model's operators.

    keep_inputs: whether the inputs of the model must keep their contents until the end of Invoke.
    """
    graph = model.main
    kept = {*graph.outputs, *(graph.inputs if keep_inputs else ())}
    writers = Counter(index for operator in graph.operators for index in operator.outputs)
    written = set(graph.inputs)
    read: set[int] = set()
    result = []
    for operator in graph.operators:
        permitted = overlaps.get(operator.index, ())
        run = times.operators[0, operator.index]
        output = operator.outputs[0] if operator.outputs else -1
        is_new = writers[output] == 1 and output not in (read | written) and output not in operator.inputs
        for item in permitted if is_new and run.first == run.last else ():
            source = operator.inputs[item.input]
            times_of = times.lifetimes.get((0, source), DEAD)
            dies = source in written and times_of.last == run.last and times_of.first < run.first
            if dies and source not in kept and operator.inputs.count(source) == 1:
                result.append(Permission(source, output, item.distance))
        written.update(operator.outputs)
        read.update(operator.inputs)
    return tuple(result)


def permitted(
    problem: LayoutProblem,
    allowed: Sequence[Permission],
    *,
    offsets: Mapping[tuple[int, int], int] | None = None,
    excluded: Collection[tuple[int, int]] = (),
) -> LayoutProblem:
    """Return the problem with the overlaps that are permitted; tensors that must have the same offset get an alias.

    offsets: by (subgraph, tensor), those of a given plan: only tensors that share bytes there may overlap, and only
    those that have the same offset there share an alias. excluded: tensors that have no offset in any plan.
    """
    position = {
        buffer.tensor: index
        for index, buffer in enumerate(problem.buffers)
        if buffer.subgraph == 0
        and buffer.operator < 0
        and (0, buffer.tensor) not in excluded
        and (offsets is None or (0, buffer.tensor) in offsets)
    }
    root = {tensor: tensor for tensor in position}
    overlaps = []
    for item in allowed:
        if item.source not in position or item.result not in position:
            continue
        if item.distance is not None:
            overlap = Overlap(position[item.source], position[item.result], item.distance)
            if offsets is None or _share_bytes(problem, item, overlap, offsets):
                overlaps.append(overlap)
        elif offsets is None or offsets[0, item.source] == offsets[0, item.result]:
            # Operators run in order, so that the source already has the root of its own source.
            root[item.result] = root[item.source]
    shared = Counter(root.values())
    buffers = list(problem.buffers)
    for tensor, index in position.items():
        if shared[root[tensor]] > 1:
            buffers[index] = replace(buffers[index], alias=f"tensor {root[tensor]}")
    return LayoutProblem(tuple(buffers), (*problem.overlaps, *overlaps))


def _share_bytes(
    problem: LayoutProblem, item: Permission, overlap: Overlap, offsets: Mapping[tuple[int, int], int]
) -> bool:
    starts = (offsets[0, item.source], offsets[0, item.result])
    sizes = (problem.buffers[index].size_bytes for index in (overlap.first, overlap.second))
    return max(starts) < min(start + size for start, size in zip(starts, sizes, strict=True))


def without_aliases(problem: LayoutProblem) -> LayoutProblem:
    """Return a problem that permits at least the same layouts, in which tensors of one alias overlap instead.

    Its lower bound also holds for layouts in which they do not have the same offset.
    """
    pairs = (Overlap(i, j, 0) for i, j in alias_pairs(problem))
    buffers = tuple(replace(buffer, alias=None) for buffer in problem.buffers)
    return LayoutProblem(buffers, (*problem.overlaps, *pairs))


def shareable_bytes(problem: LayoutProblem, model: Model, overlaps: OperatorOverlaps) -> dict[int, int]:
    """Return how many bytes of its operands each operator of the main graph need not count twice, by its index.

    Every input counts as if it died there, so that the result holds for any order of the operators.
    """
    by_tensor = {b.tensor: b for b in problem.buffers if b.subgraph == 0 and b.operator < 0}
    result = {}
    for operator in model.main.operators:
        operands = [i for i in dict.fromkeys((*operator.inputs, *operator.outputs)) if i in by_tensor]
        pairs = [
            Overlap(
                operands.index(operator.inputs[item.input]), operands.index(operator.outputs[0]), item.distance or 0
            )
            for item in overlaps.get(operator.index, ())
            if {operator.inputs[item.input], operator.outputs[0]} <= set(operands)
        ]
        if pairs:
            buffers = tuple(replace(by_tensor[i], lifetime=Lifetime(0, 0), alias=None) for i in operands)
            together = lower_bound(LayoutProblem(buffers, tuple(pairs)))
            result[operator.index] = sum(buffer.aligned_bytes for buffer in buffers) - together
    return result


@dataclass(frozen=True, slots=True)
class OverlappingTensors:
    """An input of an operator and its output, tensors of the main graph by index, and the bytes that they share."""

    input: int
    output: int
    size_bytes: int


def overlapping_tensors(problem: LayoutProblem, offsets: Sequence[int]) -> tuple[OverlappingTensors, ...]:
    """Return the outputs that share bytes with an input in a valid layout, in the order in which they are written."""
    permitted_pairs = ((item.first, item.second) for item in problem.overlaps if item.of_operator)
    pairs = {*permitted_pairs, *alias_pairs(problem)}
    pairs = {pair for pair in pairs if not any(problem.buffers[i].is_scratch for i in pair)}
    result = []
    for pair in sorted(pairs, key=lambda pair: max(problem.buffers[i].lifetime.first for i in pair)):
        first, second = sorted(pair, key=lambda i: problem.buffers[i].lifetime.first)
        ends = [offsets[i] + problem.buffers[i].size_bytes for i in pair]
        shared = min(ends) - max(offsets[i] for i in pair)
        if shared > 0:
            result.append(OverlappingTensors(problem.buffers[first].tensor, problem.buffers[second].tensor, shared))
    return tuple(result)
