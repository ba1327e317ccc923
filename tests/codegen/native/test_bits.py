"""Native code: recorded comparisons of the outputs of models, and of rows of random networks, with those of TFLM."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from benchmarks.native import rows_bits
from benchmarks.native.bits import LARGE_MACS, MEASURED

from tests.codegen.native.test_row_plan import kinds

MLPERF = {"mlperf/kws_ref_model", "mlperf/vww_96_int8", "mlperf/ad01_int8", "mlperf/pretrainedResnet_quant"}
ZOO_MODELS, SUPPORTED = 139, 125


def rows() -> list[dict[str, str]]:
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_supported_model_has_the_outputs_of_tflm() -> None:
    for row in rows():
        assert row["result"] == "equal" or row["result"].startswith("refused: operator"), row


def test_enough_models_are_supported_and_compared_on_enough_samples() -> None:
    equal = {row["model"]: row for row in rows() if row["result"] == "equal"}
    zoo = [name for name in equal if name.endswith("/model")]
    assert equal.keys() >= MLPERF
    assert sum(row["model"].endswith("/model") for row in rows()) == ZOO_MODELS
    assert len(zoo) >= SUPPORTED
    for row in equal.values():
        assert int(row["samples"]) >= (1000 if int(row["macs"]) < LARGE_MACS else 50), row


def test_constants_are_smaller_than_the_file() -> None:
    for row in rows():
        assert int(row["constants_bytes"]) < int(row["tflite_bytes"]), row


def test_nearly_all_layouts_are_proven_to_be_the_best() -> None:
    unproven = [row for row in rows() if row["arena_bytes"] != row["lower_bound_bytes"]]
    assert {row["model"] for row in unproven} <= {"rnn-of-cells/model"}
    assert all(int(row["arena_bytes"]) <= 1.03 * int(row["lower_bound_bytes"]) for row in unproven)


def test_every_row_of_random_networks_is_that_of_tflm() -> None:
    found = rows_bits.read()
    assert [row for row in found if row.equal < row.graphs or row.different] == []
    # Models in files come behind the random networks.
    networks = found[: len(kinds())]
    assert [row.kind for row in networks] == [kind.name for kind in kinds()]
    assert sum(row.graphs for row in networks) >= 2000
    for row in networks:
        # Enough networks of each kind have operators that take turns, and rows that are compared.
        assert row.graphs >= 100
        assert row.by_rows >= row.graphs / 8
        assert row.rows > 50 * row.graphs
        assert row.samples >= 5 * row.graphs


def test_results_continue_where_they_were_interrupted(tmp_path: Path) -> None:
    work = tmp_path / "work.csv"
    assert rows_bits.read_work(work) == []
    graphs = [
        rows_bits.Graph(i, kind.name, rows_bits.EQUAL, 9, 8, 7, 6, 5, i % 2 == 0) for i, kind in enumerate(kinds())
    ]
    rows_bits.add_work(work, graphs)
    with work.open("a") as file:
        file.write("16,smallest,equ")
    assert rows_bits.read_work(work) == rows_bits.run(len(graphs), 1, work) == graphs
    assert "equ\n" not in work.read_text()
    graphs[3] = replace(graphs[3], result="output 0 differs")
    rows = rows_bits.summary(graphs)
    assert [(row.graphs, row.equal, row.different) for row in rows[2:5]] == [(1, 1, ""), (1, 0, "3"), (1, 1, "")]
    rows_bits.write(tmp_path / "record.csv", rows, rows_bits.notes(1, graphs))
    assert rows_bits.read(tmp_path / "record.csv") == rows
