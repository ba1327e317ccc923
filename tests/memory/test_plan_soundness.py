"""Plans of random networks and of small models on TFLM: the same outputs, in exactly the bytes of the account."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from benchmarks.plan_soundness import disagreements, forms, judge, network

from edgetool.execute.run import TflmAllocation
from tests.execute.many_arenas import Arena
from tests.memory.account_models import MODELS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="measuring arenas needs fork()")


def judged(numbers: Iterable[int]) -> Counter[str]:
    """Check networks; return how many forms of them ran."""
    pytest.importorskip("tflite_micro")
    seen: Counter[str] = Counter()
    assert judge([(f"network {number}", network(number)) for number in numbers], seen) == []
    return seen


@pytest.mark.slow
def test_plans_of_random_networks_are_sound_and_their_accounts_exact() -> None:
    # In network 6, the last view of a tensor does not begin at a multiple of 16 bytes.
    seen = judged((3, 6, 7, 9))
    assert seen["overlap"] == 4
    assert seen["random stripes"] >= 3


def test_disagreements_are_found() -> None:
    form = next(forms(network(3), Random(0)))
    used_bytes, arena_bytes = form.account.used_bytes, form.account.bytes
    allocation = TflmAllocation(used_bytes, form.account.head_bytes, form.account.tail_bytes, ())
    ran = Arena(allocation, arena_bytes, b"same")
    assert list(disagreements(form, ran, ran)) == []
    for arena, wrong in (
        (replace(ran, outputs=b"other"), "the outputs differ"),
        (replace(ran, smallest=arena_bytes + 16), f"the smallest arena is {arena_bytes + 16} bytes"),
        (replace(ran, allocation=replace(allocation, total=used_bytes + 1)), f"TFLM uses {used_bytes + 1} bytes"),
        (Arena(None, None, None, "no memory"), "it does not run: no memory"),
    ):
        (text,) = disagreements(form, arena, ran)
        assert text.startswith(wrong)
    assert list(disagreements(replace(form, wrong=("overlaps",)), ran, ran)) == ["overlaps"]


@pytest.mark.slow
def test_many_plans_of_random_networks_are_sound_and_their_accounts_exact() -> None:
    # Few networks have stripes that the planner chooses, such as 113.
    seen = judged((*range(10, 90), 113))
    assert seen["overlap"] >= 76
    assert seen["random stripes"] >= 36
    assert seen["chosen stripes"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_accounts_of_planned_models_are_exact(name: str) -> None:
    pytest.importorskip("tflite_micro")
    seen: Counter[str] = Counter()
    assert judge([(name, MODELS[name]())], seen) == []
    assert seen["overlap"] == 1
