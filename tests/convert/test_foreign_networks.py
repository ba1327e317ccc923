"""What benchmarks/foreign measured: networks of PyTorch and ONNX are as good as those of Keras."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from benchmarks.foreign.networks import NETWORKS
from benchmarks.foreign.page import PAGE, with_table
from benchmarks.foreign.trial import DOORS, RESULTS, Result, read_rows

ROWS: list[Result] = read_rows(RESULTS, Result)
BY_PLACE: Mapping[tuple[str, str], Result] = {(row.network, row.door): row for row in ROWS}
FOREIGN = [row for row in ROWS if row.door != "keras" and row.runs]
MAX_LOSS_DB = 1.0
MAX_OPERATORS = 2
MAX_ARENA_RATIO = 1.01


def test_there_are_thirty_networks() -> None:
    assert len(NETWORKS) == 30
    assert sum(network.mlperf for network in NETWORKS.values()) == 4


def test_the_page_has_the_measured_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, ROWS) == page


def test_every_measured_network_runs() -> None:
    assert [row for row in ROWS if not row.runs] == []
    assert {(row.network, door) for row in ROWS for door in DOORS} == BY_PLACE.keys()


@pytest.mark.parametrize("row", FOREIGN, ids=lambda row: f"{row.network}-{row.door}")
def test_a_network_is_as_good_as_its_keras_twin(row: Result) -> None:
    twin, network = BY_PLACE[row.network, "keras"], NETWORKS[row.network]
    assert row.sqnr_db >= twin.sqnr_db - MAX_LOSS_DB
    if network.convolutional:
        assert row.transposes == 0
    if network.mlperf:
        assert abs(row.operators - twin.operators) <= MAX_OPERATORS
        assert row.arena_bytes <= twin.arena_bytes * MAX_ARENA_RATIO
