"""The account against real TFLM: the `tflite-micro` package, x86-64 with reference kernels.

Its recording interpreter prints every category of its arena; the smallest arena is found by trying.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from edgetool.memory.account import ArenaAccount, Offsets, account_model
from edgetool.memory.planner import plan_memory
from edgetool.memory.types import ARENA_ALIGNMENT, aligned
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS
from edgetool.pipeline.planning import planned_source
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.execute.many_arenas import Arena, measure_arenas
from tests.memory.account_models import MODELS

# Operators of the registry that no model of ours holds, and why.
NOT_IN_A_MODEL: dict[str, str] = {}
PLANS = ("none", "ours", "odd")


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
def cases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Case]:
    """Every model under every plan, all measured at once."""
    pytest.importorskip("tflite_micro")
    if not hasattr(os, "fork"):
        pytest.skip("measuring arenas needs fork()")
    files = {(name, plan): planned for name, make in MODELS.items() for plan, planned in _files(name, make()).items()}
    arenas = measure_arenas([blob for blob, _ in files.values()], tmp_path_factory.mktemp("arenas"))
    return {key: Case(account, arena) for (key, (_, account)), arena in zip(files.items(), arenas, strict=True)}


def _files(name: str, model: Model) -> dict[str, tuple[bytes, ArenaAccount]]:
    """The file and its account by the plan in it. What is read back from the file is what the account is made of."""
    source = Source(name, write_model(model), model)
    host = load_target("x86-64")
    build = platform_of(host)
    files = {"none": source, "ours": planned_source(source, plan_memory(model, build), host)}
    odd = with_metadata(model, METADATA_NAME, encode_plan(model, _odd_plan(model)))
    files["odd"] = Source(name, write_model(odd), odd)
    found = {}
    for plan, file in files.items():
        account = plan_memory(read_model(file.blob), build, wanted="as in file").account
        assert account is not None
        found[plan] = (file.blob, account)
    return found


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


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", MODELS)
def test_the_account_is_what_tflm_reports(cases: Mapping[tuple[str, str], Case], name: str, plan: str) -> None:
    account, arena = cases[name, plan].account, cases[name, plan].arena
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


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", MODELS)
def test_the_smallest_arena_is_the_one_found_by_trying(
    cases: Mapping[tuple[str, str], Case], name: str, plan: str
) -> None:
    assert cases[name, plan].account.bytes == cases[name, plan].arena.smallest


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_changes_no_output(cases: Mapping[tuple[str, str], Case], name: str) -> None:
    outputs = {cases[name, plan].arena.outputs for plan in PLANS}
    assert len(outputs) == 1


def test_the_plans_differ(cases: Mapping[tuple[str, str], Case]) -> None:
    """What was measured: files that TFLM lays out otherwise than without a plan, some lower and some higher."""
    heads = {plan: [cases[name, plan].account.layout.offsets for name in MODELS] for plan in PLANS}
    assert sum(a != b for a, b in zip(heads["none"], heads["ours"], strict=True)) >= 3
    assert sum(a != b for a, b in zip(heads["none"], heads["odd"], strict=True)) >= len(MODELS) / 2
