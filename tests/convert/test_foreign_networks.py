"""What benchmarks/foreign measured: networks of PyTorch, ONNX and float .tflite are as good as those of Keras."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from benchmarks.foreign.networks import NETWORKS
from benchmarks.foreign.page import PAGE, with_table
from benchmarks.foreign.trial import DOORS, RESULTS, Result, read_rows

ROWS: list[Result] = read_rows(RESULTS, Result)
BY_PLACE: Mapping[tuple[str, str], Result] = {(row.network, row.door): row for row in ROWS}
FOREIGN = [row for row in ROWS if row.door != "keras" and row.runs]
# TensorFlow's converter makes no .tflite of any batch of them.
RECURRENT = {"crnn", "gru_spotter", "lstm_spotter"}
MAX_REFUSED = {"keras": 0, "pytorch": 2, "onnx": 2, "tflite": 0}
MAX_LOSS_DB = 1.0
ROUNDING_DB = 1e-6
MAX_OPERATORS = 2
MAX_ARENA_RATIO = 1.01


def test_there_are_thirty_networks() -> None:
    assert len(NETWORKS) == 30
    assert sum(network.mlperf for network in NETWORKS.values()) == 4


def test_the_page_has_the_measured_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, ROWS) == page


def test_every_network_is_measured_from_each_framework() -> None:
    everywhere = {(name, door) for name in NETWORKS for door in DOORS}
    assert everywhere - BY_PLACE.keys() == {(name, "tflite") for name in RECURRENT}


@pytest.mark.parametrize("door", DOORS)
def test_the_networks_run_or_are_refused_by_name(door: str) -> None:
    refused = [row for row in ROWS if row.door == door and not row.runs]
    assert len(refused) <= MAX_REFUSED[door]
    assert all(re.search(r"(operator|node|layer|module) '?\w", row.outcome) for row in refused)


@pytest.mark.parametrize("row", FOREIGN, ids=lambda row: f"{row.network}-{row.door}")
def test_a_network_is_as_good_as_its_keras_twin(row: Result) -> None:
    twin, network = BY_PLACE[row.network, "keras"], NETWORKS[row.network]
    assert row.sqnr_db >= twin.sqnr_db - MAX_LOSS_DB - ROUNDING_DB
    if network.convolutional:
        assert row.transposes == 0
    if network.mlperf:
        assert abs(row.operators - twin.operators) <= MAX_OPERATORS
        assert row.arena_bytes <= twin.arena_bytes * MAX_ARENA_RATIO
