"""Which regions run in stripes, against arenas that were measured on emulated cores."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from edgetool.memory.checker import check_layout
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import StripePlanner, plan_stripes
from edgetool.model.edit import in_order, renumbered
from edgetool.model.reader import read_model
from edgetool.passes.pixel_order import in_pixel_order
from edgetool.passes.stripes import Region
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.memory.account_net import Net
from tests.passes.test_stripes import CONV, DEPTHWISE, convolutions

FOLDER = Path(__file__).parents[2] / "benchmarks" / "kernels" / "measured"
MEASURED, KEPT_ROWS = FOLDER / "stripes.csv", FOLDER / "kept_rows.csv"
# The arena on cortex-m7 with reference kernels at most, in bytes.
LIMITS = {
    "mcunet_vww": 100_900,
    "vww_96_int8": 57_900,
    "person_detect": 51_800,
    "pretrainedResnet_quant": 31_900,
    "kws_ref_model": 16_600,
    "mobilenet_025_128": 87_000,
    "mobilenet_v2_035_96": 126_300,
    "mobilenet_v2_100_224": 480_000,
}
# QEMU takes too long for this one.
NOT_RUN = ("mobilenet_v2_100_224", "cortex-m55", "cmsis-nn")
# The shares by which the arenas of most models, and of all, may exceed these with CMSIS-NN.
MOST, ALL = 0.12, 0.3


def rows(path: Path = MEASURED) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="ascii") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def test_the_runtime_uses_what_is_planned_and_computes_the_same() -> None:
    found = list(rows())
    assert {(row["model"], row["core"], row["kernels"]) for row in found} == {
        (model, core, kernels)
        for model in LIMITS
        for core in ("cortex-m7", "cortex-m55")
        for kernels in ("reference", "cmsis-nn")
    } - {NOT_RUN}
    for row in found:
        arena_bytes, used_bytes = int(row["arena_bytes"]), int(row["used_bytes"])
        assert arena_bytes - 16 < used_bytes <= arena_bytes <= int(row["stock_used_bytes"]) + 15, row
        assert (row["equal"], row["with_16_less"]) == ("yes", "no"), row
        assert int(row["different"]) > 1, row


def test_rows_that_stripes_keep_change_no_output_on_emulated_cores() -> None:
    found = list(rows(KEPT_ROWS))
    assert {row["small"] for row in found} == {"arena", "head"}
    assert {(row["core"], row["kernels"]) for row in found} >= {
        ("cortex-m7", "reference"),
        ("cortex-m7", "cmsis-nn"),
        ("cortex-m55", "cmsis-nn"),
    }
    for row in found:
        assert (row["equal"], row["with_16_less"]) == ("yes", "no"), row
        assert int(row["used_bytes"]) <= int(row["arena_bytes"]), row
        assert int(row["different"]) > 1, row


def test_the_arenas_are_small() -> None:
    found = list(rows())
    for row in found:
        if (row["core"], row["kernels"]) == ("cortex-m7", "reference"):
            assert int(row["arena_bytes"]) <= LIMITS[row["model"]], row
    for core in ("cortex-m7", "cortex-m55"):
        excess = [
            int(row["arena_bytes"]) / LIMITS[row["model"]] - 1
            for row in found
            if (row["core"], row["kernels"]) == (core, "cmsis-nn")
        ]
        assert sum(share <= MOST for share in excess) >= 5, (core, excess)
        assert max(excess) <= ALL, (core, excess)


def test_more_extra_work_needs_fewer_live_bytes() -> None:
    steps = (CONV, 1, 1, "SAME"), (DEPTHWISE, 3, 1, "SAME"), (DEPTHWISE, 3, 1, "SAME"), ("MAX_POOL_2D", 2, 2, "SAME")
    model = convolutions(*steps, height=24, wider=[0])
    platform = platform_of(load_target("cortex-m7"))
    base = plan_memory(model, platform)
    assert base.account is not None
    least = [
        StripePlanner(model, base, platform, PlanRequest(), max_extra_macs=share).least_live_bytes
        for share in (0, 0.2, 1)
    ]
    # Without extra work, only the pooling can run in stripes: the others compute rows in vain.
    assert base.account.head_bytes > least[0] > least[1] > least[2]
    found = plan_stripes(model, base, platform, PlanRequest(), Effort(), max_extra_macs=1)
    assert found is None or found.plan.layout.height >= least[2]


def test_a_tensor_that_two_branches_read_need_not_exist_as_a_whole() -> None:
    net = Net()
    x = net.arena(1, 32, 16, 4)
    weights = net.filter(32, 1, 1, 4, like=x, axis=None)
    fields = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    wide = net.op(CONV, [x, weights, net.biases(32, like=x)], 1, 32, 16, 32, **fields)
    window = {"filter_height": 4, "filter_width": 4, "padding": "VALID", "stride_h": 4, "stride_w": 4}
    results = [net.op(code, [wide], 1, 8, 4, 32, **window) for code in ("MAX_POOL_2D", "AVERAGE_POOL_2D")]
    model = net.model([x], results)
    platform, request = platform_of(load_target("x86-64")), PlanRequest(file_plan="replace", order="original")
    base = plan_memory(model, platform, request)
    found = plan_stripes(model, base, platform, request, Effort(), max_extra_macs=0)
    assert base.account is not None
    assert found is not None
    assert [(region.first, region.last) for region in found.regions] == [(0, 2)]
    assert found.striped.extra_macs == 0
    assert found.plan.layout.height < net.tensors[wide].size_bytes <= base.account.head_bytes


def planner(max_extra_macs: float) -> StripePlanner:
    """Return the planner of a model whose largest tensors are those of its first operators."""
    steps = (CONV, 1, 1, "SAME"), (DEPTHWISE, 5, 1, "SAME"), (DEPTHWISE, 3, 2, "SAME"), (CONV, 1, 1, "SAME")
    model = renumbered(convolutions(*steps, height=96, width=32, channels=8, wider=(0, 3)))
    platform = platform_of(replace(load_target("cortex-m7"), kernels="reference"))
    request = PlanRequest(file_plan="replace", order="original")
    return StripePlanner(model, plan_memory(model, platform, request), platform, request, max_extra_macs=max_extra_macs)


def test_no_layouts_are_compared_again_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def once(self: StripePlanner, regions: tuple[Region, ...]) -> object:
        tried.append(regions)
        return trial(self, regions)

    trial = StripePlanner._trial
    monkeypatch.setattr(StripePlanner, "_trial", once)
    monkeypatch.setattr(StripePlanner, "_finalist", None)
    planner(0.5).smallest(Effort(stop=lambda: len(tried) > 2))
    assert len(tried) == 3


@pytest.mark.slow
def test_products_run_in_pixel_order_where_that_saves_memory() -> None:
    # Only the first two 1x1 convolutions have the largest tensors as input and output.
    steps = (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), (CONV, 1, 1, "SAME"), ("MAX_POOL_2D", 2, 2, "SAME")
    model = renumbered(convolutions(*steps, (CONV, 1, 1, "SAME"), height=32, width=16, channels=16))
    request = PlanRequest(file_plan="replace", order="original")
    for core, kernels, ordered in (
        ("cortex-m7", "cmsis-nn", {1, 2}),
        ("cortex-m55", "cmsis-nn", set()),
        ("cortex-m7", "reference", set()),
    ):
        platform = platform_of(replace(load_target(core), kernels=kernels))
        base = plan_memory(model, platform, request)
        found = plan_stripes(model, base, platform, request, Effort(), max_extra_macs=0)
        assert (found is not None) == bool(ordered), core
        if found is None:
            continue
        assert (found.regions, found.step, in_pixel_order(found.model.main)) == ((), "pixel-order", ordered)
        assert base.account is not None
        assert found.plan.account is not None
        # Two tensors at a time, and then one and a few rows.
        assert base.account.head_bytes == 2 * 32 * 16 * 16
        assert found.plan.account.head_bytes < 1.2 * 32 * 16 * 16
        assert not check_layout(found.plan.problem, found.plan.layout)
        assert plan_stripes(model, base, platform, replace(request, overlap=False), Effort(), max_extra_macs=0) is None


@pytest.mark.slow
def test_the_front_has_a_smaller_arena_for_more_work() -> None:
    plans = planner(0.5).front(Effort(), [0.01, 0.1, 0.5])
    assert len(plans) > 1
    for one, other in pairwise(plans):
        assert one.striped.extra_macs < other.striped.extra_macs
        assert one.arena_bytes > other.arena_bytes
    smallest = planner(0.5).smallest(Effort())
    assert smallest is not None
    assert plans[-1].arena_bytes <= smallest.arena_bytes


def test_a_capacity_takes_no_more_work_than_a_point_of_the_front_that_fits() -> None:
    for plan in planner(0.5).front(Effort(), [0.5]):
        found = planner(0.5).leanest(Effort(), plan.arena_bytes)
        assert found is not None
        assert found.arena_bytes <= plan.arena_bytes
        assert found.striped.extra_macs <= plan.striped.extra_macs


@pytest.mark.slow
def test_a_capacity_that_is_too_small_gets_the_smallest_plan() -> None:
    found, smallest = planner(0.5).leanest(Effort(), 1_000), planner(0.5).smallest(Effort())
    assert found is not None
    assert smallest is not None
    assert found.arena_bytes <= smallest.arena_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["kws_ref_model", "pretrainedResnet_quant", pytest.param("vww_96_int8", marks=pytest.mark.slow)]
)
def test_todays_plans_are_those_that_ran(name: str, shared: Path) -> None:
    path = shared / "data" / "models" / "mlperf" / f"{name}.tflite"
    model = read_model(path.read_bytes())
    for row in rows():
        if row["model"] != name or row["core"] != "cortex-m7":
            continue
        assert sha256(path.read_bytes()).hexdigest() == row["sha256"]
        platform = platform_of(replace(load_target("cortex-m7"), kernels=row["kernels"]))
        request = PlanRequest(file_plan="replace")
        first = plan_memory(model, platform, request)
        ordered = renumbered(in_order(model, first.order))
        base = plan_memory(ordered, platform, replace(request, order="original"))
        assert base.account is not None
        percent = float(row["max_extra_macs_percent"])
        found = plan_stripes(ordered, base, platform, request, Effort(), max_extra_macs=percent / 100)
        arena_bytes = base.account.bytes if found is None else found.arena_bytes
        assert arena_bytes <= int(row["arena_bytes"])
