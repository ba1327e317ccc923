"""Faults of kernels: each condition against what generated models computed on emulated cores."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from benchmarks.kernels.cases import Case
from benchmarks.kernels.compare import Comparison, read_measured
from benchmarks.kernels.page import PAGE, fault_table, with_table
from benchmarks.kernels.predict import TARGETS, predictions, target_of
from hypothesis import given
from hypothesis import strategies as st

from edgetool.operators.arithmetic import misreads_broadcast
from edgetool.operators.entry import KernelFault
from edgetool.operators.legality import kernel_faults
from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS
from edgetool.operators.transpose_conv import misplaces_rows
from edgetool.target.history import load_changes
from edgetool.target.load import load_runtime
from edgetool.target.platform import platform_of

MEASURED = Path(__file__).parents[2] / "benchmarks" / "kernels" / "measured" / "cmsis_nn.csv"
WRONG = ("differs", "depends", "outside", "crashed", "failed")
SAMPLED = 120  # the quick tests look at one measured model in so many
FAULTS: list[tuple[str, KernelFault]] = [
    (code, fault)
    for table in (OPERATORS, CUSTOM_OPERATORS)
    for code in table
    for fault in table[code].faults
    if fault.kernels != ("esp-nn",)  # not on emulated cores: tests/operators/test_esp_nn.py
]
PRESENT = [(code, fault) for code, fault in FAULTS if fault.wrong]


@cache
def measured() -> dict[Case, dict[str, Comparison]]:
    return read_measured(MEASURED)


def is_wrong(comparison: Comparison) -> bool:
    return comparison.outcome in WRONG


def test_the_runtime_lists_every_fault_once() -> None:
    runtime = load_runtime("tflm-2026-08")
    assert sorted(runtime.faults) == sorted({fault.name for _, fault in PRESENT})
    assert len(runtime.faults) == len(set(runtime.faults))


def test_a_fault_of_earlier_versions_only_was_fixed_by_a_change() -> None:
    fixed = {name for change in load_changes() for name in change.fixed}
    assert fixed == {fault.name for _, fault in FAULTS} - {fault.name for _, fault in PRESENT}
    assert {name for change in load_changes() for name in change.introduced} <= {fault.name for _, fault in FAULTS}


@pytest.mark.parametrize(("code", "fault"), PRESENT, ids=[f"{code}-{fault.name}" for code, fault in PRESENT])
def test_a_measured_model_on_either_side_proves_the_condition(code: str, fault: KernelFault) -> None:
    for text, expected in ((fault.wrong, True), (fault.right, False)):
        kind, _, number = text.partition("/")
        case = Case(code, kind, int(number))
        outcomes = measured()[case]
        model = case.model()
        seen = {
            core: fault.name in {other.name for _, _, other in kernel_faults(model, platform_of(target_of(core)))}
            for core in TARGETS
        }
        assert any(seen.values()) == expected
        assert all(is_wrong(outcomes[core]) for core in TARGETS if seen[core])
        if not expected:
            assert {outcomes[core].outcome for core in TARGETS} == {"equal"}


@pytest.mark.parametrize("core", TARGETS)
def test_a_finding_predicts_every_measured_difference(core: str) -> None:
    check_predictions(core, [*measured()][::SAMPLED])


@pytest.mark.slow
@pytest.mark.parametrize("core", TARGETS)
def test_a_finding_predicts_every_difference_of_all_models(core: str) -> None:
    check_predictions(core, [*measured()])


def check_predictions(core: str, cases: list[Case]) -> None:
    target = target_of(core)
    missed = [
        f"{case.seed}: {measured()[case][core]}"
        for case in cases
        if core in measured()[case] and is_wrong(measured()[case][core]) and not predictions(case.model(), target)
    ]
    assert missed == []


def test_enough_models_were_measured() -> None:
    for core in TARGETS:
        assert sum(core in outcomes for outcomes in measured().values()) >= 20_000
    counts = Counter((case.operator, case.type) for case in measured())
    assert min(counts.values()) >= 150


SIZES = st.integers(1, 6)


@given(SIZES, SIZES, st.integers(1, 4), st.integers(0, 5), st.integers(1, 30))
def test_rows_are_right_if_the_kernel_adds_the_right_products(
    inputs: int, kernel: int, stride: int, pad: int, rows: int
) -> None:
    """Numbers run through the ring of rows as in the kernel: tap t of row r adds t + 1 in the digit r."""
    expected = [0] * (rows + pad + inputs * stride + kernel)
    ring, at, written = [0] * max(kernel, stride), 0, []
    for row in range(inputs):
        above, below = max(0, pad - row * stride), max(0, row * stride + kernel - (pad + rows) - 1)
        for tap in range(kernel):
            expected[row * stride + tap] += (tap + 1) * 10**row
        for step in range(kernel - above - below):
            ring[(at + step) % len(ring)] += (above + step + 1) * 10**row
        for _ in range(stride if above == 0 else 0):
            written.append(ring[at])
            ring[at], at = 0, (at + 1) % len(ring)
    for rest in range(kernel - stride):
        if pad <= inputs * stride + rest < pad + rows:
            written.append(ring[at])
        at = (at + 1) % len(ring)
    is_right = written == expected[pad : pad + rows]
    assert misplaces_rows((inputs, 1), (kernel, 1), (stride, 1), (pad, 0), (rows, 1)) != is_right


@given(st.lists(st.tuples(SIZES, st.sampled_from(["both", "first", "second"])), min_size=1, max_size=4))
def test_equal_and_scalar_inputs_are_read_right(axes: list[tuple[int, str]]) -> None:
    shape = tuple(size for size, _ in axes)
    assert not misreads_broadcast(shape, shape)
    assert not misreads_broadcast(shape, ())
    first, second = (
        tuple(size if which in ("both", name) else 1 for size, which in axes) for name in ("first", "second")
    )
    assert misreads_broadcast(first, second) == misreads_broadcast(second, first)


def test_the_page_lists_every_fault() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, "faults", fault_table()) == page
    assert with_table(page, "faults of ESP-NN", fault_table(esp_nn=True)) == page
