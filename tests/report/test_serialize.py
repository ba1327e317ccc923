from __future__ import annotations

import json

import pytest

from edgetool.report.document import (
    ArenaInfo,
    Band,
    CheckInfo,
    DifferenceInfo,
    EstimateInfo,
    FindingInfo,
    HostArena,
    MemoryInfo,
    ModelInfo,
    OperatorInfo,
    OutputDistance,
    PlanInfo,
    PlannedTensor,
    Provenance,
    Report,
    RuntimeInfo,
    SampleInfo,
    TargetInfo,
    VerdictInfo,
    VerifiedFile,
    VerifyInfo,
)
from edgetool.report.json import document, documents, to_json

REPORT = Report(
    Provenance("edgetool 0", {"python": "3"}, {"command": "plan"}, False),
    ModelInfo("m.tflite", "00", 10, 1, 2, 3),
    target=TargetInfo("cortex-m7", "cortex-m7", None, "tflm", "cmsis-nn"),
    arena=ArenaInfo(None, None, None, None, 32, 32, True, "bound met", None, True),
    plan=PlanInfo((0,), (PlannedTensor(0, 1, "a", 0, 4, 0, 0),)),
    memory=MemoryInfo(None, None, None, None, None),
    estimate=EstimateInfo(
        Band(1.0, 0.5, 2.0), None, 9, 5, 8, 7, 6, 13, 0.1, 1.0, 0.1, 0.1, None, "compute", "unvalidated", "basis",
        VerdictInfo("balanced", "text", ()),
        operators=(
            OperatorInfo(0, "CONV_2D", 8, 7, 6, 13, 13, 5, 9, 1, Band(1.0, 0.5, 2.0), "compute", "instructions"),
        ),
    ),
    verify=VerifyInfo(
        True, VerifiedFile("m.tflite", "00", 10), VerifiedFile("m.tflite", "01", 12), "edgetool", SampleInfo(8, 0, 0),
        (CheckInfo("outputs-equal", False, "text", DifferenceInfo(0, "y", (0, 1), 1, 2)),),
        HostArena("x86-64", False, 32, 30, 10, 20, 30, 10, 20),
        (RuntimeInfo("LiteRT", None, (OutputDistance("y", "lsb", 1, 1, 2),)),),
    ),
    findings=(FindingInfo("rule", "note", "text", None),),
)  # fmt: skip

# The names that other programs build on.
NAMES = {
    "": "schema provenance model quantization target arena plan memory estimate verify check findings",
    "provenance": "tool versions options trust_model_code",
    "model": "name sha256 bytes operators tensors parameters output",
    "target": "name core board runtime kernels",
    "arena": "bytes used_bytes head_bytes tail_bytes layout_bytes lower_bound_bytes optimal proof stock_bytes "
    "is_lower_bound breakdown",
    "plan": "order tensors scratch moved live_bytes live_lower_bound_bytes order_proof sharing constants_in_ram peak",
    "memory": "region sram_bytes flash_bytes arena_fits model_fits budgets",
    "estimate": "latency_ms energy_uj cycles instructions macs parameter_bytes activation_bytes bytes_moved "
    "bandwidth_gbps configured_bandwidth_gbps bandwidth_utilization gmacs_per_s stream_utilization bound validation "
    "basis verdict energy_basis interval_ms measured traffic factors not_modelled precision_tradeoffs constraints "
    "operators",
    "verify": "passed original planned planner samples checks arena runtimes",
}


@pytest.mark.parametrize("section", NAMES)
def test_names_are_those_of_the_schema(section: str) -> None:
    value = document(REPORT)
    assert list(value[section] if section else value) == NAMES[section].split()


def test_operators_and_tensors_have_their_names() -> None:
    value = document(REPORT)
    assert set(value["plan"]["tensors"][0]) == set("subgraph index name offset bytes first_op last_op".split())
    assert set(value["estimate"]["operators"][0]) >= set(
        "index operator macs parameter_bytes activation_bytes memory_bytes instructions cycles ms bound".split()
    )
    assert set(value["findings"][0]) == set("rule level message where".split())


def test_the_parts_of_verify_have_their_names() -> None:
    value = document(REPORT)["verify"]
    parts = {
        "name sha256 bytes": value["planned"],
        "random seed from_file": value["samples"],
        "check passed message difference": value["checks"][0],
        "sample output element original planned": value["checks"][0]["difference"],
        "abi is_lower_bound predicted_bytes predicted_used_bytes predicted_head_bytes predicted_tail_bytes used_bytes "
        "head_bytes tail_bytes": value["arena"],
        "runtime not_run outputs": value["runtimes"][0],
        "output unit max_difference differing elements": value["runtimes"][0]["outputs"][0],
    }
    for names, part in parts.items():
        assert list(part) == names.split()


def test_one_report_is_a_document_and_several_are_a_list() -> None:
    assert documents([REPORT]) == document(REPORT)
    assert documents([REPORT, REPORT]) == {"schema": "edgetool/1", "reports": [document(REPORT)] * 2}


def test_text_is_ascii_json_and_never_has_a_bare_infinity() -> None:
    text = to_json({"name": "ü\x1b"})
    assert text.isascii()
    assert json.loads(text) == {"name": "ü\x1b"}
    with pytest.raises(ValueError, match="Out of range"):
        to_json({"value": float("inf")})
