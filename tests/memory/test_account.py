"""Account of models that TFLM rejects, and of kernels that edgetool does not know.

For every operator and tensor that is not what its kernel expects, the account rejects it or counts it, and never fails.

The account against real TFLM: the `tflite-micro` package, x86-64 with reference kernels.

Its recording interpreter prints every category of its arena; the smallest arena is found by trying.

The account of an arena that several models share, against the account of each model.

The account of shared arenas against real TFLM on emulated Cortex-M7, M4 and M55.

shared_arena_measured.csv: models allocated one after the other by one MicroAllocator (tflite-micro 90b983c2), the
bytes that arena_used_bytes() gave then, and the smallest arena, of multiples of 16, in which all of them allocated and
each gave the outputs that it gives alone, twice in turn. "own" models are those of account_models.py.

separate_arenas_measured.csv: models whose head and tail are separate arenas (the same commit, built with
arm-none-eabi-gcc 12.2 -O1 -DNDEBUG), the bytes that arena_used_bytes() gave, and the smallest arenas, multiples of 16,
in which every allocation succeeded. In these, each model gave the outputs that it gives in large arenas; with 16 bytes
less of either, an allocation failed.
"""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import UnsupportedModelError
from edgetool.execute.run import measure_tflm
from edgetool.memory.account import (
    ArenaAccount,
    Offsets,
    SharedAccount,
    Tenant,
    account_model,
    account_separate,
    account_shared,
)
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.problem import ARENA_ALIGNMENT, aligned
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Tensor
from edgetool.model.writer import write_model
from edgetool.operators.described import describe_operators
from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS
from edgetool.pipeline.planning import planned_source
from edgetool.pipeline.source import Source
from edgetool.pipeline.targets import resolve_named
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.conftest import examples
from tests.execute.many_arenas import Arena, measure_arenas
from tests.memory.account_models import MODELS
from tests.memory.account_net import Net
from tests.memory.account_structures import many_requests, variables
from tests.model.builders import branches_model, chain_model, conv_model, dense_model, residual_model, unary_model

BUILD = platform_of(load_target("cortex-m7"))


def scratch_in_a_second_graph(*, called: bool) -> Model:
    """A mean, which needs scratch, in a subgraph that IF runs or nothing does."""
    net = Net(1)
    flag, x, y = (
        net.arena(1, dtype=DType.BOOL),
        net.arena(1, 4, 3, dtype=DType.FLOAT32),
        net.arena(3, dtype=DType.FLOAT32),
    )
    if called:
        net.give("IF", [flag, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    net.end_graph([flag, x], [y if called else x])
    x = net.arena(1, 4, 3, dtype=DType.FLOAT32)
    net.end_graph([x], [net.op("MEAN", [x, net.constant([0, 1])], 3, keep_dims=False)])
    return net.whole()


def with_a_tensor_of(dtype: DType) -> Model:
    """An operator, and a tensor that nothing uses."""
    net = Net(2)
    x = net.arena(4, dtype=DType.FLOAT32)
    net.tensor((4,), dtype)
    return net.model([x], [net.op("ABS", [x])])


def with_an_intermediate(size: int) -> Model:
    """An operator with an intermediate tensor of so many elements."""
    net = Net(3)
    x = net.arena(4, dtype=DType.FLOAT32)
    y, between = net.op("ABS", [x]), net.arena(size)
    net.operators[0] = replace(net.operators[0], intermediates=(between,))
    return net.model([x], [y])


def refusals(model: Model) -> list[str | None]:
    account = account_model(model, BUILD)
    assert account.is_lower_bound == bool(account.unaccounted)
    return [item.refusal for item in account.unaccounted]


def test_scratch_in_a_subgraph_that_nothing_runs_is_refused() -> None:
    assert refusals(scratch_in_a_second_graph(called=True)) == []
    assert refusals(scratch_in_a_second_graph(called=False)) == [
        "MEAN requests a scratch buffer in a subgraph that is never run"
    ]


@pytest.mark.parametrize("dtype", [DType.STRING, DType.VARIANT, DType.INT2, DType.UINT4])
def test_a_type_without_a_size_is_refused(dtype: DType) -> None:
    assert refusals(with_a_tensor_of(dtype)) == [f"TFLM defines no size for the type {dtype.name.lower()}"]


def test_an_intermediate_that_is_not_empty_is_refused() -> None:
    assert refusals(with_an_intermediate(0)) == []
    assert refusals(with_an_intermediate(3)) == ["ABS has an intermediate tensor that is not empty"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        scratch_in_a_second_graph(called=True),
        with_a_tensor_of(DType.UINT4),
        with_a_tensor_of(DType.UINT16),
        with_an_intermediate(0),
        with_an_intermediate(3),
    ],
    ids=["scratch", "uint4", "uint16", "no intermediate", "intermediate"],
)
def test_real_tflm_agrees(model: Model) -> None:
    pytest.importorskip("tflite_micro")
    try:
        allocation = measure_tflm(write_model(model))
    except UnsupportedModelError:
        assert refusals(model)
    else:
        assert not refusals(model)
        assert allocation.total > 0


def test_persistent_buffers_of_unknown_kernels_are_not_assumed_to_overlap_temporaries() -> None:
    """The kernel may read the zero points of its last temporary tensor until Prepare ends."""
    net, channels = Net(4), 500
    weights = net.noise(channels, 2, axis=0)
    x = net.arena(4)
    y = net.arena(4)
    net.custom("MyOp", [x, weights], [y])
    text = {"name": "MyOp", "persistent": [4096], "temporary_inputs": [0, 1]}
    custom, problems = describe_operators({"operator": [text]})
    assert problems == []
    account = account_model(net.model([x], [y]), BUILD, custom=custom)
    (peak,) = [peak for peak in account.peaks if peak.operator is not None]
    table = BUILD.size_of("ScratchBufferRequest") * 12
    structs = BUILD.size_of("TfLiteTensor") + BUILD.size_of("TfLiteAffineQuantization")
    zero_points = 4 * (1 + 1) + 4 * (1 + channels)
    assert peak.head_bytes == table + 2 * structs + zero_points


# Large models repeat what small ones have.
MAX_OPERATORS = 25
BUILDS = [
    platform_of(load_target("cortex-m7").with_overrides(kernels="reference")),
    platform_of(load_target("cortex-m55")),
    platform_of(load_target("cortex-m0plus")),
]
NOT_A_SCALE = Quantization((float("nan"),), (2**40,), 7)


def damaged_operators(operator: Operator) -> Iterator[Operator]:
    yield replace(operator, options=None, custom_options=None)
    yield replace(operator, inputs=())
    yield replace(operator, outputs=())
    yield replace(operator, inputs=operator.inputs * 3, outputs=operator.outputs * 2)
    for position in range(len(operator.inputs)):
        yield replace(operator, inputs=operator.inputs[:position])
        yield replace(operator, inputs=(*operator.inputs[:position], -1, *operator.inputs[position + 1 :]))


def damaged_tensors(tensor: Tensor) -> Iterator[Tensor]:
    for shape in ((), (0,), (-1, -1), (2**31 - 1, 3), (1, 2, 3, 4, 5, 6, 7), tensor.shape[1:], (*tensor.shape, 2)):
        yield replace(tensor, shape=shape)
    for dtype in (DType.FLOAT32, DType.INT8, DType.INT4, DType.INT64, DType.BOOL, DType.STRING, DType.RESOURCE):
        yield replace(tensor, dtype=dtype)
    for quantization in (None, Quantization((), (), 0), Quantization((0.5,) * 3, (1, 2, 3), 1), NOT_A_SCALE):
        yield replace(tensor, quantization=quantization)
    for data in (None, b"\xff", b"\xff" * 64):
        yield replace(tensor, data=data)
    yield replace(tensor, is_variable=not tensor.is_variable)


def damaged(model: Model) -> Iterator[Model]:
    for graph in model.subgraphs:
        for operator in graph.operators:
            for other in damaged_operators(operator):
                yield _with(model, graph, operators=_replaced(graph.operators, operator.index, other))
        for tensor in graph.tensors:
            for changed in damaged_tensors(tensor):
                yield _with(model, graph, tensors=_replaced(graph.tensors, tensor.index, changed))


def _replaced(items: tuple[object, ...], index: int, item: object) -> tuple[object, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _with(model: Model, graph: Graph, **changes: object) -> Model:
    changed = replace(graph, **changes)  # type: ignore[arg-type]
    subgraphs = tuple(changed if other is graph else other for other in model.subgraphs)
    return replace(model, subgraphs=subgraphs)


def _small(model: Model) -> bool:
    return sum(len(graph.operators) for graph in model.subgraphs) <= MAX_OPERATORS


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name, make in MODELS.items() if _small(make())])
def test_damage_is_refused_or_accounted_for(name: str, step: int) -> None:
    model = MODELS[name]()
    refused = 0
    for index, mutant in islice(enumerate(damaged(model)), 0, None, step):
        try:
            account = account_model(mutant, BUILDS[index % len(BUILDS)])
        except UnsupportedModelError:
            continue
        refused += account.is_lower_bound
        assert account.bytes >= 0
    assert refused > 0


# Operators of the registry that no model of ours holds, and why.
NOT_IN_A_MODEL: dict[str, str] = {}
PLANS = ("none", "ours", "odd")
# One model of four is measured by the quick tests. How verify measures real models with a plan of ours is one as well.
QUICK_MODELS = list(MODELS)[::4]
CASES = [
    pytest.param(name, plan, marks=() if plan == "none" and name in QUICK_MODELS else pytest.mark.slow)
    for plan in PLANS
    for name in MODELS
]


@dataclass(frozen=True, slots=True)
class Case:
    """A file, what the account says of it, and what TFLM did."""

    account: ArenaAccount
    arena: Arena


def test_the_models_hold_every_operator_that_the_account_knows() -> None:
    held = {op.label for make in MODELS.values() for graph in make().subgraphs for op in graph.operators}
    accounted = {code for code, entry in OPERATORS.items() if entry.prepare is not None}
    assert {*accounted, *CUSTOM_OPERATORS} - held == NOT_IN_A_MODEL.keys()
    assert len(MODELS) >= 40


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Case]:
    """What TFLM did with a model under a plan: those of the quick tests are measured at once, and all others."""
    pytest.importorskip("tflite_micro")
    if not hasattr(os, "fork"):
        pytest.skip("measuring arenas needs fork()")

    @cache
    def measured(plan: str, names: tuple[str, ...]) -> dict[str, Case]:
        files = [_file(name, MODELS[name](), plan) for name in names]
        arenas = measure_arenas([blob for blob, _ in files], tmp_path_factory.mktemp("arenas"))
        return {name: Case(account, arena) for name, (_, account), arena in zip(names, files, arenas, strict=True)}

    def case(name: str, plan: str) -> Case:
        is_quick = name in QUICK_MODELS
        return measured(plan, tuple(item for item in MODELS if (item in QUICK_MODELS) is is_quick))[name]

    return case


def _file(name: str, model: Model, plan: str) -> tuple[bytes, ArenaAccount]:
    """The file with the plan in it, and its account. What is read back is what the account is made of."""
    source = Source(name, write_model(model), model)
    host = load_target("x86-64")
    build = platform_of(host)
    if plan == "ours":
        source = planned_source(source, plan_memory(model, build), host)
    elif plan == "odd":
        odd = with_metadata(model, METADATA_NAME, encode_plan(model, _odd_plan(model)))
        source = Source(name, write_model(odd), odd)
    account = plan_memory(read_model(source.blob), build, request=PlanRequest(file_plan="only")).account
    assert account is not None
    return source.blob, account


def _odd_plan(model: Model) -> Offsets:
    """Two of three tensors, further up than TFLM would put them; variables on top of all; words for constants, too.

    A common distance keeps the fixed ones apart; the others and scratch go where there is room.
    """
    stock = account_model(model, platform_of(load_target("x86-64")))
    offsets = {
        (buffer.subgraph, buffer.tensor): offset + 3 * ARENA_ALIGNMENT
        for index, (buffer, offset) in enumerate(zip(stock.problem.buffers, stock.layout.offsets, strict=True))
        if not buffer.is_scratch and index % 3 != 1
    }
    top = aligned(stock.head_bytes) + 7 * ARENA_ALIGNMENT
    for tensor in model.main.tensors:
        if tensor.is_constant:
            offsets[0, tensor.index] = 16
        elif tensor.is_variable:
            offsets[0, tensor.index] = top
            top += aligned(tensor.size_bytes)
    return offsets


@pytest.mark.parametrize(("name", "plan"), CASES)
def test_the_account_is_what_tflm_reports(cases: Callable[[str, str], Case], name: str, plan: str) -> None:
    account, arena = cases(name, plan).account, cases(name, plan).arena
    assert account.unaccounted == ()
    assert arena.allocation is not None, arena.refusal
    measured = arena.allocation
    assert (account.used_bytes, account.head_bytes, account.tail_bytes) == (
        measured.total,
        measured.head,
        measured.tail,
    )
    own = {name: (part.used_bytes, part.requested_bytes, part.count) for name, part in account.categories.items()}
    printed = {part.name: (part.used_bytes, part.requested_bytes, part.count) for part in measured.categories}
    assert {name: figures for name, figures in own.items() if any(figures[:2])} == printed


@pytest.mark.parametrize(("name", "plan"), CASES)
def test_the_smallest_arena_is_the_one_found_by_trying(cases: Callable[[str, str], Case], name: str, plan: str) -> None:
    assert cases(name, plan).account.bytes == cases(name, plan).arena.smallest


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_plan_changes_no_output(cases: Callable[[str, str], Case], name: str) -> None:
    outputs = {cases(name, plan).arena.outputs for plan in PLANS}
    assert len(outputs) == 1


@pytest.mark.slow
def test_the_plans_differ(cases: Callable[[str, str], Case]) -> None:
    """What was measured: files that TFLM lays out otherwise than without a plan, some lower and some higher."""
    heads = {plan: [cases(name, plan).account.layout.offsets for name in MODELS] for plan in PLANS}
    assert sum(a != b for a, b in zip(heads["none"], heads["ours"], strict=True)) >= 3
    assert sum(a != b for a, b in zip(heads["none"], heads["odd"], strict=True)) >= len(MODELS) / 2


# What MicroAllocator::Create takes of a new arena, on 32-bit Arm.
ALLOCATORS = 36 + 44 + 36


def random_model(seed: int) -> Model:
    """A few layers with scratch, persistent data and variables, or a chain whose planning takes more than its run."""
    choice = random.Random(seed)
    if choice.random() < 0.2:
        return chain_model(choice.randrange(1, 25))
    net = Net(seed)
    layers: list[Callable[[int], int]] = [
        lambda x: net.conv(x, choice.randrange(1, 30)),
        net.depthwise,
        lambda x: net.op("ABS", [x]),
    ]
    first = x = net.activation([1, choice.randrange(1, 9), choice.randrange(2, 9), choice.randrange(1, 9)])
    for _ in range(choice.randrange(4)):
        x = choice.choice(layers)(x)
    if choice.random() < 0.5:
        x = net.op("MEAN", [x, net.constant([1, 2])], 1, net.tensors[x].shape[3], keep_dims=False)
    if choice.random() < 0.3:
        net.arena(choice.randrange(1, 100), is_variable=True)
    return net.model([first], [x])


models = st.integers(0, 10_000).map(random_model)


def shared(*given_models: Model, build: Platform = BUILD) -> SharedAccount:
    return account_shared([Tenant(model) for model in given_models], build)


@given(models)
@examples(30)
def test_one_model_has_its_own_account(model: Model) -> None:
    together, alone = shared(model), account_model(model, BUILD)
    assert (together.bytes, together.used_bytes) == (alone.bytes, alone.used_bytes)
    assert (together.head_bytes, together.tail_bytes) == (alone.head_bytes, alone.tail_bytes)


@given(st.lists(models, min_size=2, max_size=4))
@examples(60)
def test_a_shared_arena_is_between_the_largest_arena_and_the_sum(several: list[Model]) -> None:
    together, alone = shared(*several), [account_model(model, BUILD) for model in several]
    assert max(account.bytes for account in alone) <= together.bytes <= sum(account.bytes for account in alone)
    assert together.bytes >= aligned(together.used_bytes)
    assert together.head_bytes == max(account.head_bytes for account in alone)
    assert [part.head_bytes for part in together.parts] == [account.head_bytes for account in alone]


@given(st.lists(models, min_size=2, max_size=4))
@examples(60)
def test_tails_add_up_but_for_the_allocators_and_the_alignment(several: list[Model]) -> None:
    together, alone = shared(*several), [account_model(model, BUILD) for model in several]
    assert together.tail_bytes == sum(part.tail_bytes for part in together.parts)
    assert together.parts[0].tail_bytes == alone[0].tail_bytes
    for part, account in zip(together.parts[1:], alone[1:], strict=True):
        assert abs(part.tail_bytes - (account.tail_bytes - ALLOCATORS)) < 16


@given(st.lists(models, min_size=2, max_size=4))
@examples(30)
def test_the_best_order_is_the_best_of_all(several: list[Model]) -> None:
    together = shared(*several)
    figures = {
        order: shared(*(several[position] for position in order)).bytes for order in permutations(range(len(several)))
    }
    assert together.best_bytes == min(figures.values()) == figures[together.best_order]
    if together.bytes == together.best_bytes:
        assert together.best_order == tuple(range(len(several)))


@given(st.lists(models, min_size=6, max_size=8))
@settings(max_examples=15)
def test_an_order_of_many_models_needs_the_reported_arena(several: list[Model]) -> None:
    together = shared(*several)
    assert sorted(together.best_order) == list(range(len(several)))
    assert together.best_bytes == shared(*(several[position] for position in together.best_order)).bytes
    assert together.best_bytes <= together.bytes


@pytest.mark.parametrize("target", ["cortex-m7", "cortex-m55", "cortex-m0plus"])
def test_a_model_is_listed_over_the_head_of_those_before_it(target: str) -> None:
    """The long chain's list of allocations meets the tail of the large model, not its head."""
    build = platform_of(load_target(target))
    large, chain = conv_model(), chain_model(60)
    together = shared(large, chain, build=build)
    alone = [account_model(model, build) for model in (large, chain)]
    assert together.peak_model == 1
    assert together.peak.when == "planning"
    assert together.peak.head_bytes == alone[1].peak.head_bytes
    assert together.bytes - alone[1].bytes <= alone[0].tail_bytes - ALLOCATORS + 16


def test_the_long_chain_comes_first_in_the_best_order() -> None:
    together = shared(conv_model(), chain_model(60))
    assert together.best_order == (1, 0)
    assert together.best_bytes < together.bytes


def test_the_peak_in_invoke_has_no_model() -> None:
    together = shared(residual_model(), branches_model())
    assert (together.peak.when, together.peak_model) == ("Invoke", None)
    assert together.bytes == aligned(together.used_bytes)
    assert not together.is_lower_bound


@pytest.mark.parametrize("first", [variables, many_requests])
def test_what_a_model_persists_stays_with_it(first: Callable[[], Model]) -> None:
    alone = account_model(first(), BUILD)
    together = shared(first(), dense_model())
    assert together.parts[0].tail_bytes == alone.tail_bytes
    last = shared(dense_model(), first())
    assert abs(last.parts[1].tail_bytes - (alone.tail_bytes - ALLOCATORS)) < 16


def test_an_operator_without_a_rule_makes_it_a_lower_bound() -> None:
    together = shared(conv_model(), unary_model("GELU"))
    assert together.is_lower_bound
    assert [bool(part.unaccounted) for part in together.parts] == [False, True]


def test_the_plan_in_a_file_counts() -> None:
    model = random_model(1)
    plan = plan_memory(model, BUILD, request=PlanRequest(file_plan="replace"))
    offsets = {(0, buffer.tensor): 4096 for buffer in plan.problem.buffers if not buffer.is_scratch}
    together = account_shared([Tenant(model, offsets), Tenant(dense_model())], BUILD)
    assert together.head_bytes == account_model(model, BUILD, offsets=offsets).head_bytes > 4096


def test_no_model_is_an_error() -> None:
    with pytest.raises(ValueError, match="no model"):
        account_shared([], BUILD)


MEASURED = Path(__file__).parent / "shared_arena_measured.csv"


def rows(origin: str, measured: Path = MEASURED) -> list[dict[str, str]]:
    with measured.open(encoding="ascii", newline="") as file:
        return [row for row in csv.DictReader(file) if row["origin"] == origin]


@cache
def model_of(path: Path | None, name: str) -> Model:
    return read_model(write_model(MODELS[name]()) if path is None else (path / f"{name}.tflite").read_bytes())


def check(row: dict[str, str], path: Path | None) -> None:
    platform = platform_of(resolve_named(row["core"], kernels=row["kernels"]))
    tenants = []
    for name in row["models"].split(" + "):
        model = model_of(path, name)
        tenants.append(Tenant(model, plan_memory(model, platform, request=PlanRequest(file_plan="only")).offsets))
    account = account_shared(tenants, platform)
    assert not account.is_lower_bound
    figures = (account.used_bytes, account.head_bytes, account.bytes)
    assert figures == tuple(int(row[key]) for key in ("used_bytes", "head_bytes", "smallest_arena_bytes"))


def test_there_are_enough_cases() -> None:
    own, real = rows("own"), rows("real")
    assert len(own) >= 60
    assert len(real) >= 40
    assert sum(row["models"].count(" + ") == 2 for row in own + real) >= 20


@pytest.mark.parametrize("row", rows("own"), ids=lambda row: f"{row['core']}-{row['kernels']}-{row['models']}")
def test_synthetic_models(row: dict[str, str]) -> None:
    check(row, None)


@pytest.mark.parametrize("row", rows("real"), ids=lambda row: f"{row['core']}-{row['kernels']}-{row['models']}")
def test_real_models(row: dict[str, str], shared: Path) -> None:
    check(row, shared / "data" / "models")


SEPARATE = MEASURED.with_name("separate_arenas_measured.csv")


def check_separate(row: dict[str, str], path: Path | None) -> None:
    platform = platform_of(resolve_named(row["core"], kernels=row["kernels"]))
    separate = account_separate(model_of(path, row["model"]), platform)
    assert not separate.account.is_lower_bound
    figures = (separate.account.used_bytes, separate.head_arena_bytes, separate.tail_arena_bytes)
    assert figures == tuple(int(row[key]) for key in ("used_bytes", "head_arena_bytes", "tail_arena_bytes"))


def test_there_are_enough_separate_arenas() -> None:
    assert len(rows("own", SEPARATE)) >= 90
    assert len(rows("real", SEPARATE)) >= 150


@pytest.mark.parametrize("row", rows("own", SEPARATE), ids=lambda row: f"{row['core']}-{row['kernels']}-{row['model']}")
def test_separate_arenas_of_synthetic_models(row: dict[str, str]) -> None:
    check_separate(row, None)


@pytest.mark.parametrize(
    "row", rows("real", SEPARATE), ids=lambda row: f"{row['core']}-{row['kernels']}-{row['model']}"
)
def test_separate_arenas_of_real_models(row: dict[str, str], shared: Path) -> None:
    check_separate(row, shared / "data" / "models")


@given(st.sampled_from(sorted(MODELS)))
def test_separate_arenas_hold_the_same_head(name: str) -> None:
    model = model_of(None, name)
    one, separate = account_model(model, BUILD), account_separate(model, BUILD)
    assert separate.account.layout == one.layout
    assert separate.head_arena_bytes >= one.head_bytes
    assert separate.head_peak in separate.account.peaks
    assert separate.head_arena_bytes + separate.tail_arena_bytes >= separate.account.used_bytes
