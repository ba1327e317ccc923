"""The memories of head, tail and model, as the user names them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import TargetError, UsageError
from edgetool.target.load import load_target
from edgetool.target.native_places import read_native_places
from edgetool.target.places import KINDS, OF_NATIVE_CODE, possible_places, read_places, split_code

BOARD = load_target("nucleo-h743zi2")


def test_the_model_is_in_flash_unless_it_is_placed() -> None:
    places = read_places("head=dtcm, tail = d2-sram", BOARD)
    assert {part: region.name for part, region in places.by_part.items()} == {
        "head": "dtcm",
        "tail": "d2-sram",
        "model": "flash",
    }
    assert read_places("tail=dtcm,model=axi-sram,head=dtcm", BOARD).by_part["model"].name == "axi-sram"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a placement"),
        ("dtcm", "is not a placement"),
        ("head=", "is not a placement"),
        ("head=dtcm,tail=dtcm,code=itcm", "'code=itcm' is not a placement"),
        ("head=dtcm,head=axi-sram,tail=dtcm", "head is placed twice"),
        ("head=dtcm", "there is no memory for the tail"),
        ("auto,head=dtcm", "auto chooses all memories, so that nothing can be added to it"),
        ("auto,minimize=dtcm", "minimize is for native code, .*; add --runtime native"),
        ("arena=dtcm+axi-sram", "arena is for native code"),
        ("tail=dtcm,model=flash", "there is no memory for the head"),
    ],
)
def test_other_forms_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_places(text, BOARD)


def test_unknown_and_unsuitable_memories_are_refused() -> None:
    with pytest.raises(TargetError, match="did you mean 'dtcm'"):
        read_places("head=dtmc,tail=dtcm", BOARD)
    with pytest.raises(TargetError, match="the tail cannot be in itcm"):
        read_places("head=dtcm,tail=itcm", BOARD)
    with pytest.raises(TargetError, match="has no memory for the head"):
        read_places("head=dtcm,tail=dtcm", load_target("cortex-m7"))


@given(st.text(alphabet="headtilmo=,dcm- \n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        places = read_places(text, BOARD)
    except UsageError:
        return
    assert all(region.kind in KINDS[part] for part, region in places.by_part.items())


def test_possible_places_begin_with_those_of_a_single_arena() -> None:
    places = list(possible_places(BOARD))
    assert {part: region.name for part, region in places[0].by_part.items()} == {
        "head": "axi-sram",
        "tail": "axi-sram",
        "model": "flash",
    }
    arenas = {"axi-sram", "dtcm", "d2-sram", "d3-sram"}
    assert {(item.head.name, item.tail.name) for item in places} == {(a, b) for a in arenas for b in arenas}
    with pytest.raises(TargetError, match="no memory for the head"):
        list(possible_places(load_target("cortex-m7")))


def test_a_target_has_its_arena_and_its_model_in_the_places() -> None:
    places = read_places("head=dtcm,tail=axi-sram,model=d2-sram", BOARD)
    placed = places.on(BOARD)
    assert placed.arena_region is not None
    assert placed.flash_region is not None
    assert (placed.arena_region.name, placed.flash_region.name) == ("dtcm", "d2-sram")
    assert placed.code_region == BOARD.code_region == BOARD.flash_region
    assert places.copies_model
    assert BOARD.is_calibrated
    assert not placed.is_calibrated  # the timing was measured with the model in flash
    assert read_places("head=dtcm,tail=axi-sram", BOARD).on(BOARD).is_calibrated


def test_the_memory_of_code_is_read_apart() -> None:
    for text, rest in (("head=dtcm, code = itcm ,tail=dtcm", "head=dtcm,tail=dtcm"), ("code=itcm", "auto")):
        found, region = split_code(text, BOARD)
        assert region is not None
        assert (found, region.name) == (rest, "itcm")
    assert split_code("head=dtcm,tail=dtcm", BOARD) == ("head=dtcm,tail=dtcm", None)
    with pytest.raises(UsageError, match="code is placed twice"):
        split_code("code=itcm,code=dtcm", BOARD)
    with pytest.raises(UsageError, match="'code' is not a placement"):
        split_code("auto,code", BOARD)
    with pytest.raises(TargetError, match="did you mean 'itcm'"):
        split_code("code=itmc", BOARD)
    native = read_native_places("auto,code=itcm", BOARD)
    assert native.code is not None
    assert native.code.name == "itcm"


@pytest.mark.parametrize("key", OF_NATIVE_CODE)
def test_items_of_native_code_are_those_that_it_reads(key: str) -> None:
    kind = "flash" if key == "constants" else "sram"
    region = next(region.name for region in BOARD.regions if region.kind == kind)
    places = read_native_places(f"{key}={region}", BOARD)
    assert places.tensors == {}
