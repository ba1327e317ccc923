"""The memories of head, tail and model, as the user names them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import TargetError, UsageError
from edgetool.target.load import load_target
from edgetool.target.places import KINDS, read_places

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
