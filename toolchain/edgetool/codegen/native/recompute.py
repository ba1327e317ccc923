"""Pairs of operators that become one step, for plans of rows, so that what is between them is never stored.

A convolution with one tap whose only reader is a depthwise convolution makes a tensor that is often several times as
wide as its input. If each output row of the depthwise convolution computes the rows of it that it needs, for a few
channels at a time, then no row of it is in memory. Rows that several output rows need are computed several times.

If the only reader sums up all pixels instead, a few channels at a time are enough, too, and nothing is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step, describe
from edgetool.codegen.native.rows import row_problem
from edgetool.memory.streaming.schedule import best_schedule, live_bytes, live_tensors

EXPANSION, DEPTHWISE, SUMS = "edgetool_conv2d_s8", "edgetool_depthwise_s8", "edgetool_add_rows_s8"
EXPANDED_DEPTHWISE, EXPANDED_SUMS = "edgetool_expand_depthwise_s8", "edgetool_conv_sums_s8"
CHANNELS = 4  # that the kernel computes at once, in a byte each


@dataclass(frozen=True, slots=True)
class Pair:
    """Two operators that can be one step.

    Attributes:
        first: The convolution with one tap.
        second: The depthwise convolution, or the operator that sums up.
        tensor: What is between them.
        extra_macs: The multiply-accumulates of the step beyond those of both operators: negative if some of the first
            one's outputs are never needed.
        step: The step, in place of the second operator's step with the same output.
    """

    first: int
    second: int
    tensor: int
    extra_macs: int
    step: Step


def fusable_pairs(lean: NativeProgram) -> tuple[Pair, ...]:
    """Return the pairs of a program of rows with lean kernels, in its order. No operator is in two of them."""
    graph = lean.graph
    readers: dict[int, list[Step]] = {}
    for step in lean.steps:
        for item in step.inputs:
            if isinstance(item.source, int):
                readers.setdefault(lean.places[item.source].root, []).append(step)
    kept = {lean.places[index].root for index in graph.outputs}
    pairs = []
    for step in lean.steps:
        place = lean.places[step.output]
        if not _is_expansion(step) or place.root in kept or graph.tensors[place.root].is_variable:
            continue
        following = readers.get(place.root, [])
        # Views of the tensor have other rows, and a constant input has no rows to compute again.
        if len(following) != 1 or following[0].inputs[0].source != step.output or place.root != step.output:
            continue
        source, reader = step.inputs[0].source, following[0]
        if not isinstance(source, int) or lean.places[source].constant is not None:
            continue
        if _is_depthwise(reader):
            pairs.append(_pair(step, reader))
        elif _sums_all_pixels(step, reader):
            pairs.append(_pair_with_sums(step, reader))
    return tuple(pairs)


def with_pairs(program: NativeProgram, pairs: Collection[Pair]) -> NativeProgram:
    """Return a program in which pairs are single steps, at the places of their second operators.

    A program for whole tensors has no sums of rows, and keeps the two operators of such pairs.
    """
    possible = [pair for pair in pairs if pair.step.output in program.places]
    if not possible:
        return program
    first, tensors = {pair.first for pair in possible}, {pair.tensor for pair in possible}
    fused = {(pair.second, pair.step.output): pair.step for pair in possible}
    places = {index: place for index, place in program.places.items() if place.root not in tensors}
    steps: list[Step] = []
    for step in program.steps:
        merged = fused.get((step.operator, step.output), step)
        # In other programs, an operator may have several steps for one output.
        if step.operator not in first and not (steps and merged is steps[-1]):
            steps.append(merged)
    return replace(program, steps=tuple(steps), places=places)


def _is_expansion(step: Step) -> bool:
    fields = dict(step.op.values)
    if step.kernel != EXPANSION or len(step.inputs) != 1:
        return False
    item = step.inputs[0]
    one = (fields["groups"], fields["taps_y"], fields["taps_x"], fields["stride_x"], item.taps, item.stride)
    return one == (1,) * 6 and item.pad == fields["pad_x"] == step.output_offset == 0 and item.rows == step.rows


def _is_depthwise(step: Step) -> bool:
    return step.kernel == DEPTHWISE and dict(step.op.values)["depth_multiplier"] == 1


def _sums_all_pixels(first: Step, second: Step) -> bool:
    """Return whether a step adds up all pixels of a row of another step, channel by channel."""
    if second.kernel != SUMS or first.batches != 1:
        return False
    fields, summed = dict(first.op.values), dict(second.op.values)
    channels, width = fields["output_channels"], fields["output_width"]
    counts, steps = (summed["kept_count"], summed["reduced_count"]), (summed["kept_step"], summed["reduced_step"])
    is_whole = (second.inputs[0].rows, second.batches, summed["start"]) == (first.rows, 1, 0)
    ends = tuple(item[-1] for item in steps if isinstance(item, tuple))
    return is_whole and counts == ((1, channels), (1, width)) and ends == (1, channels)


def _pair(first: Step, second: Step) -> Pair:
    outer, inner = dict(second.op.values), dict(first.op.values)
    shared = "output_width taps_y taps_x stride_x dilation_x pad_x".split()
    of_second = "weights scales shift zero_point low high".split()
    outside = outer["zero_pixel"]
    assert isinstance(outside, Constant)
    values: dict[str, FieldValue] = {
        **{name: inner[name] for name in (*of_second, "input_width", "input_channels", "output_channels")},
        **{name: outer[name] for name in shared},
        **{f"depthwise_{name}": outer[name] for name in of_second},
        "outside": int.from_bytes(outside.data[:1], "little", signed=True),
    }
    source, window = first.inputs[0], second.inputs[0]
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    reach = (numbers["taps_x"] - 1) * numbers["dilation_x"] + 1
    step = replace(
        second,
        kernel=EXPANDED_DEPTHWISE,
        op=describe(EXPANDED_DEPTHWISE, **values),
        inputs=(replace(window, source=source.source, row_bytes=source.row_bytes),),
        scratch_bytes=CHANNELS * numbers["taps_y"] * reach,
        band=1,
        overlaps=(),
    )
    computed = step.batches * expanded_rows(step.inputs[0], step.rows) * expanded_columns(numbers)
    extra = computed - first.batches * first.rows * numbers["input_width"]
    macs = extra * numbers["input_channels"] * numbers["output_channels"]
    return Pair(first.operator, second.operator, first.output, macs, step)


def _pair_with_sums(first: Step, second: Step) -> Pair:
    fields = dict(first.op.values)
    names = "weights scales input_width input_channels output_channels shift zero_point low high".split()
    step = replace(
        second,
        kernel=EXPANDED_SUMS,
        op=describe(EXPANDED_SUMS, **{name: fields[name] for name in names}),
        inputs=first.inputs,
    )
    return Pair(first.operator, second.operator, first.output, 0, step)


def expanded_rows(item: RowInput, rows: int) -> int:
    """Return how many rows of an image the output rows of a batch compute in all."""
    places = (y * item.stride - item.pad + tap * item.dilation for y in range(rows) for tap in range(item.taps))
    return sum(0 <= place < item.rows for place in places)


def expanded_columns(numbers: dict[str, int]) -> int:
    """Return how many columns of a row are computed; those between windows are left out. numbers: of the descriptor."""
    reach, columns = (numbers["taps_x"] - 1) * numbers["dilation_x"] + 1, set[int]()
    for x in range(numbers["output_width"]):
        start = x * numbers["stride_x"] - numbers["pad_x"]
        columns.update(range(max(0, start), min(start + reach, numbers["input_width"])))
    return len(columns)


def chosen_pairs(
    program: NativeProgram,
    pairs: Sequence[Pair],
    fed: Collection[int],
    limit: int,
    *,
    taken: Collection[int] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[Pair, ...]:
    """Return the pairs with which schedules of a program's rows have the smallest peak.

    They are added one by one, each time the one that leaves the least at the steps that need the most memory: one whose
    tensor is in memory at the peak or, if none of these helps, any other one that lowers the peak.

    Args:
        program: Steps that keep the rows of images apart.
        pairs: The pairs to choose from.
        fed: The inputs that the application hands over row by row.
        limit: The most multiply-accumulates that the pairs may add in all.
        taken: The outputs that it takes row by row.
        stopped: Whether to end the search with the best pairs so far.
    """
    chosen: tuple[Pair, ...] = ()
    best, current = chosen, _needs(program, chosen, fed, taken, stopped)
    least = current.bytes[:1]
    while not stopped():
        left = limit - sum(pair.extra_macs for pair in chosen)
        allowed = [pair for pair in pairs if pair not in chosen and pair.extra_macs <= left]
        at_peak = [pair for pair in allowed if pair.tensor in current.at_peak]
        found = _smallest(program, chosen, at_peak, fed, taken, stopped)
        if found is None or found[0].bytes >= current.bytes:
            found = _smallest(program, chosen, [pair for pair in allowed if pair not in at_peak], fed, taken, stopped)
            if found is None or found[0].bytes[:1] >= current.bytes[:1]:
                break
        current, chosen = found[0], (*chosen, found[1])
        if current.bytes[:1] < least:
            best, least = chosen, current.bytes[:1]
    return best


@dataclass(frozen=True, slots=True)
class _Needs:
    """The most bytes that are live at each operator, in descending order, and the tensors that are live at the peak."""

    bytes: tuple[int, ...]
    at_peak: frozenset[int]


def _needs(
    program: NativeProgram,
    pairs: Collection[Pair],
    fed: Collection[int],
    taken: Collection[int],
    stopped: Callable[[], bool],
) -> _Needs:
    problem = row_problem(with_pairs(program, pairs), fed, taken=taken)
    # As for plans, so that their schedules are known.
    schedule = best_schedule(problem, most_weights=None, stopped=stopped).steps
    live = live_bytes(problem, schedule)
    most = [0] * len(problem.operators)
    for number, count in zip(schedule, live, strict=True):
        most[number] = max(most[number], count)
    at_peak = live_tensors(problem, schedule, [step for step, count in enumerate(live) if count == max(most)])
    return _Needs(tuple(sorted(most, reverse=True)), frozenset(problem.tensors[index].tensor for index in at_peak))


def _smallest(
    program: NativeProgram,
    chosen: tuple[Pair, ...],
    pairs: Sequence[Pair],
    fed: Collection[int],
    taken: Collection[int],
    stopped: Callable[[], bool],
) -> tuple[_Needs, Pair] | None:
    """Return the pair with which the steps that need the most memory need the least; None without pairs."""
    best: tuple[_Needs, Pair] | None = None
    for pair in pairs:
        if stopped():
            break
        needs = _needs(program, (*chosen, pair), fed, taken, stopped)
        if best is None or (needs.bytes, pair.extra_macs) < (best[0].bytes, best[1].extra_macs):
            best = needs, pair
    return best
