"""Regions in stripes: what can be one, which rows its copies compute, and that TFLM and LiteRT compute the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from benchmarks.kernels.overlaps import on_this_machine
from benchmarks.kernels.random_network import random_image_network, random_network
from benchmarks.plan_soundness import drawn_regions
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InvalidModelError, UnsupportedModelError, UsageError
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import litert_engine, measure_tflm, run_model
from edgetool.memory import views
from edgetool.memory.checker import check_layout
from edgetool.memory.lifetimes import timeline
from edgetool.memory.planner import Plan, PlanRequest, fixed_offsets, plan_memory
from edgetool.memory.problem import ARENA_ALIGNMENT, Effort
from edgetool.model.draft import Draft
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.views import View, copies_of, views_of, with_views
from edgetool.model.writer import write_model
from edgetool.operators.registry import operator_costs
from edgetool.passes.stripes import Copy, Interface, Region, RowGraph, Rows, Striped, divided, portable, stripe
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.memory.account_convolutions import transposed
from tests.memory.account_net import Net


def convolutions(
    *steps: tuple[str, int, int, str],
    height: int = 12,
    width: int = 5,
    channels: int = 3,
    wider: Collection[int] = (),
) -> Model:
    """A chain of operators: code, window side, stride, padding; those in `wider` double the channels."""
    net = Net()
    x = first = net.arena(1, height, width, channels)
    for number, (code, side, stride, padding) in enumerate(steps):
        _, rows, columns, depth = net.tensors[x].shape
        sides = [-(-size // stride) if padding == "SAME" else (size - side) // stride + 1 for size in (rows, columns)]
        units = 2 * depth if number in wider else depth
        shape = (1, side, side, depth) if code == "DEPTHWISE_CONV_2D" else (units, side, side, depth)
        fields = {"padding": padding, "stride_h": stride, "stride_w": stride}
        if "POOL" in code:
            x = net.op(code, [x], 1, *sides, depth, filter_height=side, filter_width=side, **fields)
            continue
        extra = {"depth_multiplier": 1} if code == "DEPTHWISE_CONV_2D" else {}
        weights = net.filter(*shape, like=x, axis=None)
        dilations = {"dilation_h_factor": 1, "dilation_w_factor": 1}
        x = net.op(code, [x, weights, net.biases(units, like=x)], 1, *sides, units, **fields, **extra, **dilations)
    return net.model([first], [x])


CONV, DEPTHWISE, POOL = "CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D"


def test_copies_read_what_their_rows_need() -> None:
    made = convolutions((DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"))
    stripes = RowGraph(made.main).copies(Region(0, 1, 3))
    assert stripes is not None
    rows = [[((c.inputs[0][1].first, c.inputs[0][1].end), (c.rows.first, c.rows.end)) for c in s] for s in stripes]
    # At the image's border, a row is padding; elsewhere, the first and the last row are computed in vain.
    assert rows == [
        [((0, 5), (0, 5)), ((0, 4), (0, 4))],
        [((3, 9), (3, 9)), ((4, 8), (4, 8))],
        [((7, 12), (7, 12)), ((8, 12), (8, 12))],
    ]
    striped = stripe(made, [Region(0, 1, 3)])
    assert len(striped.model.main.operators) == 6
    # A row has 5 x 3 elements, each with 9 multiply-accumulates: 4 rows are computed twice, or in vain.
    assert striped.extra_macs == 4 * 5 * 3 * 9
    assert sum(cost.macs for cost in operator_costs(striped.model)) == striped.extra_macs + sum(
        cost.macs for cost in operator_costs(made)
    )


def test_valid_convolutions_compute_no_row_in_vain() -> None:
    made = convolutions((CONV, 3, 1, "VALID"), (CONV, 1, 1, "VALID"), height=14)
    stripes = RowGraph(made.main).copies(Region(0, 1, 3))
    assert stripes is not None
    assert [(s[0].inputs[0][1].first, s[0].inputs[0][1].end, s[0].rows.count) for s in stripes] == [
        (0, 6, 4),
        (4, 10, 4),
        (8, 14, 4),
    ]
    assert stripe(made, [Region(0, 1, 3)]).extra_macs == 0


def test_strides_keep_their_phase() -> None:
    made = convolutions((DEPTHWISE, 3, 2, "SAME"), (CONV, 1, 1, "SAME"), height=16)
    stripes = RowGraph(made.main).copies(Region(0, 1, 2))
    assert stripes is not None
    # 16 rows have one row of padding, behind the last; so have 10, which begin at an even row.
    assert [(s[0].inputs[0][1].first, s[0].inputs[0][1].end, s[0].rows.count) for s in stripes] == [
        (0, 10, 5),
        (8, 16, 4),
    ]


def test_rows_behind_rows_computed_in_vain_are_moved() -> None:
    pytest.importorskip("tflite_micro")
    made = convolutions((CONV, 1, 1, "SAME"), (CONV, 3, 1, "SAME"))
    stripes = RowGraph(made.main).copies(Region(0, 1, 3))
    assert stripes is not None
    assert [(s[1].rows, s[1].moved) for s in stripes] == [
        (Rows(0, 5), None),
        (Rows(3, 9), Rows(4, 8)),
        (Rows(7, 12), Rows(8, 12)),
    ]
    striped = stripe(made, [Region(0, 1, 3)])
    codes = [operator.code for operator in striped.model.main.operators]
    assert codes == [CONV, CONV, CONV, CONV, "RESHAPE", CONV, CONV, "RESHAPE"]
    copies = copies_of(with_views(striped.model, striped.views))
    assert copies == {0: 0, 1: 1, 2: 0, 3: 1, 4: 4, 5: 0, 6: 1, 7: 4}
    check(made, striped)


def test_stripes_keep_the_rows_that_they_share() -> None:
    pytest.importorskip("tflite_micro")
    made = convolutions((DEPTHWISE, 3, 1, "SAME"), (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"))
    region = Region(0, 2, 3, keeps=True)
    stripes = RowGraph(made.main).copies(region)
    assert stripes is not None
    # Of the first operator's output, each stripe needs two rows that the one before has computed; SAME computes one row
    # in vain in front of the others, and one behind them.
    assert [(s[0].rows, s[0].kept, s[0].held, s[0].keeps_first) for s in stripes] == [
        (Rows(0, 6), None, Rows(0, 6), False),
        (Rows(4, 10), Rows(3, 5), Rows(3, 10), False),
        (Rows(8, 12), Rows(7, 9), Rows(7, 12), False),
    ]
    striped = stripe(made, [region])
    assert striped.extra_macs < stripe(made, [replace(region, keeps=False)]).extra_macs
    names = [tensor.name for tensor in striped.model.main.tensors]
    assert [name.partition("/")[2] for name in names if name.endswith(("/kept/stripe0", "/kept/stripe1"))] == [
        "kept/stripe0",
        "kept/stripe1",
    ]
    # RESHAPE moves rows away, and in front of, or over, those of the next stripe.
    codes = [operator.code for operator in striped.model.main.operators]
    assert codes == [
        *(DEPTHWISE, DEPTHWISE, "RESHAPE", CONV),
        *(DEPTHWISE, "RESHAPE", DEPTHWISE, "RESHAPE", CONV),
        *(DEPTHWISE, "RESHAPE", DEPTHWISE, CONV),
    ]
    check(made, striped)


def test_a_pad_replaces_rows_in_vain_of_all_channels() -> None:
    pytest.importorskip("tflite_micro")
    made = convolutions((CONV, 3, 1, "SAME"), (CONV, 3, 1, "SAME"), height=16)
    region = Region(0, 1, 4, keeps=True)
    stripes = RowGraph(made.main).copies(region)
    assert stripes is not None
    assert [(s[0].rows, s[0].kept, s[0].keeps_first) for s in stripes] == [
        (Rows(0, 5), None, False),
        (Rows(5, 9), Rows(3, 5), True),
        (Rows(9, 13), Rows(7, 9), True),
        (Rows(13, 16), Rows(11, 13), True),
    ]
    # Rows are padding at the ends of the image only, and columns always.
    assert [s[1].framed for s in stripes] == [
        ((1, 0), (1, 1)),
        ((0, 0), (1, 1)),
        ((0, 0), (1, 1)),
        ((0, 1), (1, 1)),
    ]
    striped = stripe(made, [region])
    assert striped.extra_macs == 0
    check(made, striped)
    copies = copies_of(with_views(striped.model, striped.views))
    convolution = [index for index, operator in enumerate(striped.model.main.operators) if operator.code == CONV]
    assert [copies[index] for index in convolution] == convolution[:2] * 4


def test_a_stripe_may_compute_nothing_of_a_tensor() -> None:
    pytest.importorskip("tflite_micro")
    steps = [(DEPTHWISE, 3, 1, "SAME")] * 4
    made = convolutions(*steps, height=8)
    region = Region(0, 3, 8, keeps=True)
    stripes = RowGraph(made.main).copies(region)
    assert stripes is not None
    # Three rows of padding: the last stripes find all rows of the first tensor in those before.
    assert [s[0].rows.count for s in stripes][-3:] == [0, 0, 0]
    check(made, stripe(made, [region]))


@pytest.mark.parametrize(
    ("growth", "ends"), [(0, [3, 6, 10]), (50, [2, 5, 10]), (-50, [5, 8, 10]), (900, [1, 2, 10]), (-90, [8, 9, 10])]
)
def test_stripes_grow_evenly(growth: int, ends: list[int]) -> None:
    assert [rows.end for rows in divided(10, 3, growth)] == ends


@given(st.data())
def test_every_row_is_in_one_stripe(data: st.DataObject) -> None:
    height = data.draw(st.integers(1, 300))
    stripes, growth = data.draw(st.integers(1, height)), data.draw(st.integers(-50, 100))
    shares = divided(height, stripes, growth)
    assert [share.first for share in shares] == [0, *(share.end for share in shares[:-1])]
    assert (len(shares), shares[-1].end) == (stripes, height)
    assert all(share.count > 0 for share in shares)


def test_what_is_no_region() -> None:
    made = convolutions((CONV, 1, 1, "SAME"), (CONV, 3, 1, "SAME"), (CONV, 1, 1, "SAME"))
    assert RowGraph(made.main).interface(0, 2) is not None
    assert RowGraph(made.main).copies(Region(0, 2, 13)) is None
    with pytest.raises(UsageError, match="the operators 0 to 2 cannot run in 13 stripes"):
        stripe(made, [Region(0, 2, 13)])
    net = Net()
    x = net.arena(1, 8, 4, 2)
    y = net.op("RELU", [x])
    z = net.op("ADD", [y, x])
    both = net.model([x], [z, y])
    # A tensor that is read inside is used outside.
    assert RowGraph(both.main).interface(0, 1) is None
    assert RowGraph(both.main).interface(1, 1) == Interface((y, x), (z,))
    assert RowGraph(both.main).interface(0, 0) == Interface((x,), (y,))
    net = Net()
    x = net.arena(1, 8, 4, 2)
    vector = net.noise(8, 4, 2, scale=1 / 16)
    repeated = net.model([x], [net.op("ADD", [x, vector])])
    # The rows of an operand of three dimensions are along its first one.
    assert RowGraph(repeated.main).interface(0, 0) is None


def networks(first: int, count: int) -> Iterator[tuple[Model, Striped]]:
    """Yield random networks with regions in stripes."""
    for number in range(first, first + count):
        random = Random(f"stripes {number}")
        drawn = random_network(random) if number % 4 == 0 else random_image_network(random)
        made = read_model(write_model(drawn))
        chosen = list(drawn_regions(made, random))
        if chosen:
            yield made, stripe(made, chosen)


def planned(striped: Striped) -> tuple[Model, Plan]:
    """Return the model with its views and the plan for reference kernels."""
    made = with_views(striped.model, striped.views)
    plan = plan_memory(made, platform_of(load_target("x86-64")), effort=Effort(node_limit=2_000))
    assert plan.offsets is not None
    return with_metadata(made, METADATA_NAME, encode_plan(made, plan.offsets)), plan


def planned_networks(first: int, count: int) -> Iterator[tuple[Model, Striped, Model, Plan]]:
    """Yield random networks, in stripes, and planned; without those whose views TFLM cannot place."""
    for made, striped in networks(first, count):
        try:
            file, plan = planned(striped)
        except UnsupportedModelError:
            continue
        yield made, striped, file, plan


def run(*models: Model) -> list[bytes | None]:
    """Return the outputs of models with the same inputs on TFLM."""
    inputs = b"".join(values[0].tobytes() for values in random_inputs(models[0], 1, seed=0))
    return on_this_machine([(made, inputs) for made in models])


def check_networks(first: int, count: int) -> int:
    """Check that stripes do not change the outputs of random networks on TFLM; return how many were compared."""
    compared = 0
    for made, striped, file, plan in planned_networks(first, count):
        assert check_layout(plan.problem, plan.layout) == ()
        assert read_model(write_model(file)) == file
        stock, slices, ours = run(made, portable(striped.model, striped.views), file)
        assert stock == slices == ours
        compared += stock is not None
    return compared


def test_random_networks_compute_the_same_in_stripes() -> None:
    pytest.importorskip("tflite_micro")
    assert check_networks(0, 12) >= 6


def check(made: Model, striped: Striped) -> None:
    """Check that a model with random weights computes the same in stripes, with a plan and with SLICE."""
    file, plan = planned(striped)
    assert check_layout(plan.problem, plan.layout) == ()
    stock, slices, ours = run(made, portable(striped.model, striped.views), file)
    assert stock is not None
    assert stock == slices == ours


def test_rows_that_the_next_stripe_corrects_are_not_read_before() -> None:
    pytest.importorskip("tflite_micro")
    made = convolutions((DEPTHWISE, 3, 2, "SAME"), (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), height=16)
    copies = [RowGraph(made.main).copies(region) for region in (Region(0, 0, 2), Region(1, 2, 2))]
    # The first copy of the second region reads exactly the rows that the first copy of the first region writes.
    assert [stripes is not None and stripes[0][0] for stripes in copies] == [
        Copy(0, Rows(0, 5), ((0, Rows(0, 10)),)),
        Copy(1, Rows(0, 5), ((0, Rows(0, 5)),)),
    ]
    check(made, stripe(made, [Region(0, 0, 2), Region(1, 2, 2)]))


def test_regions_read_several_tensors() -> None:
    pytest.importorskip("tflite_micro")
    net = Net()
    x, y = net.arena(1, 8, 4, 2), net.arena(1, 8, 4, 2)
    z = net.op("ADD", [net.op("MUL", [y, x]), x])
    made = net.model([x, y], [z])
    assert RowGraph(made.main).interface(0, 1) == Interface((y, x), (z,))
    check(made, stripe(made, [Region(0, 1, 3)]))


def test_regions_have_several_results() -> None:
    pytest.importorskip("tflite_micro")
    net = Net()
    x = net.arena(1, 11, 5, 2)
    whole = net.op("RELU", [x])
    pooled = net.op(POOL, [whole], 1, 6, 3, 2, filter_height=2, filter_width=2, padding="SAME", stride_h=2, stride_w=2)
    same = net.op("RELU6", [whole])
    made = net.model([x], [net.op("RELU", [pooled]), net.op("RELU", [same])])
    assert RowGraph(made.main).interface(0, 2) == Interface((x,), (pooled, same))
    stripes = RowGraph(made.main).copies(Region(0, 2, 2))
    assert stripes is not None
    # The shares of both results are equal, so that they need different rows of what they read.
    assert [[copy.rows for copy in copies] for copies in stripes] == [
        [Rows(0, 6), Rows(0, 3), Rows(0, 5)],
        [Rows(5, 11), Rows(3, 6), Rows(5, 11)],
    ]
    check(made, stripe(made, [Region(0, 2, 3)]))
    check(made, stripe(made, [Region(0, 4, 2)]))


@pytest.mark.parametrize("code", ["SLICE", "STRIDED_SLICE"])
def test_parts_of_images_run_in_stripes(code: str) -> None:
    pytest.importorskip("tflite_micro")
    net = Net()
    x = net.arena(1, 9, 6, 2)
    begin, size = net.constant([0, 2, 1, 0]), net.constant([1, 6, 4, 2])
    if code == "SLICE":
        y = net.op(code, [net.op("RELU", [x]), begin, size], 1, 6, 4, 2)
    else:
        # The end of each axis is masked, and every second column is taken.
        end, steps = net.constant([0, 8, 0, 0]), net.constant([1, 1, 2, 1])
        y = net.op(code, [net.op("RELU", [x]), begin, end, steps], 1, 6, 3, 2, end_mask=0b1101)
    made = net.model([x], [net.op("RELU", [y])])
    stripes = RowGraph(made.main).copies(Region(0, 2, 2))
    assert stripes is not None
    assert [(s[1].inputs[0][1], s[1].rows) for s in stripes] == [(Rows(2, 5), Rows(0, 3)), (Rows(5, 8), Rows(3, 6))]
    striped = stripe(made, [Region(0, 2, 3)])
    assert set(copies_of(with_views(striped.model, striped.views)).values()) == {0, 1, 2}
    check(made, striped)


@pytest.mark.parametrize(
    ("steps", "fields"),
    [([1, 2, 1, 1], {}), ([1, 1, 1, 1], {"shrink_axis_mask": 4}), ([1, 1, 1, 1], {"new_axis_mask": 2})],
)
def test_other_parts_are_no_regions(steps: list[int], fields: dict[str, int]) -> None:
    net = Net()
    x = net.arena(1, 8, 4, 2)
    bounds = [net.constant(values) for values in ([0, 0, 0, 0], [1, 8, 4, 2], steps)]
    y = net.op("STRIDED_SLICE", [x, *bounds], 1, 8 // steps[1], 4, 2, **fields)
    assert RowGraph(net.model([x], [y]).main).interface(0, 0) is None


@pytest.mark.parametrize("code", ["TRANSPOSE_CONV", "DEPTH_TO_SPACE"])
def test_rows_become_several(code: str) -> None:
    pytest.importorskip("tflite_micro")
    net = Net()
    x = net.arena(1, 5, 4, 8)
    if code == "DEPTH_TO_SPACE":
        y = net.op(code, [x], 1, 10, 8, 2, block_size=2)
    else:
        y = transposed(net, x, 2, (2, 2), stride=2)
    made = net.model([x], [net.op("RELU", [net.op("RELU", [y])])])
    stripes = RowGraph(made.main).copies(Region(0, 2, 3))
    assert stripes is not None
    assert [(s[0].inputs[0][1], s[0].rows) for s in stripes] == [
        (Rows(0, 2), Rows(0, 4)),
        (Rows(1, 3), Rows(2, 6)),
        (Rows(3, 5), Rows(6, 10)),
    ]
    # Rows that begin in the middle of what a row becomes cannot be written alone: RESHAPE moves them.
    alone = RowGraph(made.main).copies(Region(0, 0, 3))
    assert alone is not None
    assert [s[0].moved for s in alone] == [None, Rows(3, 6), None]
    check(made, stripe(made, [Region(0, 0, 3)]))
    check(made, stripe(made, [Region(0, 2, 3)]))
    check(made, stripe(made, [Region(0, 0, 5), Region(1, 2, 2)]))


@pytest.mark.slow
def test_many_random_networks_compute_the_same_in_stripes() -> None:
    pytest.importorskip("tflite_micro")
    assert check_networks(12, 300) >= 120


@pytest.mark.slow
def test_a_planner_that_understates_distances_is_caught() -> None:
    pytest.importorskip("tflite_micro")
    exact = views._distance
    refused = different = 0
    patch = pytest.MonkeyPatch()
    patch.setattr(views, "_distance", lambda *given: exact(*given) - ARENA_ALIGNMENT)
    files = [(made, file) for made, _, file, _ in planned_networks(0, 16)]
    patch.undo()
    for made, file in files:
        try:
            fixed_offsets(file, timeline(file))
        except InvalidModelError:
            refused += 1
        stock, mutant = run(made, file)
        different += mutant != stock
    assert refused >= 4
    assert different >= 2


def test_the_account_of_views_is_exact() -> None:
    pytest.importorskip("tflite_micro")
    for _, _, file, plan in planned_networks(1, 4):
        assert plan.account is not None
        assert measure_tflm(write_model(file)).total == plan.account.used_bytes
        again = plan_memory(file, platform_of(load_target("x86-64")))
        assert again.planner == "file"
        assert again.account == plan.account


def test_views_in_files_are_checked() -> None:
    made = convolutions((DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"))
    striped = stripe(made, [Region(0, 1, 3)])
    file, plan = planned(striped)
    assert views_of(file) == striped.views
    assert plan.offsets is not None
    first = striped.views[0]
    moved = {**plan.offsets, (0, first.tensor): plan.offsets[0, first.tensor] + 16}
    with pytest.raises(InvalidModelError, match=f"tensor {first.tensor} is not {first.offset} bytes behind"):
        plan_memory(with_metadata(file, METADATA_NAME, encode_plan(file, moved)))
    count = len(striped.model.main.tensors)
    size = striped.model.main.tensors[first.parent].size_bytes
    for wrong, text in (
        ([View(first.tensor, first.parent, size)], "is no part of"),
        ([View(first.tensor, first.parent, -1)], "is no part of"),
        ([View(count, first.parent, 0)], "it names the tensors"),
        ([View(1, 0, 0)], "cannot share"),
        ([View(first.parent, first.tensor, 0)], "is no part of"),
        ([first, first], "a view of two others"),
        ([first, View(first.parent, striped.views[-1].tensor, 0)], "is a view and has views"),
    ):
        with pytest.raises(InvalidModelError, match=text):
            views_of(with_views(striped.model, wrong))
    with pytest.raises(InvalidModelError, match="unknown version"):
        views_of(with_metadata(made, "edgetool.views", b"\0\0\0\0"))


def test_models_in_stripes_need_their_plan_and_cannot_be_rewritten() -> None:
    made = convolutions((DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"))
    striped = stripe(made, [Region(0, 1, 3)])
    whole = with_views(striped.model, striped.views)
    with pytest.raises(InvalidModelError, match="no memory plan places them there"):
        plan_memory(whole, request=PlanRequest(file_plan="only"))
    with pytest.raises(UnsupportedModelError, match="in stripes, which cannot be rewritten"):
        Draft(whole).finish()
    for request in (PlanRequest(sharing="greedy"), PlanRequest(strategy="tflm"), PlanRequest(keep_inputs=True)):
        plan = plan_memory(whole, platform_of(load_target("x86-64")), request)
        assert plan.offsets is not None
        first = striped.views[0]
        assert plan.offsets[0, first.tensor] == plan.offsets[0, first.parent] + first.offset
        file = with_metadata(whole, METADATA_NAME, encode_plan(whole, plan.offsets))
        assert fixed_offsets(file, timeline(file)) == plan.offsets


def test_copies_are_known_by_what_they_write() -> None:
    made = convolutions((CONV, 3, 2, "SAME"), (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), (POOL, 2, 2, "VALID"))
    striped = stripe(made, [Region(1, 2, 3)])
    assert copies_of(made) == {}
    assert copies_of(with_views(striped.model, striped.views)) == {1: 1, 2: 2, 3: 1, 4: 2, 5: 1, 6: 2}


def test_portable_models_run_on_litert() -> None:
    pytest.importorskip("ai_edge_litert")
    made = convolutions((CONV, 3, 2, "SAME"), (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), (POOL, 2, 2, "VALID"))
    striped = stripe(made, [Region(0, 2, 3)])
    slices = portable(striped.model, striped.views)
    assert {"SLICE", "CONCATENATION"} <= {operator.code for operator in slices.main.operators}
    inputs = random_inputs(made, 3, seed=0)
    outputs = [run_model(write_model(item), inputs, engine=litert_engine(made)) for item in (made, slices)]
    assert all(np.array_equal(first, second) for first, second in zip(*outputs, strict=True))
