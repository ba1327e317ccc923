from __future__ import annotations

import pytest

from edgetool.errors import TargetError
from edgetool.target.load import list_cores
from edgetool.target.tables import PLACEMENT_COLUMNS, PLACEMENTS, load_placement_effects, parse_placement_effects

HEADER = ",".join(PLACEMENT_COLUMNS)
ROW = "arena-in-external-ram,STM32F767,cortex-m7,3.8,a model,a document,true"


def test_the_packaged_table_names_chips_cores_and_documents() -> None:
    effects = load_placement_effects()
    assert {effect.placement for effect in effects} == set(PLACEMENTS)
    assert all(effect.core in list_cores() and effect.factor > 1 and effect.document for effect in effects)


def test_a_table_is_read() -> None:
    (effect,) = parse_placement_effects(f"{HEADER}\n{ROW}\n", where="t.csv")
    assert (effect.mcu, effect.factor, effect.verified) == ("STM32F767", 3.8, True)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", r"t\.csv:1: the header"),
        (f"{HEADER},more\n", r"t\.csv:1: the header"),
        (f"{HEADER}\n{ROW},more", r"t\.csv:2: a row must have 7 cells"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('a model', '')}", r"t\.csv:3: a row must have 7 cells, none of them empty"),
        (f"{HEADER}\n{ROW.replace('arena-in', 'arena-on')}", "placement: 'arena-on-external-ram'"),
        (f"{HEADER}\n{ROW.replace('3.8', 'nan')}", "factor: 'nan'"),
        (f"{HEADER}\n{ROW.replace('3.8', '0.5')}", "factor: '0.5'"),
        (f"{HEADER}\n{ROW.replace('3.8', 'much')}", "factor: 'much'"),
        (f"{HEADER}\n{ROW.replace('true', 'yes')}", "verified: 'yes'"),
        (f'{HEADER}\n"{ROW}', "is not valid CSV"),
    ],
)
def test_a_broken_table_is_refused_by_line(text: str, reported: str) -> None:
    with pytest.raises(TargetError, match=reported):
        parse_placement_effects(text, where="t.csv")
