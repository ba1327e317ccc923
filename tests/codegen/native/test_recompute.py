"""Pairs of operators as one step: which there are, what they compute again, and bit by bit what TFLM computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.recompute import Pair, chosen_pairs, fusable_pairs, with_pairs
from edgetool.codegen.native.row_plan import RowVariants, faster_rows, smallest_rows
from edgetool.codegen.native.rows import row_problem
from edgetool.memory.streaming.checker import row_plan_problems
from edgetool.memory.streaming.schedule import best_schedule
from edgetool.model.types import Model
from tests.codegen.native.host import Build, Trial, differences, prepare
from tests.memory.account_net import Net

DSP = ("-DEDGETOOL_DSP=1",)
KERNELS = ((3, 3), (3, 3), (5, 5), (2, 2), (3, 1), (1, 5), (1, 1))


def expansion(
    side: tuple[int, int] = (8, 7),
    depth: int = 4,
    channels: int = 8,
    taps: tuple[int, int] = (3, 3),
    stride: int = 1,
    *,
    dilation: int = 1,
    padding: str = "SAME",
    activations: tuple[str, str] = ("RELU6", "NONE"),
    pads: bool = False,
    sums: bool = False,
    batches: int = 1,
    scale: float = 0.5,
    repeats: int = 1,
) -> Model:
    """Return blocks of a CONV_2D with one tap, a DEPTHWISE_CONV_2D and another CONV_2D, perhaps with a MEAN."""
    net = Net(seed=side[0] * side[1] + depth)
    x = source = net.arena(batches, *side, depth, scale=1 / 16, zero_point=3)
    one: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    for _ in range(repeats):
        height, width = side
        inputs = [x, net.filter(channels, 1, 1, depth, like=x, axis=0), net.biases(channels, like=x)]
        options = {"scale": scale, "zero_point": -20, "fused_activation_function": activations[0]}
        x = net.op("CONV_2D", inputs, batches, height, width, channels, **one, **options)
        if pads:
            height, width = height + 3, width + 2
            amounts = net.constant((0, 0, 1, 2, 2, 0, 0, 0), 4, 2)
            x = net.op("PAD", [x, amounts], batches, height, width, channels, scale=scale, zero_point=-20)
        reach = [(count - 1) * dilation for count in taps]
        size = [
            -(-(length if padding == "SAME" else length - taken) // stride)
            for length, taken in zip((height, width), reach, strict=True)
        ]
        inputs = [x, net.filter(1, *taps, channels, like=x, axis=3), net.biases(channels, like=x)]
        options = {"scale": 4 * scale, "zero_point": 9, "fused_activation_function": activations[1]}
        strides = {"stride_h": stride, "stride_w": stride, "padding": padding, "depth_multiplier": 1}
        dilations = {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
        x = net.op("DEPTHWISE_CONV_2D", inputs, batches, *size, channels, **strides, **dilations, **options)
        side = (size[0], size[1])
        inputs = [x, net.filter(depth, 1, 1, channels, like=x, axis=0)]
        x = net.op("CONV_2D", inputs, batches, *side, depth, scale=1 / 16, zero_point=3, **one)
    if sums:
        x = net.op("MEAN", [x, net.constant((1, 2))], batches, depth, scale=1 / 16, zero_point=0, keep_dims=False)
    return net.model([source], [x])


def trial_of(model: Model, *, fed: bool = False) -> Trial:
    """Return a model with all pairs as single steps in a plan of rows."""
    trial = prepare(model, 3, row_wise=True, lean=True)
    pairs = fusable_pairs(lower(model, row_wise=True, lean=True, plain=True))
    assert pairs
    program = with_pairs(trial.program, pairs)
    positions = tuple(range(len(program.graph.inputs))) if fed else ()
    rows = smallest_rows(program, [program.graph.inputs[i] for i in positions], passes=2)
    return replace(trial, program=program, rows=(rows.problem, rows.plan), fed=positions)


def drawn(seed: int, number: int) -> Iterator[tuple[str, Model]]:
    """Yield random models of all kinds."""
    random = Random(f"native/recompute/{seed}")
    for i in range(number):
        dilation = random.choice((1, 1, 1, 2))
        yield (
            f"pair {seed}.{i}",
            expansion(
                (random.randint(5, 9), random.randint(5, 13)),
                random.choice((1, 3, 4, 8, 12)),
                random.choice((2, 4, 5, 7, 8, 18)),
                random.choice(KERNELS),
                random.choice((1, 2, 2, 3)) if dilation == 1 else 1,
                dilation=dilation,
                padding=random.choice(("SAME", "VALID")) if dilation == 1 else "SAME",
                activations=(random.choice(("RELU6", "NONE", "RELU")), random.choice(("RELU6", "NONE"))),
                pads=random.random() < 0.3,
                sums=random.random() < 0.4,
                batches=random.choice((1, 1, 1, 2)),
                # The larger ones are those of other forms of scales.
                scale=random.choice((0.5, 0.03, 0.002)),
                repeats=1,
            ),
        )


def only(model: Model) -> Pair:
    [pair] = fusable_pairs(lower(model, row_wise=True, lean=True, plain=True))
    return pair


def test_random_pairs_compute_what_tflm_computes() -> None:
    trials = {name: trial_of(model, fed=i % 2 == 1) for i, (name, model) in enumerate(drawn(0, 6))}
    kernels = {kernel for trial in trials.values() for kernel in trial.program.kernels}
    assert {"edgetool_expand_depthwise_s8", "edgetool_conv_sums_s8"} <= kernels
    assert differences(trials, Build(flags=DSP)) == []


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), DSP], ids=["C", "DSP"])
@pytest.mark.parametrize("seed", [1, 2])
def test_many_random_pairs_compute_what_tflm_computes(seed: int, flags: tuple[str, ...]) -> None:
    trials = {name: trial_of(model, fed=i % 2 == 1) for i, (name, model) in enumerate(drawn(seed, 30))}
    assert differences(trials, Build(flags=flags)) == []


REAL = Path(__file__).parents[4] / "shared" / "data" / "models"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlperf/vww_96_int8", "tinyengine/tinyengine_vww"])
def test_real_models_compute_what_tflm_computes(name: str) -> None:
    path = REAL / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    trial = prepare(path.read_bytes(), 2, row_wise=True, lean=True)
    program = with_pairs(trial.program, fusable_pairs(lower(trial.program.model, row_wise=True, lean=True, plain=True)))
    rows = smallest_rows(program, program.graph.inputs, passes=2)
    fed = tuple(range(len(program.graph.inputs)))
    fused = replace(trial, program=program, rows=(rows.problem, rows.plan), fed=fed)
    assert differences({name: fused}) == []


@pytest.mark.parametrize(
    ("taps", "stride", "padding", "computed"),
    [
        # Output rows -1..1, 1..3, ... of 8 rows: all but the first one and the last one of SAME need three.
        ((3, 3), 1, "SAME", 3 * 8 - 2),
        ((3, 3), 1, "VALID", 3 * 6),
        ((3, 3), 2, "VALID", 3 * 3),
        ((3, 3), 2, "SAME", 3 * 4 - 1),
        ((1, 1), 1, "SAME", 8),
    ],
)
def test_extra_multiply_accumulates_are_those_of_rows_computed_again(
    taps: tuple[int, int], stride: int, padding: str, computed: int
) -> None:
    pair = only(expansion((8, 8), 4, 8, taps, stride, padding=padding))
    # With a stride of 2, VALID never reaches the last column.
    columns = 7 if (stride, padding) == (2, "VALID") else 8
    assert pair.extra_macs == (computed * columns - 8 * 8) * 4 * 8
    assert pair.step.scratch_bytes == 4 * taps[0] * taps[1]


def test_sums_compute_nothing_again() -> None:
    pairs = fusable_pairs(lower(expansion(sums=True), row_wise=True, lean=True, plain=True))
    assert [pair.extra_macs > 0 for pair in pairs] == [True, False]
    assert pairs[1].extra_macs == 0


def test_a_tensor_with_two_readers_or_that_is_an_output_is_stored() -> None:
    model = expansion()
    graph = model.main
    expanded = graph.operators[0].outputs[0]
    kept = replace(graph, outputs=(*graph.outputs, expanded))
    assert fusable_pairs(lower(replace(model, subgraphs=(kept,)), row_wise=True, lean=True, plain=True)) == ()


def test_other_convolutions_are_not_expansions() -> None:
    program = lower(expansion(sums=True), row_wise=True, lean=True, plain=True)
    steps = [
        replace(step, op=replace(step.op, values=tuple((k, 2 if k == "taps_x" else v) for k, v in step.op.values)))
        if step.kernel == "edgetool_conv2d_s8"
        else step
        for step in program.steps
    ]
    assert fusable_pairs(replace(program, steps=tuple(steps))) == ()


def test_chosen_pairs_lower_the_peak_within_the_limit() -> None:
    program = lower(expansion((12, 12), 4, 24, repeats=3), row_wise=True, lean=True, plain=True)
    pairs = fusable_pairs(program)
    assert len(pairs) == 3

    def peak(chosen: tuple[Pair, ...]) -> int:
        return best_schedule(row_problem(with_pairs(program, chosen), program.graph.inputs)).peak_bytes

    peaks = []
    for limit in range(0, sum(pair.extra_macs for pair in pairs) + 1, pairs[0].extra_macs // 2):
        chosen = chosen_pairs(program, pairs, program.graph.inputs, limit)
        assert sum(pair.extra_macs for pair in chosen) <= limit
        peaks.append(peak(chosen))
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] == peak(())
    assert peaks[-1] < peak(())
    assert chosen_pairs(program, pairs, program.graph.inputs, limit, stopped=lambda: True) == ()


def test_faster_kernels_fit_beside_pairs() -> None:
    model = expansion((9, 9), 8, 24, sums=True, repeats=2)
    lean = lower(model, row_wise=True, lean=True, plain=True)
    pairs = fusable_pairs(lean)
    programs = [with_pairs(item, pairs) for item in (lean, lower(model, row_wise=True), lower(model))]
    base = smallest_rows(programs[0], lean.graph.inputs, passes=2)
    costs = [{step.operator: 3 - number for step in item.steps} for number, item in enumerate(programs)]
    costs.append(costs[1])
    [faster] = faster_rows(base, RowVariants(*programs), costs, [2 * base.plan.memory_bytes])
    assert row_plan_problems(faster.problem, faster.plan) == []
    assert base.plan.memory_bytes <= faster.plan.memory_bytes <= 2 * base.plan.memory_bytes
