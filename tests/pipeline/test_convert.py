"""The main job, end to end: Keras files to firmware files, held against both runtimes and the C compiler.

A .tflite through the main job, which needs no TensorFlow.

Which form of recurrent layers is taken, and what is said of the other.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.cases import Case
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.lowering.cut_open import add_state_variables
from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.errors import ConversionError, UsageError
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.memory.planner import PlanRequest
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Signature, Tensor
from edgetool.model.writer import write_model
from edgetool.operators.legality import kernel_faults
from edgetool.pipeline.convert import (
    WORSE_DB,
    Form,
    FormCost,
    LegalizedConversion,
    best_form,
    cheapest,
    convert_file,
    convert_for,
    cost_of,
    only_fused_finding,
    rnn_finding,
)
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.graphs import chain
from tests.in_process import command_line
from tests.model.builders import branches_model
from tests.passes.test_cleanup import copied
from tests.passes.test_dead_channels import first_weights, separable
from tests.pipeline.order_models import tangle

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs the extra 'convert'", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "keyword_spotting"
REAL = ["ad01.h5", "pretrainedResnet.h5", "vww_96.h5"]


def convert(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return command_line("convert", *arguments, cwd=ROOT)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    output = tmp_path_factory.mktemp("with a space") / "out"
    result = convert(
        EXAMPLE / "keyword_spotting.h5", "--target", "nucleo-l4r5zi", "--calibration", EXAMPLE / "calibration.npz",
        "--evaluate", EXAMPLE / "evaluation.npz", "-o", output,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return output, result.stdout


def report_of(output: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(next(output.glob("*.json")).read_text())
    return report


def test_all_files_appear_and_the_report_says_what_they_are(example: tuple[Path, str]) -> None:
    output, stdout = example
    names = {path.name for path in output.iterdir()}
    ends = (".tflite", ".h", ".json", "_model.c", "_model.h", "_ops.h", "_runner.h", "_runner.cc")
    assert names == {"main.cc", *(f"keyword_spotting{end}" for end in ends)}
    report = report_of(output)
    assert report["quantization"]["calibrated"] is True
    assert report["quantization"]["outputs"][0]["sqnr_db"] > 15
    assert report["quantization"]["outputs"][0]["top1_agreement"] > 0.9
    assert report["quantization"]["accuracy"]["quantized"] > 0.9
    assert report["model"]["output"]["bytes"] == (output / "keyword_spotting.tflite").stat().st_size
    assert report["arena"]["is_lower_bound"] is False
    assert report["arena"]["used_bytes"] <= report["arena"]["bytes"] <= report["arena"]["stock_bytes"]
    assert (report["memory"]["arena_fits"], report["memory"]["model_fits"]) == (True, True)
    assert f"_ARENA_BYTES {report['arena']['bytes']}\n" in (output / "keyword_spotting.h").read_text()
    for word in ("Fits", "Arena", "Model", "Inference", "Accuracy", "Wrote"):
        assert word in stdout
    assert all(len(line) <= 100 for line in stdout.splitlines())


@pytest.mark.slow
def test_the_model_carries_the_layout_and_gives_the_same_results_with_it(example: tuple[Path, str]) -> None:
    pytest.importorskip("tflite_micro", reason="needs the extra 'verify'")
    output, _ = example
    planned = (output / "keyword_spotting.tflite").read_bytes()
    model = read_model(planned)
    assert "OfflineMemoryAllocation" in {entry.name for entry in model.metadata}
    unplanned_dir = output.parent / "unplanned"
    arguments = ("--target", "nucleo-l4r5zi", "--no-offline-plan", "-o", unplanned_dir)
    assert (
        convert(EXAMPLE / "keyword_spotting.h5", *arguments, "--calibration", EXAMPLE / "calibration.npz").returncode
        == 0
    )
    unplanned = (unplanned_dir / "keyword_spotting.tflite").read_bytes()
    assert "OfflineMemoryAllocation" not in {entry.name for entry in read_model(unplanned).metadata}
    inputs = random_inputs(model, 100, seed=7)
    for engine in ("litert-reference", "tflm"):
        with_plan = run_model(planned, inputs, engine=engine)  # type: ignore[arg-type]
        without = run_model(unplanned, inputs, engine=engine)  # type: ignore[arg-type]
        assert all(np.array_equal(a, b) for a, b in zip(with_plan, without, strict=True))


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("g++") is None, reason="needs gcc and g++")
def test_header_and_data_compile_and_stop_compiling_below_the_limit(example: tuple[Path, str]) -> None:
    output, _ = example
    flags = (
        "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wmissing-declarations"
    )
    for compiler, standard in (("gcc", "c99"), ("gcc", "c11"), ("g++", "c++11"), ("g++", "c++20")):
        for name in ("keyword_spotting.h", "keyword_spotting_model.c"):
            kind = "c++" if compiler == "g++" else "c"
            command = [
                compiler,
                f"-std={standard}",
                *flags.split(),
                "-Werror",
                "-x",
                kind,
                "-fsyntax-only",
                output / name,
            ]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
    least = report_of(output)["arena"]["bytes"]
    for limit, fits in ((least, True), (least - 16, False)):
        define = f"-DKEYWORD_SPOTTING_SRAM_LIMIT_BYTES={limit}"
        command = ["gcc", "-std=c99", define, "-fsyntax-only", "-x", "c", str(output / "keyword_spotting.h")]
        assert (subprocess.run(command, capture_output=True).returncode == 0) is fits


@pytest.mark.slow
def test_without_calibration_everything_says_so_loudly(tmp_path: Path) -> None:
    result = convert(
        EXAMPLE / "keyword_spotting.h5", "--target", "cortex-m4", "-o", tmp_path / "out", "--samples", "10"
    )
    assert result.returncode == 0, result.stderr
    assert "UNCALIBRATED" in result.stdout
    assert report_of(tmp_path / "out")["quantization"]["calibrated"] is False
    assert "uncalibrated" in {finding["rule"] for finding in report_of(tmp_path / "out")["findings"]}
    header = (tmp_path / "out" / "keyword_spotting.h").read_text()
    assert "#define KEYWORD_SPOTTING_UNCALIBRATED 1" in header
    again = convert(EXAMPLE / "keyword_spotting.h5", "--target", "cortex-m4", "-o", tmp_path / "2", "--samples", "10")
    assert again.returncode == 0
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes(), path.name


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_files_convert_and_run_in_both_runtimes(shared: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("tflite_micro", reason="needs the extra 'verify'")
    result = convert(shared / "data" / "models" / "mlperf" / name, "--target", "cortex-m7", "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    tflite = next((tmp_path / "out").glob("*.tflite")).read_bytes()
    model = read_model(tflite)
    main = model.main
    assert [main.tensors[i].dtype.name for i in (*main.inputs, *main.outputs)] == ["INT8", "INT8"]
    assert not {op.code for op in main.operators} & {"SHAPE", "STRIDED_SLICE", "PACK", "QUANTIZE", "DEQUANTIZE"}
    inputs = random_inputs(model, 100, seed=1)
    litert = run_model(tflite, inputs, engine="litert-reference")
    tflm = run_model(tflite, inputs, engine="tflm")
    difference = max(int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(litert, tflm, strict=True))
    print(f"{name}: largest difference {difference}")
    assert difference <= 16


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for children in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_leaves_nothing(tmp_path: Path, number: int) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "edgetool", "convert", str(EXAMPLE / "keyword_spotting.h5"), "-t", "cortex-m7"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")],
        env=dict(os.environ, TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not children_in(temporary):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(number)
    time.sleep(0.005)
    process.send_signal(number)  # an impatient user, while the first is being obeyed
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert len(stderr.strip().splitlines()) == 1
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "out").exists()
    assert not children_in(temporary)


def children_in(folder: Path) -> list[str]:
    """The processes that were started on a directory inside the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line and "worker" in line:
            found.append(line)
    return found


def test_a_plan_that_was_not_requested_is_not_called_unnecessary(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    made = convert_file(ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "out", offline_plan=False)
    assert [finding.rule for finding in made.report.findings] == ["no-plan"]


def test_replan_and_no_offline_plan_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    with pytest.raises(UsageError, match="--no-offline-plan"):
        convert_file(ConvertRequest(path), load_target("cortex-m7"), offline_plan=False, replan=True)


def test_the_model_is_written_in_the_order_that_needs_least(tmp_path: Path) -> None:
    path = tmp_path / "branches.tflite"
    path.write_bytes(write_model(branches_model()))
    made = convert_file(ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "best")
    kept = convert_file(
        ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "kept", plan=PlanRequest(order="original")
    )
    assert made.report.plan is not None
    assert made.report.arena is not None
    assert kept.report.arena is not None
    assert made.report.arena.bytes is not None
    assert kept.report.arena.bytes is not None
    assert made.report.arena.bytes < kept.report.arena.bytes
    written = read_model((tmp_path / "best" / "branches.tflite").read_bytes())
    first = branches_model().main.operators
    assert [op.outputs for op in written.main.operators] == [first[index].outputs for index in made.report.plan.order]
    assert f"ARENA_BYTES {made.report.arena.bytes}" in (tmp_path / "best" / "branches.h").read_text()


@pytest.mark.parametrize(("is_optimized", "operators"), [(None, 2), (False, 2), (True, 1)])
def test_a_tflite_is_cleaned_up_only_on_demand(is_optimized: bool | None, operators: int, tmp_path: Path) -> None:
    path = tmp_path / "copied.tflite"
    path.write_bytes(write_model(copied()))
    request = ConvertRequest(path, optimize=is_optimized)
    made = convert_file(request, load_target("cortex-m7"), output=tmp_path / "out")
    assert len(read_model((tmp_path / "out" / "copied.tflite").read_bytes()).main.operators) == operators
    rules = [finding.rule for finding in made.report.findings]
    assert ("operators-removed" in rules) is (operators == 1)
    assert made.report.provenance.options["optimize"] is bool(is_optimized)


@pytest.mark.parametrize(("is_optimized", "changes"), [(None, True), (False, False), (True, True)])
def test_converted_models_are_cleaned_up_by_default(
    is_optimized: bool | None, changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = separable(first_weights(8, (1, 4)), [-50] * 8, [-20] * 8, "SAME")
    conversion = conversion_of(model)
    monkeypatch.setattr("edgetool.pipeline.convert.convert_model", lambda *args, **named: conversion)
    request, target = ConvertRequest(tmp_path / "m.keras", optimize=is_optimized), load_target("cortex-m7")
    result = convert_for(request, target.runtime, name="m.tflite", workdir=tmp_path)
    assert [finding.rule for finding in result.findings] == ["channels-removed"] * changes
    assert (result.model == model) is not changes
    assert read_model(result.conversion.tflite) == result.model


@pytest.mark.parametrize(
    ("name", "options", "rejected"),
    [
        ("m.pt2", {"rnn": "fused"}, "a PyTorch program.*--rnn"),
        ("m.pt2", {"trust_model_code": True}, "a PyTorch program.*--trust-model-code"),
        ("m.onnx", {"signature": "main"}, "an ONNX model.*--signature"),
        ("m.keras", {"keep_layout": True}, "channels last.*--keep-layout"),
    ],
)
def test_options_that_do_not_apply_to_a_model_are_rejected(
    name: str, options: dict[str, Any], rejected: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.touch()
    with pytest.raises(UsageError, match=rejected):
        convert_file(ConvertRequest(path, **options), load_target("cortex-m7"), output=tmp_path / "out")


def test_an_order_is_rejected_for_a_file_that_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    with pytest.raises(UsageError, match="--order"):
        convert_file(
            ConvertRequest(path), load_target("cortex-m7"), offline_plan=False, plan=PlanRequest(order="original")
        )


def test_a_search_cut_short_names_the_option_of_this_command(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    request, wishes = ConvertRequest(path), PlanRequest(time_limit=1e-9)
    made = convert_file(request, load_target("cortex-m7"), output=tmp_path / "out", plan=wishes)
    reported = {finding.rule: finding.message for finding in made.report.findings}
    assert "see --plan-time-limit" in reported["search-cut-short"]
    left = convert_file(request, load_target("cortex-m7"), output=tmp_path / "left", plan=wishes, offline_plan=False)
    assert "search-cut-short" not in {finding.rule for finding in left.report.findings}


costs = st.builds(
    FormCost, st.sampled_from(["fused", "unrolled"]), st.none() | st.integers(0, 9), st.integers(1, 9), st.just(1)
)
qualities = st.none() | st.floats(-10, 60)


@given(st.lists(costs, min_size=1, max_size=4))
def test_the_cheapest_is_never_beaten(several: list[FormCost]) -> None:
    chosen = cheapest(several)
    for other in several:
        if other.total_bytes is not None:
            assert chosen.total_bytes is not None
            assert chosen.total_bytes <= other.total_bytes
    if chosen.total_bytes is None:
        assert chosen.file_bytes == min(cost.file_bytes for cost in several)


@given(st.lists(st.tuples(costs, qualities), min_size=1, max_size=4))
def test_a_form_that_is_much_worse_than_the_best_is_not_chosen(several: list[tuple[FormCost, float | None]]) -> None:
    given_ = [replace(cost, sqnr_db=quality) for cost, quality in several]
    chosen = cheapest(given_)
    for other in given_:
        if chosen.sqnr_db is not None and other.sqnr_db is not None:
            assert chosen.sqnr_db >= other.sqnr_db - WORSE_DB


def test_the_first_wins_a_tie() -> None:
    fused, unrolled = FormCost("fused", 3, 5, 1), FormCost("unrolled", 4, 4, 9)
    assert cheapest([fused, unrolled]) is fused
    assert cheapest([unrolled, fused]) is unrolled


def test_the_finding_states_both_costs() -> None:
    fused, unrolled = FormCost("fused", 2048, 4640, 4, 37.25), FormCost("unrolled", None, 50328, 175)
    finding = rnn_finding(fused, [unrolled], ["lstm"])
    assert (finding.rule, finding.level, finding.where) == ("rnn-form", "note", None)
    assert finding.message.startswith("layer 'lstm' was converted to one operator per LSTM (--rnn fused)")
    assert (
        "--rnn fused): 2,048 bytes of arena and 4,640 bytes of flash, with 4 operators and an SQNR of 37.2 dB"
        in finding.message
    )
    assert (
        "--rnn unrolled) would take an arena of unknown size and 50,328 bytes of flash, with 175 operators"
        in finding.message
    )


def test_the_finding_names_the_layers() -> None:
    cost = FormCost("fused", 2048, 4640, 4)
    assert rnn_finding(cost, [], ["a", "b", "c"]).message.startswith("layers 'a', 'b' and 'c' were converted to")
    assert only_fused_finding([f"l{i}" for i in range(9)], "300 copies").message == (
        "layers 'l0', 'l1', 'l2', 'l3', 'l4', 'l5' and 3 more were converted to one operator per LSTM: "
        "one copy per time step (--rnn unrolled) does not work: 300 copies"
    )


def test_a_form_that_is_left_out_is_reported() -> None:
    fused, unrolled = FormCost("fused", 10, 10, 4, -0.1), FormCost("unrolled", 99, 99, 40, 35.0)
    assert cheapest([fused, unrolled]) is unrolled
    finding = rnn_finding(unrolled, [fused], ["lstm"])
    assert finding.message.endswith("4 operators and an SQNR of -0.1 dB (rejected: more than 6 dB worse)")


def _cut_model() -> Model:
    """input + state -> output, which is the next state, too."""
    scale = Quantization((0.5,), (0,), 0)
    names = ("input", "state", "output")
    tensors = tuple(Tensor(i, name, (1, 4), DType.INT8, None, scale, False) for i, name in enumerate(names))
    graph = Graph(0, "main", tensors, (), (0, 1), (2,))
    signature = Signature("serving_default", 0, (("input", 0), ("given", 1)), (("output", 2), ("taken", 2)))
    draft = Draft(Model(3, "", (), (graph,), (None,), signatures=(signature,)))
    add: Operator = draft.make("ADD", [0, 1], [2], version=2)
    draft.operators.append(add)
    return draft.finish()


def test_a_recurrent_state_is_planned_and_written() -> None:
    model = add_state_variables(_cut_model(), (("layer/state_0", "given", "taken"),))
    assert [name for name, _ in model.signatures[0].inputs] == ["input"]
    assert [name for name, _ in model.signatures[0].outputs] == ["output"]
    assert Counter(operator.label for operator in model.main.operators) == {"ADD": 1, "QUANTIZE": 1}
    blob = write_model(model)
    assert read_model(blob) == model
    cost = cost_of("unrolled", Source("m.tflite", blob, model), load_target("cortex-m7"), sqnr_db=40.0)
    assert cost.arena_bytes is not None
    assert cost.arena_bytes > 0
    assert cost.file_bytes >= len(blob)
    assert cost.operators == 2
    assert np.isfinite(cost.total_bytes or np.nan)


UNROLLED = ConversionError("too many steps")


def form_of(request: ConvertRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: dict[str, Any]) -> Form:
    made = Form.__new__(Form)
    scopes = ("around/forward_lstm", "around/backward_lstm", "lstm")
    conversion = SimpleNamespace(fused=scopes, layers={"around": "Bidirectional", **dict.fromkeys(scopes, "LSTM")})
    for name, value in (("findings", ()), ("quality", QuantizationInfo), ("conversion", conversion), ("source", None)):
        object.__setattr__(made, name, value)

    def converted(wanted: ConvertRequest, *args: Any) -> Form:
        if wanted.rnn in failing:
            raise failing[wanted.rnn]
        return made

    monkeypatch.setattr("edgetool.pipeline.convert._converted", converted)
    return best_form(request, load_target("cortex-m4"), name="m.tflite", workdir=tmp_path, progress=lambda step: None)


@pytest.fixture
def request_(tmp_path: Path) -> ConvertRequest:
    return ConvertRequest(tmp_path / "m.keras")


def test_the_reason_for_a_missing_alternative_is_reported(
    request_: ConvertRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = form_of(request_, tmp_path, monkeypatch, {"unrolled": UNROLLED})
    (reported,) = found.findings
    assert reported.message.startswith("layers 'around' and 'lstm' were converted to one operator")
    assert reported.message.endswith(UNROLLED.what)


def conversion_of(model: Model) -> Conversion:
    """The conversion whose result is the model, with one sample."""
    inputs = tuple(array[:1] for array in random_inputs(model, 1, seed=0))
    return Conversion(write_model(model), False, 1, inputs, (), ("x",), ("y",), None, {}, (), {"layer": "Any"})


def converted_case(case: Case, core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LegalizedConversion:
    """What convert_for makes of the generated model, as if TensorFlow's converter had written it."""
    model = case.model()
    named = replace(model.main, tensors=tuple(replace(each, name="layer/x") for each in model.main.tensors))
    conversion = conversion_of(replace(model, subgraphs=(named,)))
    monkeypatch.setattr("edgetool.pipeline.convert.convert_model", lambda *args, **named: conversion)
    target = load_target(core)
    request = ConvertRequest(tmp_path / "m.keras")
    return convert_for(request, target.runtime, name="m.tflite", workdir=tmp_path, platform=platform_of(target))


def case_with(fault: str, operator: str, kind: str, *, present: bool = True) -> Case:
    platform = platform_of(load_target("cortex-m7"))
    for number in range(200):
        case = Case(operator, kind, number)
        names = {item.name for _, _, item in kernel_faults(case.model(), platform)}
        if names == ({fault} if present else set()):
            return case
    raise AssertionError(fault)


def test_faults_of_kernels_are_avoided_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_with("grouped-conv-without-bias", "CONV_2D", "int8")
    result = converted_case(case, "cortex-m7", tmp_path, monkeypatch)
    assert kernel_faults(result.model, platform_of(load_target("cortex-m7"))) == ()
    (note,) = result.conversion.notes
    assert note.startswith("CONV_2D (layer) was given a bias of zeros, which adds ")
    assert read_model(result.conversion.tflite) == result.model


def test_a_model_without_faults_keeps_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_with("", "CONV_2D", "int8", present=False)
    result = converted_case(case, "cortex-m7", tmp_path, monkeypatch)
    assert result.conversion.notes == ()
    assert read_model(result.conversion.tflite).main.operators == read_model(write_model(case.model())).main.operators


def test_a_fault_without_an_equivalent_names_the_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_with("svdf-int8-state", "SVDF", "int8")
    with pytest.raises(ConversionError) as error:
        converted_case(case, "cortex-m7", tmp_path, monkeypatch)
    assert error.value.what.startswith(
        "the cmsis-nn kernels would compute wrong outputs: layer 'layer' (Any) became SVDF with an int8 state, which "
    )
    assert error.value.fix == "use an int16 state, or the reference kernel"
