from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.lifetimes import timeline
from edgetool.memory.planner import fixed_offsets, plan_memory
from edgetool.model.metadata import METADATA_NAME, decode_plan, encode_plan, keeps_own_plan
from edgetool.model.types import Metadata, Model
from tests.graphs import chain, graph, model, operator, tensor


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


def test_a_plan_in_the_file_is_honoured_and_made_anew_on_demand() -> None:
    small = chain([64, 128, 64])
    wasteful = with_plan(small, struct.pack("<6i", 1, 1, 3, 1024, 64, -1))
    kept = plan_memory(wasteful)
    assert (kept.planner, kept.offsets, kept.layout.offsets) == ("file", {(0, 0): 1024, (0, 1): 64}, (1024, 64, 0))
    anew = plan_memory(wasteful, wanted="anew")
    assert (anew.planner, anew.layout.height) == ("edgetool", 192)
    left = plan_memory(small, wanted="as in file")
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
    plan = plan_memory(robbed, wanted="anew")
    assert plan.offsets is not None
    assert (0, 0) not in plan.offsets
