"""Whole models as native code: the recorded comparison of their outputs with those of TFLM."""

from __future__ import annotations

import csv

from benchmarks.native.bits import LARGE_MACS, MEASURED

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
