"""Native code on emulated cores: what was measured, and a few models on the cores that this machine can emulate."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from random import Random

import pytest
from benchmarks.kernels.cases import Case
from benchmarks.kernels.random_network import random_network
from benchmarks.native import cores

from edgetool.codegen.native.lower import lowering_of
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from tests.codegen.native import host

# Operators that TFLM computes only in floats, as the native runtime does not.
FLOAT_ONLY = {"EXP", "LOG", "NEG", "SQRT", "SQUARE"}
QUICK = ("m0plus",)
ALL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in cores.CORES]


def _core(name: str) -> cores.Core:
    core = cores.CORES[name]
    if core.missing:
        pytest.skip(f"{core.missing} is not installed")
    return core


def _model(seed: str) -> Model:
    operator, kind, *number = seed.split("/")
    if operator == "network":
        return random_network(Random(f"network/random/{kind}"))
    return Case(operator, kind, int(number[0])).model()


def test_every_measured_model_has_the_outputs_of_tflm_on_every_core() -> None:
    rows = cores.read()
    assert [(row["model"], core) for row in rows for core in cores.CORES if row[core] != cores.EQUAL] == []
    networks = [row for row in rows if row["model"].startswith("network/")]
    assert len(networks) >= 300
    assert len(rows) - len(networks) >= 200


def test_the_measured_models_are_those_of_today() -> None:
    for row in cores.read()[::40]:
        blob = write_model(_model(row["model"]))
        assert hashlib.sha256(blob).hexdigest().startswith(row["sha256"]), row["model"]


def test_every_operator_of_the_native_runtime_was_measured() -> None:
    measured = {row["model"].partition("/")[0] for row in cores.read()}
    operators = {operator for operator, _ in cores.generators() if lowering_of(operator) is not None}
    assert operators - measured == FLOAT_ONLY


@pytest.mark.parametrize("name", ALL)
def test_models_have_the_outputs_of_tflm(name: str) -> None:
    core = _core(name)
    models = [_model("network/3"), _model("CONV_2D/int8/0"), _model("ADD/int16/1")]
    trials = [host.prepare(model, 2, 0) for model in models]
    with tempfile.TemporaryDirectory() as folder:
        references = host.run_references(trials, Path(folder))
    assert cores.compare(core, trials, references) == [cores.EQUAL] * len(trials)


@pytest.mark.parametrize("name", ALL)
def test_an_access_that_is_not_aligned_is_a_fault(name: str) -> None:
    core = _core(name)
    usual, trapping = cores.VARIANTS
    assert cores.exit_code_of_odd_access(core, usual) == 0
    if core.is_arm:  # QEMU has no such trap for RISC-V
        assert cores.exit_code_of_odd_access(core, trapping) > cores.FAULT
