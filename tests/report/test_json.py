"""Reports as JSON: written, and read as strictly as they were written; nothing hostile gets through."""

from __future__ import annotations

import copy
import json
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.report.document import (
    ArenaInfo,
    ArenaPlacementInfo,
    Band,
    BufferPlaceInfo,
    ChangeInfo,
    CheckInfo,
    DifferenceInfo,
    EstimateInfo,
    FindingInfo,
    FlashInfo,
    FrontPoint,
    GateInfo,
    HostArena,
    JudgementInfo,
    KernelChoiceInfo,
    LinkedRuntime,
    LockInfo,
    MemoryInfo,
    ModelInfo,
    OperatorInfo,
    OutputDistance,
    PlacedInfo,
    PlacementInfo,
    PlanInfo,
    PlannedTensor,
    Provenance,
    RegionInfo,
    Report,
    RowSegment,
    RowsInfo,
    RowTensorInfo,
    RuntimeInfo,
    SampleInfo,
    ShrinkInfo,
    ShrinkStep,
    StackInfo,
    StreamInfo,
    StripesInfo,
    TargetInfo,
    VerdictInfo,
    VerifiedFile,
    VerifyInfo,
)
from edgetool.report.json import document, documents, parse_reports, read_reports, to_json
from tests.conftest import examples
from tests.pipeline.reports import whole_report

REPORT = Report(
    Provenance("edgetool 0", {"python": "3"}, {"command": "plan"}, False),
    ModelInfo("m.tflite", "00", 10, 1, 2, 3),
    target=TargetInfo("cortex-m7", "cortex-m7", None, "tflm", "cmsis-nn"),
    arena=ArenaInfo(None, None, None, None, 32, 32, True, "bound met", None, True),
    plan=PlanInfo(
        (0,), (PlannedTensor(0, 1, "a", 0, 4, 0, 0),), stripes=StripesInfo((RegionInfo(0, 1, 2),), 8, 12.5)
    ),
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
    runtime=LinkedRuntime("native", "tflm-2024-01", ("no interpreter",)),
    flash=FlashInfo(4000),
    stack=(StackInfo("gcc", "cortex-m7", "-O2", 120),),
    kernel_choices=(KernelChoiceInfo(32, 8, 1000, True),),
    rows=RowsInfo(32, 30, 4, 9, ("x",), (RowSegment((0,), 0, 3),), (RowTensorInfo("x", 0, 4, 8, 2, (2, 1)),),
        stream=StreamInfo(1, 4, 4, 10, 10, 40, 24)),
    places=(PlacedInfo("head", "dtcm", 64, 128, True),),
    placements=(PlacementInfo("dtcm", "sram", "flash", True, Band(1.0, 0.5, 2.0)),),
    front=(FrontPoint(32, "stripes", (RegionInfo(0, 1, 2),), 8, 12.5, 5, 4000),),
    shrink=ShrinkInfo("stripes", (ShrinkStep("layout", 64), ShrinkStep("stripes", 32))),
    arena_placement=ArenaPlacementInfo(
        1.5, 1.5, True, "bound met", "m", 4, 4, (BufferPlaceInfo("x", 0, "m", 0, 4),), (2,), 8, (1,)
    ),
)  # fmt: skip

# The names that other programs build on.
NAMES = {
    "": "schema provenance model quantization target arena plan memory estimate verify check findings runtime flash "
    "stack kernel_choices rows places placements shrink front arena_placement",
    "provenance": "tool versions options trust_model_code",
    "model": "name sha256 bytes operators tensors parameters output",
    "target": "name core board runtime kernels",
    "arena": "bytes used_bytes head_bytes tail_bytes layout_bytes lower_bound_bytes optimal proof stock_bytes "
    "is_lower_bound breakdown",
    "plan": "order tensors scratch moved live_bytes live_lower_bound_bytes order_proof sharing constants_in_ram peak "
    "overlaps stripes",
    "memory": "region sram_bytes flash_bytes arena_fits model_fits budgets",
    "estimate": "latency_ms energy_uj cycles instructions macs parameter_bytes activation_bytes bytes_moved "
    "bandwidth_gbps configured_bandwidth_gbps bandwidth_utilization gmacs_per_s stream_utilization bound validation "
    "basis verdict energy_basis interval_ms measured traffic factors not_modelled precision_tradeoffs constraints "
    "operators",
    "verify": "passed original planned planner samples checks arena runtimes kernels_run kernels_untested native",
    "runtime": "name nearest differs",
    "flash": "model_bytes code_bytes code_basis code_is_exact uncounted operators log_bytes alternatives",
    "rows": "memory_bytes lower_bound_bytes steps table_bytes row_inputs segments tensors row_outputs "
    "extra_macs extra_macs_percent weights_per_row_bytes stream",
    "shrink": "step steps latency_before_ms latency_after_ms",
    "arena_placement": "waiting_cycles waiting_lower_bound_cycles optimal proof minimized minimized_bytes "
    "minimized_lower_bound buffers copied copied_bytes copies_begin",
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
    assert list(value["stack"][0]) == "compiler core level bytes".split()
    assert (
        list(value["kernel_choices"][0])
        == "arena_bytes scratch_bytes instructions chosen rows row_input row_output extra_macs".split()
    )
    assert list(value["places"][0]) == "part memory bytes memory_bytes fits".split()
    assert list(value["placements"][0]) == "head tail model fits latency_ms".split()
    assert list(value["plan"]["stripes"]) == "regions extra_macs extra_macs_percent".split()
    assert list(value["plan"]["stripes"]["regions"][0]) == "first last stripes".split()
    names = "arena_bytes step regions extra_macs extra_macs_percent operators model_bytes latency_ms verified"
    assert list(value["front"][0]) == names.split()
    assert list(value["shrink"]["steps"][0]) == "step arena_bytes".split()
    assert list(value["rows"]["segments"][0]) == "operators first_step last_step".split()
    assert list(value["rows"]["tensors"][0]) == "name index rows row_bytes most_rows live".split()
    stream = "hop_rows window_rows window_hops step_macs touched_macs window_macs ring_bytes"
    assert list(value["rows"]["stream"]) == stream.split()


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


GATE = GateInfo(
    passed=False,
    path="models/kws.tflite",
    judgements=(
        JudgementInfo("arena", False, "error", "too large", 20, 10, 10, "B", ("op 1",), ("prune",)),
        JudgementInfo("max-latency", None, "note", "not known"),
    ),
    violations={"violates_64kib": True},
    lock=LockInfo("changed", ("the model file changed",), (ChangeInfo("latency_ms", "ms", 1.5, None, True),)),
)
WHOLE = document(whole_report(check=GATE))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in the document."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of the document with another value there."""
    if not path:
        return new
    made = copy.deepcopy(value)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return made


PLACES = places(WHOLE)
SCALARS = (bool, int, float, str)


def test_what_was_written_is_read() -> None:
    given_report = whole_report(check=GATE)
    (found,) = parse_reports(to_json(document(given_report)))
    assert found == given_report
    assert isinstance(found, Report)


def test_several_reports_in_their_order() -> None:
    reports = (whole_report("one"), whole_report("two", quantization=None))
    assert parse_reports(to_json(documents(reports))) == reports


def test_a_later_edgetool_may_add_keys_and_an_earlier_one_lack_some() -> None:
    newer = changed(changed(WHOLE, ("novelty",), {"x": 1}), ("arena", "novelty"), [1])
    assert read_reports(newer) == read_reports(WHOLE)
    older = copy.deepcopy(WHOLE)
    del older["verify"], older["check"], older["estimate"]["operators"][0]["runs"]
    assert read_reports(older)[0].check is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1 is not valid JSON"),
        ("[]", "not an edgetool document"),
        ("null", "not an edgetool document"),
        ("{}", 'no "schema"'),
        ('{"schema": "edgetool/2"}', '"edgetool/2"'),
        ('{"schema": ["edgetool/1"]}', "a list of 1"),
        ('{"schema": "edgetool/1"}', "provenance is missing"),
        ('{"schema": "edgetool/1", "reports": []}', "reports is a list of 0"),
        ('{"schema": "edgetool/1", "reports": {}}', "reports is {...}, not a list of documents"),
        ('{"schema": "edgetool/1", "reports": [1]}', "reports[0] is 1, not an object"),
        ('{"schema": "edgetool/1", "schema": "edgetool/1"}', '"schema" twice'),
        ('{"schema": "edgetool/1", "instance": {}}', "edgetool layout"),
        ('{"schema": "edgetool/1", "calibration": {}}', "edgetool calibrate"),
        ('{"schema": "edgetool/1", "compare": {}}', "edgetool compare"),
        ('{"schema": "edgetool/1", "subgraphs": []}', "edgetool inspect"),
        ('{"schema": NaN}', "NaN"),
        ('{"schema": -Infinity}', "-Infinity"),
        ('{"schema": ' + "9" * 5000 + "}", "thousands of digits"),
        ("[" * 100_000, "nested too deeply"),
        ("[" + "[]," * 2_000_001, "more than 4,000,000 values"),
        ('{"schema": "edgetool/1", "provenance": {"options": {"x": ' + "[" * 800 + "]" * 800 + "}}}", ""),
    ],
)
def test_invalid_reports_are_reported(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reports(text)
    assert said in caught.value.what
    assert caught.value.fix
    assert len(caught.value.what) < 300


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("model", "bytes"), "4096", 'model.bytes is "4096", not an integer'),
        (("model", "bytes"), 4096.0, "model.bytes is 4096.0, not an integer"),
        (("model", "bytes"), True, "model.bytes is true"),
        (("model", "bytes"), -1, "model.bytes is -1, not 0 or more"),
        (("model", "bytes"), 10**30, "many digits"),
        (("model", "name"), None, "model.name is null, not a string"),
        (("arena", "bytes"), -16, "arena.bytes is -16"),
        (("arena", "optimal"), 1, "arena.optimal is 1, not true or false"),
        (("arena",), [], "arena is a list of 0, not an object"),
        (("estimate", "latency_ms", "value"), 1e9, "outside its band"),
        (("estimate", "latency_ms", "low"), float("inf"), "realistic number"),
        (("estimate", "energy_uj", "high"), 1e300, "realistic number"),
        (("provenance", "options", "clock_hz"), 10**4000, "provenance.options.clock_hz is a number with many digits"),
        (("estimate", "operators", 3, "ms"), 4, "estimate.operators[3].ms is 4, not an object"),
        (("quantization", "accuracy", "quantized"), "high", "not a number"),
        (("findings", 0, "level"), "fatal", "findings[0].level"),
        (("check", "judgements", 0, "limit"), "10", "not a number or an integer"),
        (("check", "violations"), {"x": 1}, "check.violations.x is 1, not true or false"),
        (("provenance", "options"), 1, "provenance.options is 1, not an object"),
    ],
)
def test_a_value_of_another_type_names_its_place(place: tuple[Any, ...], value: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_reports(changed(WHOLE, place, value))
    assert said in caught.value.what


@given(st.sampled_from(PLACES), JSON)
@examples(300)
def test_a_document_with_any_value_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    try:
        found = read_reports(changed(WHOLE, place, value))
    except UsageError:
        return
    for report in found:  # what is read can be written: no NaN, no infinity, no odd type
        assert json.loads(to_json(document(report)))["schema"] == "edgetool/1"


@given(st.integers(0, len(to_json(WHOLE)) - 2))
@settings(max_examples=100)
def test_a_truncated_document_is_refused(length: int) -> None:
    with pytest.raises(UsageError):
        parse_reports(to_json(WHOLE)[:length])


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
@examples(200)
def test_any_text_is_read_or_refused(blob: bytes) -> None:
    with pytest.raises(UsageError):
        parse_reports(blob.decode("utf-8", "replace"))


def kinds_of(kind: Any) -> set[type]:
    """The dataclasses that a document of this type may hold; types that are no type of a document fail."""
    if isinstance(kind, type) and is_dataclass(kind):
        return {kind}.union(*(kinds_of(hint) for hint in get_type_hints(kind).values()))
    inner = [item for item in get_args(kind) if item not in (type(None), Ellipsis)]
    if get_origin(kind) in (Union, UnionType):
        assert len(inner) == 1 or all(item in SCALARS for item in inner), f"{kind} cannot be distinguished in JSON"
    elif get_origin(kind) is None:
        assert kind is object or kind in SCALARS, f"{kind} is no type of a document"
    return set[type]().union(*(kinds_of(item) for item in inner))


def test_every_type_of_the_document_can_be_read() -> None:
    assert {Report, GateInfo, LockInfo} <= kinds_of(Report)
