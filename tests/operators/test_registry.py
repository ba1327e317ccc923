from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import CUSTOM_OPERATORS, FAMILIES, OPERATORS, OTHERS, entry_of
from edgetool.target.load import list_runtimes, load_runtime
from tests.graphs import operator

# Custom operators of TFLM whose allocations no rule here tells: a model with one has an arena known from below.
WITHOUT_RULE: frozenset[str] = frozenset()


@pytest.mark.parametrize("name", list_runtimes())
def test_every_operator_that_tflm_registers_has_a_rule(name: str) -> None:
    runtime = load_runtime(name)
    assert [code for code in runtime.operators if OPERATORS[code].prepare is None] == []
    assert {name for name in runtime.custom_operators if name not in CUSTOM_OPERATORS} == WITHOUT_RULE


def test_every_operator_is_of_one_family() -> None:
    codes = [*OTHERS, *(entry.code for family in FAMILIES for entry in family.OPERATORS)]
    assert [code for code, times in Counter(codes).items() if times > 1] == []
    assert sorted(codes) == [*OPERATORS]


def test_an_entry_of_the_user_goes_before_that_of_tflm() -> None:
    known = next(iter(CUSTOM_OPERATORS))
    call = replace(operator(0, "CUSTOM", [0], [1]), custom_code=known)
    own = OperatorEntry(known)
    assert entry_of(call) is CUSTOM_OPERATORS[known]
    assert entry_of(call, {known: own}) is own
    assert entry_of(replace(call, custom_code="Foreign"), {known: own}) is None
    assert entry_of(operator(0, "CONV_2D", [0], [1]), {"CONV_2D": own}) is OPERATORS["CONV_2D"]
