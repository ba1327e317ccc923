"""The measured networks: planned files compute what files without a plan do, unless edgetool reports a kernel."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from benchmarks.kernels.networks import MEASURED, Network, read_networks, unexplained

CORES = ("m3", "m7", "m55")
ROWS = {int(row["network"]): row for row in read_networks(MEASURED)}


def columns(number: int, core: str) -> Mapping[str, str]:
    """Return the columns of one core, by their names without the core."""
    prefix = f"{core} "
    return {name.removeprefix(prefix): value for name, value in ROWS[number].items() if name.startswith(prefix)}


@pytest.mark.parametrize("core", CORES)
def test_all_networks_are_measured(core: str) -> None:
    assert list(ROWS) == list(range(500))
    assert all(columns(number, core)["stock"] for number in ROWS)


@pytest.mark.parametrize("core", CORES)
def test_planned_files_differ_only_with_a_finding(core: str) -> None:
    assert not [
        number
        for number in ROWS
        if columns(number, core)["planned"] != "equal" and not columns(number, core)["findings"]
    ]


@pytest.mark.parametrize("core", CORES)
def test_findings_explain_all_differences_from_the_reference(core: str) -> None:
    assert not [number for number in ROWS if unexplained(columns(number, core))]


@pytest.mark.parametrize("number", [0, 82, 123, 303, 499])
def test_seeds_still_give_the_measured_networks(number: int) -> None:
    network = Network.drawn(number)
    assert network.sha256 == ROWS[number]["sha256"]
    assert str(len(network.model.main.operators)) == ROWS[number]["operators"]
