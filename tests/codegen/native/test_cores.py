"""Native code on emulated cores: what was measured, and a few models on the cores that this machine can emulate."""

from __future__ import annotations

import pytest
from benchmarks.kernels.cases import generators
from benchmarks.native import cores
from benchmarks.native.stack import COMPILERS

from edgetool.codegen.native.convolution import LEAN_CONV
from edgetool.codegen.native.lower import lowering_of
from edgetool.codegen.native.stack import stack_bounds
from edgetool.execute.cores import MACHINES
from edgetool.model.types import Model
from tests.codegen.native.host import Driver, Trial, prepare
from tests.memory.account_net import Net

# Operators that TFLM computes only in floats, as the native runtime does not.
FLOAT_ONLY = {"EXP", "LOG", "NEG", "SQRT", "SQUARE"}
REAL = {"ad01_int8", "kws_ref_model", "person_detect", "pretrainedResnet_quant", "vww_96_int8"}
# How far a bound may be above the painted stack: kernels have paths for shapes that a model lacks. The largest bound of
# a network: a SUM alone may have more rows.
SLACK, LARGEST = 200, 788
QUICK = ("cortex-m0plus",)
ALL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in COMPILERS]


def _skip_without_tools(core: str) -> None:
    if missing := MACHINES[core].missing_tools:
        pytest.skip(f"{missing[0]} is not installed")


def _trial(name: str) -> Trial:
    trial = cores.trial_of(name)
    assert trial is not None, name
    return trial


def _out_of_bounds(rows: list[cores.Row]) -> list[cores.Row]:
    return [row for row in rows if any(not stack <= bound <= stack + _slack(row) for stack, bound in row.stacks)]


def _slack(row: cores.Row) -> int:
    # The kernel of CAST also converts integers of 64 bits to float, for which Armv6-M has a function with 88 bytes.
    return SLACK + 40 if (row.core, row.model.partition("/")[0]) == ("cortex-m0plus", "CAST") else SLACK


def test_every_measured_model_has_the_outputs_of_tflm_on_every_core() -> None:
    rows = cores.read()
    assert [row for row in rows if row.result != cores.EQUAL] == []
    models = {row.model for row in rows}
    assert sorted((row.model, row.core) for row in rows) == sorted(
        (model, core) for model in models for core in COMPILERS
    )
    assert models >= REAL
    assert sum(model.startswith("network/") for model in models) >= 100


def test_measured_stacks_are_within_their_bounds_and_not_far_below() -> None:
    rows = cores.read()
    assert _out_of_bounds(rows) == []
    networks = [row for row in rows if row.model in REAL or row.model.startswith("network/")]
    assert max(bound for row in networks for _, bound in row.stacks) <= LARGEST


def test_the_measured_models_and_bounds_are_those_of_today() -> None:
    rows = [row for row in cores.read() if "/" in row.model]  # not those of files
    for row in rows[::280]:
        trial = _trial(row.model)
        assert row.sha256 == cores.Subject(row.model, trial, b"").sha256, row
        bounds = {item.level: item.stack_bytes for item in stack_bounds(trial.program, row.core)}
        assert bounds == {"-O2": row.bound_o2, "-Os": row.bound_os}, row


def test_every_operator_of_the_native_runtime_was_measured() -> None:
    measured = {row.model.partition("/")[0] for row in cores.read()}
    operators = {operator for operator, _ in generators() if lowering_of(operator) is not None}
    assert operators - measured == FLOAT_ONLY


@pytest.mark.parametrize("core", ALL)
def test_models_have_the_outputs_of_tflm_and_stacks_within_their_bounds(core: str) -> None:
    _skip_without_tools(core)
    names = ("network/3", "CONV_2D/int8/0", "ADD/int16/1")
    rows = cores.measure(core, cores.subjects_of({name: _trial(name) for name in names}))
    assert [(row.model, row.result) for row in rows] == [(name, cores.EQUAL) for name in names]
    assert _out_of_bounds(rows) == []


def _convolution(depth: int, fused: str) -> Model:
    """Return a convolution of 3 x 3 taps with enough products for two pixels at once."""
    net = Net()
    x = net.arena(1, 4, 5, depth, scale=1 / 16, zero_point=-5)
    weights, bias = net.filter(64, 3, 3, depth, like=x), net.biases(64, like=x)
    values = {"stride_h": 1, "stride_w": 1, "padding": "SAME", "fused_activation_function": fused}
    zero_point = 3 if fused == "NONE" else -128
    y = net.op("CONV_2D", [x, weights, bias], 1, 4, 5, 64, scale=1 / 4, zero_point=zero_point, **values)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_loops_of_several_turns_begin_where_the_number_of_words_needs_it(core: str) -> None:
    _skip_without_tools(core)
    dsp = core == "cortex-m4"
    trials = {
        f"{depth} {fused} {lean}": prepare(_convolution(depth, fused), 1, row_wise=True, lean=lean, dsp=dsp)
        for depth in (4, 8, 12, 16, 5)
        for fused in ("NONE", "RELU")
        for lean in (False, True)
    }
    fields = [(step.kernel, dict(step.op.values)) for trial in trials.values() for step in trial.program.steps]
    words = [
        (9 * item["depth"] + 3) // 4 for kernel, item in fields if kernel == LEAN_CONV and item["pixels"] == 1 + dsp
    ]
    assert {number % 4 for number in words} == {0, 1, 2, 3}
    rows = cores.measure(core, cores.subjects_of(trials))
    assert [(row.model, row.result) for row in rows] == [(name, cores.EQUAL) for name in trials]


@pytest.mark.parametrize("driver", ["run", "bands"])
@pytest.mark.parametrize("core", ALL)
def test_an_access_that_is_not_aligned_is_a_fault(core: str, driver: Driver) -> None:
    _skip_without_tools(core)
    # Armv6-M has no such accesses. QEMU has no such fault for RISC-V.
    faults = core == "cortex-m0plus" or (driver == "bands" and core != "riscv32")
    assert (cores.exit_code_of_odd_access(core, driver) > cores.FAULT) == faults
