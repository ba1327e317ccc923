"""Tensors that share bytes in plans for TFLM: what is permitted, what is refused, and that TFLM computes the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.overlaps import on_this_machine
from benchmarks.kernels.random_network import random_network

from edgetool.errors import InvalidModelError
from edgetool.execute.quantize import random_inputs
from edgetool.memory import planner
from edgetool.memory.checker import check_layout
from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.memory.overlaps import (
    OperatorOverlaps,
    operator_overlaps,
    overlapping_tensors,
    permissions,
    permitted,
)
from edgetool.memory.planner import PlanRequest, fixed_offsets, plan_memory
from edgetool.memory.problem import ARENA_ALIGNMENT
from edgetool.model.edit import in_order, renumbered, with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import DType, Model
from edgetool.operators.registry import OPERATORS
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.graphs import chain, graph, model, operator, tensor


def platform(kernels: str = "reference", core: str = "cortex-m7") -> Platform:
    return platform_of(replace(load_target(core), kernels=kernels))


def allowed(made: Model, *, kernels: str = "reference", keep_inputs: bool = False) -> list[tuple[int, int, int | None]]:
    overlaps = operator_overlaps(made, platform(kernels))
    found = permissions(made, timeline(made), overlaps, keep_inputs=keep_inputs)
    return [(item.source, item.result, item.distance) for item in found]


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_elementwise_operators_compute_in_place_with_all_kernels(kernels: str) -> None:
    made = chain([64, 64, 64, 64])
    assert allowed(made, kernels=kernels) == [(0, 1, 0), (1, 2, 0), (2, 3, 0)]
    plan = plan_memory(made, platform(kernels))
    assert plan.layout.height == plan.layout.lower_bound == 64
    assert [(pair.input, pair.output, pair.size_bytes) for pair in plan.overlapping] == [
        (0, 1, 64),
        (1, 2, 64),
        (2, 3, 64),
    ]


def test_without_a_build_or_on_request_nothing_overlaps() -> None:
    made = chain([64, 64, 64])
    for plan in (plan_memory(made), plan_memory(made, platform(), PlanRequest(overlap=False))):
        assert plan.layout.height == 128
        assert plan.overlapping == ()
    assert allowed(made, keep_inputs=True) == [(1, 2, 0)]
    kept = plan_memory(made, platform(), PlanRequest(keep_inputs=True))
    assert kept.layout.height == 128
    assert all(pair.input != 0 for pair in kept.overlapping)


def test_inputs_that_somebody_still_reads_are_not_overwritten() -> None:
    tensors = [tensor(i, 64) for i in range(5)]
    steps = [operator(0, "RELU", [0], [1]), operator(1, "RELU", [1], [2]), operator(2, "ADD", [1, 2], [3])]
    # Tensor 1 is read again; tensor 2 dies in the sum, whose other operand does, too.
    assert allowed(model(graph(tensors, steps, [0], [3]))) == [(0, 1, 0), (1, 3, 0), (2, 3, 0)]
    # The application reads outputs after the last operator.
    assert allowed(model(graph(tensors, steps, [0], [2, 3]))) == [(0, 1, 0), (1, 3, 0)]
    # One tensor in both operands is read twice.
    twice = [operator(0, "RELU", [0], [1]), operator(1, "ADD", [1, 1], [2])]
    assert allowed(model(graph(tensors, twice, [0], [2]))) == [(0, 1, 0)]
    # A repeated operand is read for many outputs.
    small = [tensor(0, 4, 16), tensor(1, 16), tensor(2, 4, 16)]
    assert allowed(model(graph(small, [operator(0, "ADD", [0, 1], [2])], [0, 1], [2]))) == [(0, 2, 0)]


def test_variables_and_tensors_with_several_writers_are_left_alone() -> None:
    tensors = [tensor(0, 64), tensor(1, 64, variable=True), tensor(2, 64), tensor(3, 64)]
    steps = [operator(0, "ADD", [0, 1], [2]), operator(1, "RELU", [2], [3])]
    made = model(graph(tensors, steps, [0], [3]))
    plan = plan_memory(made, platform())
    assert {(pair.input, pair.output) for pair in plan.overlapping} == {(0, 2), (2, 3)}
    again = [operator(0, "RELU", [0], [2]), operator(1, "RELU", [0], [2]), operator(2, "RELU", [2], [3])]
    assert allowed(model(graph([tensor(i, 64) for i in range(4)], again, [0], [3]))) == [(2, 3, 0)]


def test_types_that_c_may_tell_apart_do_not_share_bytes() -> None:
    for kinds, expected in (
        ((DType.FLOAT32, DType.INT8), [(0, 1, -3)]),
        ((DType.INT8, DType.FLOAT32), [(0, 1, 63 * 3)]),
        ((DType.INT16, DType.INT32), []),
    ):
        tensors = [tensor(i, 64, dtype=dtype) for i, dtype in enumerate(kinds)]
        assert allowed(model(graph(tensors, [operator(0, "CAST", [0], [1])], [0], [1]))) == expected


def test_reshaped_tensors_keep_their_offset() -> None:
    tensors = [tensor(0, 8, 8), tensor(1, 64), tensor(2, 4, 16), tensor(3, 64), tensor(4, 1, data=bytes(4))]
    steps = [
        operator(0, "RESHAPE", [0], [1]),
        operator(1, "RESHAPE", [1], [2]),
        operator(2, "RELU", [2], [3]),
    ]
    tensors[3] = tensor(3, 4, 16)
    made = model(graph(tensors, steps, [0], [3]))
    assert allowed(made) == [(0, 1, None), (1, 2, None), (2, 3, 0)]
    plan = plan_memory(made, platform())
    assert plan.layout.height == 64
    assert plan.layout.proof == "bound met"
    given = permissions(made, timeline(made), operator_overlaps(made, platform()))
    problem = permitted(layout_problem(made, timeline(made)), given, offsets={(0, 0): 0, (0, 1): 64, (0, 2): 64})
    assert [buffer.alias for buffer in problem.buffers] == [None, "tensor 1", "tensor 1", None]


@pytest.mark.parametrize(
    ("begins", "strides", "masks", "distance"),
    [
        # The first of the rows that are copied begins behind a row of 6 pixels and a pixel, of 2 bytes each.
        ((0, 1, 1, 0), (1, 1, 1, 1), {}, 2 - (6 + 1) * 2),
        ((0, -7, 1, 0), (1, 1, 1, 1), {}, 2 - (6 + 1) * 2),
        ((0, 5, 1, 0), (1, 1, 1, 1), {"begin_mask": 0b10}, 2 - 2),
        ((0, 0, 0, 0), (1, 1, 1, 1), {}, 2),
        ((0, 1, 1, 0), (1, 1, -1, 1), {}, None),
        ((0, 1, 1, 0), (1, 1, 1, 1), {"ellipsis_mask": 0b1}, None),
    ],
)
def test_a_part_may_overlap_what_it_is_a_part_of(
    begins: tuple[int, ...], strides: tuple[int, ...], masks: dict[str, int], distance: int | None
) -> None:
    bounds = [np.array(values, "<i4").tobytes() for values in (begins, (1, 8, 6, 2), strides)]
    tensors = [
        tensor(0, 1, 8, 6, 2),
        *(tensor(i, 4, dtype=DType.INT32, data=data) for i, data in enumerate(bounds, start=1)),
        tensor(4, 1, 7, 5, 2),
    ]
    fields = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0) | masks
    made = model(
        graph(tensors, [operator(0, "STRIDED_SLICE", [0, 1, 2, 3], [4], "StridedSliceOptions", **fields)], [0], [4])
    )
    expected = [] if distance is None else [(0, 4, distance)]
    assert [allowed(made, kernels=kernels) for kernels in ("reference", "cmsis-nn")] == [expected] * 2


def conv_chain(channels: int = 8, outputs: int = 8) -> Model:
    """A 1x1 convolution of 8 by 8 pixels."""
    tensors = [
        tensor(0, 1, 8, 8, channels),
        tensor(1, outputs, 1, 1, channels, data=bytes(channels * outputs)),
        tensor(2, outputs, dtype=DType.INT32, data=bytes(4 * outputs)),
        tensor(3, 1, 8, 8, outputs),
    ]
    convolve = operator(
        0,
        "CONV_2D",
        [0, 1, 2],
        [3],
        "Conv2DOptions",
        padding="VALID",
        stride_h=1,
        stride_w=1,
        dilation_h_factor=1,
        dilation_w_factor=1,
    )
    return model(graph(tensors, [convolve], [0], [3]))


def test_a_pointwise_convolution_depends_on_the_kernels() -> None:
    made = conv_chain()
    assert allowed(made) == [(0, 3, 8 - 1)]
    assert allowed(made, kernels="cmsis-nn") == []
    on_helium = operator_overlaps(made, platform("cmsis-nn", "cortex-m55"))[0]
    assert [item.distance for item in on_helium] == [4 * 8]
    older = replace(platform("cmsis-nn", "cortex-m55"), missing=frozenset(["something"]))
    assert operator_overlaps(made, older) == {}


def with_plan(made: Model, offsets: dict[tuple[int, int], int]) -> Model:
    return with_metadata(made, METADATA_NAME, encode_plan(made, offsets))


def test_a_plan_in_a_file_may_overlap_only_as_the_build_permits() -> None:
    made = conv_chain()
    fits = with_plan(made, {(0, 0): 16, (0, 3): 0})
    assert plan_memory(fits, platform()).layout.height == 16 + 512
    assert plan_memory(fits).layout.height == 16 + 512  # without a build, the reference kernels count
    with pytest.raises(InvalidModelError, match=r"tensor 0 .* and tensor 3 .* overlap"):
        plan_memory(fits, platform("cmsis-nn"))
    with pytest.raises(InvalidModelError, match=r"tensor 0 .* and tensor 3 .* overlap"):
        plan_memory(with_plan(made, {(0, 0): 0, (0, 3): 0}), platform())
    wider = with_plan(made, {(0, 0): 32, (0, 3): 0})
    plan = plan_memory(wider, platform("cmsis-nn", "cortex-m55"))
    assert plan.account is not None
    assert plan.account.head_bytes == plan.layout.height == 32 + 512 == plan.layout.lower_bound
    with pytest.raises(InvalidModelError, match="overlap"):
        plan_memory(fits, platform("cmsis-nn", "cortex-m55"))


def test_plans_for_other_kernels_also_suit_the_reference_kernels() -> None:
    count = 0
    builds = [platform("cmsis-nn"), platform("cmsis-nn", "cortex-m55"), platform("cmsis-nn", "cortex-m0plus")]
    for code, kind in generators():
        if code not in OPERATORS or not OPERATORS[code].overlaps:
            continue
        made = Case(code, kind, 3).model()
        reference = operator_overlaps(made, platform())
        for build in builds:
            for index, items in operator_overlaps(made, build).items():
                by_input = {item.input: item.distance for item in reference[index]}
                for item in items:
                    known = by_input[item.input]
                    assert item.distance == known or (None not in (item.distance, known) and item.distance > known)
                    count += 1
    assert count > 100


def run(*models: Model) -> list[bytes | None]:
    """Return the outputs of models with the same inputs on TFLM."""
    inputs = b"".join(values[0].tobytes() for values in random_inputs(models[0], 1, seed=0))
    return on_this_machine([(made, inputs) for made in models])


def planned(made: Model) -> tuple[Model, planner.Plan]:
    """Return the model with the plan that edgetool makes for reference kernels."""
    plan = plan_memory(made, platform_of(load_target("x86-64")))
    ordered = renumbered(in_order(made, plan.order))
    return (with_plan(ordered, dict(plan.offsets)) if plan.offsets else ordered), plan


def understated(made: Model, build: Platform | None) -> OperatorOverlaps:
    """Return what operators permit, 16 bytes nearer than is safe, and at any offset instead of the same one."""
    return {
        index: tuple(
            replace(item, distance=-ARENA_ALIGNMENT if item.distance is None else item.distance - ARENA_ALIGNMENT)
            for item in items
        )
        for index, items in operator_overlaps(made, build).items()
    }


def networks(first: int, count: int) -> list[Model]:
    return [random_network(Random(f"overlaps {number}")) for number in range(first, first + count)]


def check_networks(first: int, count: int) -> int:
    """Check that plans do not change the outputs of random networks; return how many tensors overlap in them."""
    overlapping = ran = 0
    for made in networks(first, count):
        file, plan = planned(made)
        assert check_layout(plan.problem, plan.layout) == ()
        stock, ours = run(made, file)
        ran += stock is not None
        assert ours == stock
        overlapping += len(plan.overlapping)
    assert ran > count // 2
    return overlapping


def test_random_networks_compute_the_same_with_tensors_that_overlap() -> None:
    pytest.importorskip("tflite_micro")
    assert check_networks(0, 8) > 8


def test_a_planner_that_understates_distances_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    refused = different = 0
    for made in networks(0, 12):
        with monkeypatch.context() as patch:
            patch.setattr(planner, "operator_overlaps", understated)
            file, _ = planned(made)
        try:
            fixed_offsets(file, timeline(file))
        except InvalidModelError:
            refused += 1
        stock, mutant = run(made, file)
        different += mutant != stock
    assert refused >= 4
    assert different >= 2


def test_shared_bytes_are_counted() -> None:
    plan = plan_memory(chain([64, 64]), platform())
    assert overlapping_tensors(plan.problem, (0, 0))[0].size_bytes == 64
    assert overlapping_tensors(plan.problem, (48, 0))[0].size_bytes == 16
    assert overlapping_tensors(plan.problem, (64, 0)) == ()
