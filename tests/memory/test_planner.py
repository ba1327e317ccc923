"""Plans that edgetool makes: the order and the layout that need the smallest arena, and their reports."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory import planner
from edgetool.memory.account import tflm_layout
from edgetool.memory.checker import check_layout
from edgetool.memory.lifetimes import timeline
from edgetool.memory.planner import PlanRequest, fixed_offsets, plan_memory, renumbered_plan
from edgetool.memory.problem import Effort, Layout, LayoutProblem, never
from edgetool.model.edit import in_order, renumbered, with_metadata
from edgetool.model.metadata import METADATA_NAME, decode_plan, encode_plan, keeps_own_plan
from edgetool.model.types import Metadata, Model
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.graphs import chain, graph, model, operator, tensor
from tests.model.builders import branches_model, residual_model
from tests.pipeline.order_models import tangle


def platform(kernels: str = "reference") -> Platform:
    return platform_of(replace(load_target("cortex-m7"), kernels=kernels))


def test_the_order_that_needs_least_is_found_and_proven() -> None:
    plan = plan_memory(branches_model(), platform(), PlanRequest(overlap=False))
    original = plan_memory(branches_model(), platform(), PlanRequest(order="original", overlap=False))
    assert plan.account is not None
    assert original.account is not None
    assert plan.account.bytes < original.account.bytes - 3000
    assert plan.order_proof != "none"
    assert plan.live_bytes == plan.live_lower_bound == plan.layout.height
    assert plan.moved
    assert sorted(plan.order) == list(range(len(branches_model().main.operators)))
    assert plan.stock == original.stock
    assert original.order == tuple(range(len(plan.order)))
    assert original.live_lower_bound is None


def test_one_operator_that_comes_earlier_counts_as_one_that_moved() -> None:
    plan = plan_memory(chain([8] * 7))
    assert plan.moved == 0
    assert replace(plan, order=(5, 0, 1, 2, 3, 4)).moved == 1


def test_an_order_that_cannot_be_beaten_stays() -> None:
    plan = plan_memory(residual_model(), platform())
    assert plan.moved == 0
    assert plan.order_proof != "none"


def test_an_order_with_more_live_bytes_wins_if_the_arena_is_smaller() -> None:
    # Planning takes the arena here, not the head: less padding between what operators keep saves more of it.
    tensors = [tensor(i, size) for i, size in enumerate((16, 32, 16, 32, 32, 32))]
    steps = (("SOFTMAX", 0, 1), ("RELU", 0, 2), ("SOFTMAX", 1, 3), ("ABS", 2, 4), ("ABS", 1, 5))
    operators = [operator(i, code, [read], [written]) for i, (code, read, written) in enumerate(steps)]
    branched = model(graph(tensors, operators, [0], [3, 4, 5]))
    plans = {
        order: plan_memory(branched, platform("cmsis-nn"), PlanRequest(order=order, overlap=False))  # type: ignore[arg-type]
        for order in ("optimal", "original", "breadth-first", "longest-path")
    }
    best = plans.pop("optimal")
    assert best.account is not None
    assert best.account.peak.when == "planning"
    assert best.account.bytes == min(plan.account.bytes for plan in plans.values() if plan.account is not None)
    assert best.live_lower_bound is not None
    assert best.live_bytes > best.live_lower_bound


@pytest.mark.parametrize("order", ["breadth-first", "longest-path"])
def test_requested_orders_are_used(order: str) -> None:
    plan = plan_memory(branches_model(), platform(), request=PlanRequest(order=order))  # type: ignore[arg-type]
    again = plan_memory(in_order(branches_model(), plan.order), platform(), request=PlanRequest(order="original"))
    assert plan.layout.height == again.layout.height


def test_without_a_build_the_order_is_searched_by_the_tensors_alone() -> None:
    plan = plan_memory(branches_model())
    assert plan.moved
    assert plan.account is None
    assert plan.layout.proof == "bound met"


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_the_layout_is_what_tflm_realises_around_the_fixed_tensors(kernels: str) -> None:
    plan = plan_memory(branches_model(), platform(kernels))
    assert plan.account is not None
    assert plan.layout.offsets == plan.account.layout.offsets
    assert plan.layout.height == plan.account.head_bytes
    assert check_layout(plan.problem, plan.layout) == ()


def test_constants_in_ram_are_buffers_at_their_use() -> None:
    made = model(
        graph(
            [tensor(0, 16), tensor(1, 16, data=bytes(64)), tensor(2, 16), tensor(3, 16)],
            [operator(0, "ADD", [0, 1], [2]), operator(1, "RELU", [2], [3])],
            [0],
            [3],
        )
    )
    plan = plan_memory(made, request=PlanRequest(constants_in_ram=True))
    constants = [buffer for buffer in plan.problem.buffers if buffer.tensor == 1]
    assert [(b.operator, b.lifetime.first, b.lifetime.last) for b in constants] == [(0, 0, 0)]
    assert plan.layout.height == 48
    assert plan.offsets is None
    assert plan.account is None
    assert plan_memory(made).layout.height == 32


def test_a_constant_that_two_operators_use_is_loaded_twice() -> None:
    tensors = [tensor(0, 16), tensor(1, 16, data=bytes(16)), *(tensor(i, 16) for i in (2, 3, 4))]
    operators = [operator(0, "ADD", [0, 1], [2]), operator(1, "RELU", [2], [3]), operator(2, "ADD", [3, 1], [4])]
    plan = plan_memory(model(graph(tensors, operators, [0], [4])), request=PlanRequest(constants_in_ram=True))
    assert [b.operator for b in plan.problem.buffers if b.tensor == 1] == [0, 2]


@pytest.mark.parametrize("sharing", ["greedy", "dynamic-programming"])
def test_shared_buffers_become_a_plan_that_tflm_follows(sharing: str) -> None:
    plan = plan_memory(branches_model(), platform(), request=PlanRequest(sharing=sharing))  # type: ignore[arg-type]
    assert plan.planner == "edgetool"
    assert plan.shared is not None
    assert plan.offsets
    assert check_layout(plan.problem, plan.layout) == ()
    assert (
        plan.layout.height
        >= plan.shared.optimized_bytes
        >= plan.live_bytes - sum(b.aligned_bytes for b in plan.problem.buffers if b.is_scratch)
    )
    places = {plan.offsets[0, plan.problem.buffers[i].tensor] for group in plan.shared.groups for i in group}
    assert len(places) == len(plan.shared.groups)


def test_the_search_for_orders_has_an_effort_of_its_own() -> None:
    asked = []

    def at_once() -> bool:
        asked.append(True)
        return True

    plan = plan_memory(branches_model(), effort=Effort(stop_order=at_once))
    assert asked
    assert plan.layout.proof == "bound met"


@pytest.mark.parametrize("seed", [8, 15])
def test_one_order_with_a_hard_layout_does_not_take_the_time_of_the_others(seed: int) -> None:
    """The first order's layout does not meet the bound, however long it is searched; another order's does at once."""
    questions = iter(range(400))
    effort = Effort(node_limit=None, stop=lambda: next(questions, None) is None, stop_order=never)
    plan = plan_memory(tangle(24, seed), effort=effort)
    assert plan.layout.height == plan.live_lower_bound
    assert next(questions, None) is not None


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second = (plan_memory(branches_model(), platform(), effort=Effort(seed=5)) for _ in range(2))
    assert first.offsets == second.offsets
    assert first.order == second.order


def test_one_operator_has_one_order() -> None:
    plan = plan_memory(chain([8, 8]))
    assert plan.order_proof == "search exhausted"


def unwritten(kind: str) -> Model:
    """A model that reads a tensor before anything is in it: by an operator that stands too early, or as an output."""
    tensors = [tensor(i, size) for i, size in enumerate((16, 160, 32, 48, 64))]
    early, writer, last = operator(0, "RELU", [2], [1]), operator(0, "RELU", [0], [2]), operator(1, "RELU", [0], [3])
    if kind == "operator":
        operators = [early, replace(writer, index=1), replace(last, index=2)]
        return model(graph(tensors, operators, [0], [1, 3]))
    return model(graph(tensors, [writer, last], [0], [2, 3, 4]))


@pytest.mark.parametrize("kind", ["operator", "output"])
def test_what_reads_before_anything_is_written_stays_in_its_order(kind: str) -> None:
    made = unwritten(kind)
    plan = plan_memory(made)
    assert plan.order == tuple(operator.index for operator in made.main.operators)
    assert plan.live_lower_bound is None
    assert plan.order_proof == "none"


def test_no_bound_is_reported_if_tensors_of_a_subgraph_outlive_it() -> None:
    """The IF's branch reads what nothing writes: TFLM keeps room for it from the start, so that the order matters."""
    tensors = [tensor(0, 16), tensor(1, 16), tensor(2, 160), tensor(3, 16)]
    options = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    main = [
        operator(0, "RELU", [0], [1]),
        operator(1, "RELU", [0], [2]),
        operator(2, "IF", [1, 2], [3], "IfOptions", **options),
    ]
    inner = graph([tensor(0, 16), tensor(1, 320)], [operator(0, "ADD", [0, 1], [0])], [0], [0], 1)
    plan = plan_memory(model(graph(tensors, main, [0], [3]), inner))
    assert plan.live_lower_bound is None
    assert plan.order_proof == "none"


def test_a_plan_can_be_renumbered_for_the_file_that_contains_it() -> None:
    build = platform("cmsis-nn")
    plan = plan_memory(branches_model(), build)
    assert plan.offsets
    ordered = in_order(branches_model(), plan.order)
    written = renumbered(with_metadata(ordered, METADATA_NAME, encode_plan(ordered, plan.offsets)))
    reported = renumbered_plan(plan, written, build)
    assert reported.order == tuple(range(len(plan.order)))
    assert reported.layout == plan.layout
    assert reported.account is not None
    assert plan.account is not None
    assert reported.account.bytes == plan.account.bytes
    assert check_layout(reported.problem, reported.layout) == ()
    scratch = [(b.operator, b.lifetime.first) for b in reported.problem.buffers if b.is_scratch]
    assert scratch
    assert all(operator == position for operator, position in scratch)


def test_a_bound_that_the_search_raised_is_not_reported_as_max_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """TFLM's own fit of scratch may reach a bound above max-live that the search alone did not reach."""
    problem = plan_memory(chain([16, 16])).problem
    scratch = replace(problem.buffers[0], tensor=-1, operator=0, lifetime=problem.buffers[1].lifetime)
    several = LayoutProblem((*problem.buffers, scratch, replace(scratch, size_bytes=32)))
    realised = tflm_layout(several)

    def unproven(given: LayoutProblem, *args: object, **options: object) -> Layout:
        return replace(realised, height=realised.height + 16, lower_bound=bound, proof="none")

    monkeypatch.setattr(planner, "solve", unproven)
    monkeypatch.setattr(planner, "tflm_layout", lambda *given: replace(realised, lower_bound=live))
    live, bound = realised.height, realised.height
    assert planner.place_tensors(chain([16, 16]), several, Effort())[1].proof == "bound met"
    live = realised.height - 16
    layout = planner.place_tensors(chain([16, 16]), several, Effort())[1]
    assert (layout.proof, layout.lower_bound) == ("search exhausted", bound)


def with_plan(small: Model, *payloads: bytes) -> Model:
    return replace(small, metadata=tuple(Metadata(METADATA_NAME, payload, 0) for payload in payloads))


def test_plan_is_the_format_that_tflm_reads() -> None:
    tensors = [tensor(0, 16), tensor(1, 16, data=bytes(16)), tensor(2, 32), tensor(3, 8, variable=True)]
    small = model(graph(tensors, [operator(0, "ADD", [0, 1, 3], [2])], [0], [2]))
    plan = plan_memory(small)
    words = struct.unpack("<7i", encode_plan(small, plan.offsets or {}))
    assert words[:3] == (1, 1, 4)
    assert words[4] == words[6] == -1
    assert sorted((words[3], words[5])) == [0, 32]


def test_written_plan_reads_back() -> None:
    small = chain([64, 128, 64])
    plan = plan_memory(small)
    payload = encode_plan(small, plan.offsets or {})
    offsets = decode_plan(with_plan(small, payload))
    assert offsets == {(0, b.tensor): o for b, o in zip(plan.problem.buffers, plan.layout.offsets, strict=True)}
    assert decode_plan(small) is None


def test_the_last_plan_counts() -> None:
    small = chain([64, 128])
    first, last = (struct.pack("<5i", 1, 1, 2, *offsets) for offsets in ((0, 64), (128, 0)))
    assert decode_plan(with_plan(small, first, last)) == {(0, 0): 128, (0, 1): 0}


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0" * 11, struct.pack("<3i", 1, 1, 2), struct.pack("<4i", 1, 1, 2, 0), struct.pack("<5i", 1, 1, 3, 0, 0)],
)
def test_a_plan_that_does_not_fit_the_model_is_refused(payload: bytes) -> None:
    good = struct.pack("<5i", 1, 1, 2, 0, 64)
    for payloads in ([payload], [payload, good], [good, payload]):
        with pytest.raises(InvalidModelError, match="offsets"):
            decode_plan(with_plan(chain([64, 128]), *payloads))


def test_a_layout_beyond_32_bits_has_no_plan() -> None:
    small = chain([2**31, 64])
    plan = plan_memory(small)
    with pytest.raises(UnsupportedModelError, match="32-bit"):
        encode_plan(small, plan.offsets or {})


def test_fixed_offsets_are_those_of_a_sound_plan() -> None:
    small = chain([64, 128, 64])
    assert fixed_offsets(small, timeline(small)) == {}
    partial = with_plan(small, struct.pack("<6i", 1, 1, 3, 0, 64, -1))
    assert fixed_offsets(partial, timeline(partial)) == {(0, 0): 0, (0, 1): 64}


def compiled(*offsets: int) -> Model:
    """A model whose only operator is a command stream, with a plan."""
    op = replace(operator(0, "CUSTOM", [0, 1], [2]), custom_code="ethos-u")
    small = model(graph([tensor(0, 64), tensor(1, 128), tensor(2, 16)], [op], [0], [2]))
    return with_plan(small, struct.pack("<6i", 1, 1, 3, *offsets))


def test_a_plan_that_compiled_operators_rely_on_is_kept() -> None:
    vendor = compiled(0, 0, 64)
    plan = plan_memory(vendor)
    assert (plan.layout.offsets, plan.layout.height) == ((0, 0, 64), 128)
    with pytest.raises(UnsupportedModelError, match="ethos-u"):
        encode_plan(vendor, plan.offsets or {})
    assert not keeps_own_plan(replace(vendor, metadata=()))
    with pytest.raises(InvalidModelError, match="is at 8"):
        plan_memory(compiled(0, 8, 64))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ((0, 48, -1), r"tensor 0 \('t0'\) and tensor 1 \('t1'\) overlap"),
        ((0, 72, -1), r"tensor 1 \('t1'\) is at 72, which is not a multiple of 16"),
        ((0, 64, -32), r"tensor 2 \('t2'\) is at -32, before the start of the arena"),
    ],
)
def test_an_unsafe_plan_is_refused_by_name(offsets: tuple[int, ...], message: str) -> None:
    small = chain([64, 128, 64])
    unsafe = with_plan(small, struct.pack("<6i", 1, 1, 3, *offsets))
    with pytest.raises(InvalidModelError, match=message):
        fixed_offsets(unsafe, timeline(unsafe))


def test_a_refusal_names_tensors_in_short() -> None:
    small = chain([64, 128])
    fused = tuple(replace(item, name=f"layer{item.index}/Relu;" + "x" * 300) for item in small.main.tensors)
    long = replace(small, subgraphs=(replace(small.main, tensors=fused),))
    unsafe = with_plan(long, struct.pack("<5i", 1, 1, 2, 0, 0))
    with pytest.raises(InvalidModelError, match=r"tensor 0 \('layer0/Relu'\) and tensor 1 \('layer1/Relu'\) overlap"):
        fixed_offsets(unsafe, timeline(unsafe))


def test_a_plan_in_the_file_is_used_and_replaced_on_request() -> None:
    small = chain([64, 128, 64])
    wasteful = with_plan(small, struct.pack("<6i", 1, 1, 3, 1024, 64, -1))
    kept = plan_memory(wasteful)
    assert (kept.planner, kept.offsets, kept.layout.offsets) == ("file", {(0, 0): 1024, (0, 1): 64}, (1024, 64, 0))
    anew = plan_memory(wasteful, request=PlanRequest(file_plan="replace"))
    assert (anew.planner, anew.layout.height) == ("edgetool", 192)
    left = plan_memory(small, request=PlanRequest(file_plan="only"))
    assert (left.planner, left.offsets) == ("runtime", None)


def with_variable(*offsets: int) -> Model:
    """RELU, then ADD with a variable; the variable is tensor 2."""
    tensors = [tensor(0, 16), tensor(1, 16), tensor(2, 16, variable=True), tensor(3, 16)]
    operators = [operator(0, "RELU", [0], [1]), operator(1, "ADD", [1, 2], [3])]
    return with_plan(model(graph(tensors, operators, [0], [3])), struct.pack("<7i", 1, 1, 4, *offsets))


def test_a_variable_may_lie_in_the_head_only_apart_from_everything() -> None:
    apart = with_variable(0, 16, 32, 0)
    assert fixed_offsets(apart, timeline(apart))[0, 2] == 32
    # The input is dead when the variable is first used, but the variable outlives the run.
    shared = with_variable(0, 16, 0, 32)
    with pytest.raises(InvalidModelError, match="overlap"):
        fixed_offsets(shared, timeline(shared))


def two_subgraphs(*offsets: int) -> Model:
    """CALL_ONCE of a subgraph whose tensor 0 is a variable."""
    call = operator(0, "CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=1)
    main = graph([tensor(0, 16), tensor(1, 16)], [call, operator(1, "RELU", [0], [1])], [0], [1])
    called = graph([tensor(0, 16, variable=True), tensor(1, 16)], [operator(0, "RELU", [0], [1])], [], [], index=1)
    return with_plan(model(main, called), struct.pack("<7i", 1, 2, 4, *offsets))


def test_a_variable_of_a_later_subgraph_keeps_its_memory() -> None:
    # TFLM looks for its offset at the place of the main graph's tensor 0.
    robbed = two_subgraphs(0, 16, -1, -1)
    with pytest.raises(InvalidModelError, match="would get no memory"):
        fixed_offsets(robbed, timeline(robbed))
    plan = plan_memory(robbed, request=PlanRequest(file_plan="replace"))
    assert plan.offsets is not None
    assert (0, 0) not in plan.offsets
