"""`fit` against `check`: the same arena, verdict and latency on every packaged board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InvalidModelError, TargetError, UsageError
from edgetool.gate.limits import ModelLimits
from edgetool.memory.planner import Plan, plan_memory
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import analysis
from edgetool.pipeline.check import CheckRequest, check_models
from edgetool.pipeline.fit import FitRequest, fit_model
from edgetool.pipeline.targets import all_targets
from edgetool.report.fit import COLUMNS, BoardFit, fit_csv
from edgetool.target.platform import Platform
from tests.model.builders import conv_model_bytes, if_model, unary_model

BOARDS = [target for target in all_targets() if target.board is not None and target.bandwidth_gbps is None]
REAL = ("mlperf/vww_96_int8", "mlperf/ad01_fp32", "tflm/person_detect_vela", "made/lstm_fused_float", "made/gru_unroll")


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "a model.tflite"
    path.write_bytes(conv_model_bytes())
    return path


def assert_agrees(path: Path, limits: ModelLimits, kernels: str | None = None) -> None:
    """Each board is checked alone, so that nothing is shared between boards."""
    report = fit_model(path, FitRequest(limits=limits, kernels=kernels))
    rows = {row.target.name: row for row in report.fit.boards}
    assert rows.keys() == {target.name for target in BOARDS}
    for target in BOARDS:
        named = target.with_overrides(kernels=kernels)
        (checked,) = check_models([path], [named], CheckRequest(limits=limits, lock=path.parent / "none.lock")).reports
        assert checked.check is not None
        assert checked.arena is not None
        assert checked.memory is not None
        row = rows[target.name]
        failed = tuple(item for item in checked.check.judgements if item.passed is False)
        assert row.fits == checked.check.passed
        assert [(item.rule, item.message) for item in row.failed] == [(item.rule, item.message) for item in failed]
        assert row.target == checked.target
        assert (row.arena_bytes, row.arena_is_lower_bound) == (checked.arena.bytes, checked.arena.is_lower_bound)
        assert (row.sram_bytes, row.flash_bytes) == (checked.memory.sram_bytes, checked.memory.flash_bytes)
        assert checked.estimate is not None
        assert row.latency_ms == checked.estimate.latency_ms


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_every_board_is_judged_as_check_judges_it(shared: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes((shared / "data" / "models" / f"{name}.tflite").read_bytes())
    assert_agrees(path, ModelLimits())


@pytest.mark.slow
def test_limits_mean_what_they_mean_in_check(tflite: Path) -> None:
    limits = ModelLimits(
        reserve_bytes=2**14, reserve_flash_bytes=2**16, max_arena_bytes=2**11, max_latency_ms=0.01
    )  # smaller than every board's memories, which `check` requires
    assert_agrees(tflite, limits)
    assert_agrees(tflite, ModelLimits(), kernels="reference")


@pytest.mark.slow
@pytest.mark.parametrize("model", [if_model(), unary_model("GELU"), unary_model("EXP")], ids=["IF", "GELU", "EXP"])
def test_unusual_operators_are_judged_as_check_judges_them(tmp_path: Path, model: object) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(write_model(model))  # type: ignore[arg-type]
    assert_agrees(path, ModelLimits())


def test_boards_with_the_same_build_share_a_plan(tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []

    def plan(model: Model, platform: Platform, *arguments: Any, **options: Any) -> Plan:
        planned.append(platform)
        return plan_memory(model, platform, *arguments, **options)

    monkeypatch.setattr(analysis, "plan_memory", plan)
    fit = fit_model(tflite).fit
    assert 1 < len(planned) < len(fit.boards) / 3


def test_devices_described_by_a_bandwidth_alone_are_left_out(tflite: Path) -> None:
    fit = fit_model(tflite).fit
    left_out = {target.name for target in all_targets() if target.bandwidth_gbps is not None}
    assert set(fit.left_out) == left_out
    assert len(left_out) > 0
    assert fit.judged == len(BOARDS)


def test_boards_are_selected_by_core_vendor_and_text(tflite: Path) -> None:
    def names(**filters: tuple[str, ...]) -> set[str]:
        return {row.target.name for row in fit_model(tflite, FitRequest(**filters)).fit.boards}  # type: ignore[arg-type]

    assert names(cores=("cortex-m85",)) == {"ek-ra8d1"}
    assert names(cores=("Cortex_M0+", "cortex-m85")) == {
        *("ek-ra8d1", "rpi-pico", "arduino-rp2040-connect", "nucleo-g0b1re")
    }
    assert names(vendors=("nordic",)) == {"nrf52840-dk", "nrf5340-dk", "nrf54l15-dk"}
    assert names(vendors=("st",), boards=("300", "n6570")) == {"stm32n6570-dk"}  # not Corstone
    assert names(boards=("RASPBERRY PI PICO",)) == {"rpi-pico", "rpi-pico2"}
    assert names(boards=("stm32h743",)) == {"nucleo-h743zi2"}
    assert names(boards=("nrf52840",), vendors=("adafruit",)) == {"feather-nrf52840"}


def test_wrong_filters_and_files_are_named(tflite: Path) -> None:
    with pytest.raises(TargetError, match="unknown core 'cortex-m9'"):
        fit_model(tflite, FitRequest(cores=("cortex-m9",)))
    with pytest.raises(UsageError, match="no packaged board matches --vendor 'acme' --board 'x9'"):
        fit_model(tflite, FitRequest(vendors=("acme",), boards=("x9",)))
    with pytest.raises(UsageError, match="no packaged board matches --board 'raspberry-pi-4'"):
        fit_model(tflite, FitRequest(boards=("raspberry-pi-4",)))
    with pytest.raises(TargetError, match="unknown runtime"):
        fit_model(tflite, FitRequest(runtime="tflm-1999-01"))
    with pytest.raises(UsageError):
        fit_model(tflite.parent / "none.tflite")
    tflite.write_bytes(tflite.read_bytes()[:50])
    with pytest.raises(InvalidModelError):
        fit_model(tflite)


def test_a_reserve_beyond_a_memory_is_a_board_that_does_not_fit(tflite: Path) -> None:
    rows = fit_model(tflite, FitRequest(limits=ModelLimits(reserve_bytes=2**18))).fit.boards
    (small,) = (row for row in rows if row.target.name == "nucleo-f103rb")
    assert (small.fits, small.sram_share) == (False, None)
    assert any(row.fits for row in rows)


def test_an_unsupported_operator_is_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(write_model(unary_model("GELU")))
    fit = fit_model(path).fit
    assert fit.fitting == 0
    assert fit.smallest is None
    assert {row.reasons for row in fit.boards} == {("operator GELU not in TFLM",)}


@settings(max_examples=15)
@given(
    reserve=st.integers(0, 2**20),
    arena=st.none() | st.integers(1, 2**13),
    sort=st.sampled_from(["memory", "latency", "name"]),
    rows=st.none() | st.integers(1, 70),
)
def test_rows_are_sorted_and_counted(
    tmp_path_factory: pytest.TempPathFactory, reserve: int, arena: int | None, sort: str, rows: int | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "sorted.tflite"
    path.write_bytes(conv_model_bytes())
    limits = ModelLimits(reserve_bytes=reserve, max_arena_bytes=arena)
    request = FitRequest(limits=limits, sort=sort, max_rows=rows, cores=("cortex-m4", "cortex-m0plus"))  # type: ignore[arg-type]
    fit = fit_model(path, request).fit
    assert len(fit.boards) == min(fit.judged, rows or fit.judged)
    assert [row.fits for row in fit.boards] == sorted((row.fits for row in fit.boards), reverse=True)
    assert sum(row.fits for row in fit.boards) == min(fit.fitting, len(fit.boards))
    assert all(bool(row.reasons) != row.fits for row in fit.boards)
    for row in fit.boards:
        if row.fits:
            assert row.sram_share is not None
            assert row.sram_share <= 1

    def key(row: BoardFit) -> object:
        assert row.latency_ms is not None
        return {"memory": row.sram_bytes, "latency": row.latency_ms.value, "name": row.target.name}[sort]

    fitting = [key(row) for row in fit.boards if row.fits]
    assert fitting == sorted(fitting)  # type: ignore[type-var]
    everything = fit_model(path, replace(request, max_rows=None)).fit.boards
    assert fit.boards == everything[: len(fit.boards)]


def test_csv_has_a_cell_for_each_column(tflite: Path) -> None:
    import csv

    report = fit_model(tflite)
    header, *lines = csv.reader(fit_csv(report).splitlines())
    assert tuple(header) == COLUMNS
    assert len(lines) == len(BOARDS)
    for line, row in zip(lines, report.fit.boards, strict=True):
        cells = dict(zip(header, line, strict=True))
        assert (cells["target"], cells["board"], cells["core"]) == (row.target.name, row.target.board, row.target.core)
        assert cells["fits"] == str(row.fits).lower()
        assert int(cells["arena_bytes"]) == row.arena_bytes
        assert row.latency_ms is not None
        assert float(cells["latency_high_ms"]) == row.latency_ms.high
