"""Models as generated C: their files, reports and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import EdgetoolError, UnsupportedModelError, UsageError
from edgetool.memory.account import account_model
from edgetool.memory.order.solve import OrderStrategy
from edgetool.memory.planner import PlanRequest
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.pipeline.compare import compare_models
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.emit import Emitted
from edgetool.pipeline.firmware import FirmwareRequest
from edgetool.pipeline.native import native_model, plan_native
from edgetool.pipeline.native_emit import emit_native
from edgetool.pipeline.native_verify import verify_native
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.report.json import document, parse_reports, to_json
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Target
from tests.memory.account_net import Net
from tests.model.builders import branches_model, conv_model, if_model, residual_model, unary_model

OWN = ["net.c", "net.h", "net_weights.c", "net_weights.h"]
RUN = ["edgetool_native.h", "edgetool_run.c"]
TFLM_TARGET = load_target("cortex-m7")
TARGET = TFLM_TARGET.with_overrides(runtime="native")
ORDERS: tuple[OrderStrategy, ...] = ("original", "optimal")


def put(folder: Path, model: Model, name: str = "net") -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(write_model(model))
    return path


def contents(emitted: Emitted) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in emitted.files}


def not_native() -> Model:
    """Return a sine of floats, which TFLM computes and native code does not."""
    net = Net()
    x = net.arena(1, 4)
    real = net.op("DEQUANTIZE", [x], 1, 4, dtype=DType.FLOAT32)
    y = net.op("SIN", [real], 1, 4, dtype=DType.FLOAT32)
    return net.model([x], [y])


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (FirmwareRequest("header"), []),
        (FirmwareRequest("plain"), ["main.c"]),
        (FirmwareRequest("cmake"), ["CMakeLists.txt", "main.c"]),
        (FirmwareRequest(profile=True), ["main.c", "net_profile.c"]),
    ],
    ids=["header", "plain", "cmake", "profile"],
)
def test_emit_writes_the_model_the_kernels_and_what_is_requested(
    tmp_path: Path, request_: FirmwareRequest, more: list[str]
) -> None:
    path = put(tmp_path, conv_model())
    emitted = emit_native(path, TARGET, output=tmp_path / "out", request=request_)
    written = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert written == sorted(file.name for file in emitted.files)
    kernels = [name for name in written if name.startswith("edgetool_")]
    assert sorted([*OWN, *more, *kernels]) == written
    assert set(RUN) < set(kernels)
    assert "edgetool_conv2d_tiled_s8.c" in kernels
    for name, data in contents(emitted).items():
        assert data.isascii(), name
        assert str(tmp_path).encode() not in data, name


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    path = put(tmp_path, residual_model())
    first, second = (emit_native(path, TARGET, output=tmp_path / name) for name in "ab")
    assert contents(first) == contents(second)
    assert to_json(document(first.report)) == to_json(document(second.report))
    other = put(tmp_path, branches_model(), "other")
    assert contents(emit_native(other, TARGET, output=tmp_path / "c", name="net")) != contents(first)


def test_a_memory_plan_in_the_file_changes_only_its_name_and_hash(tmp_path: Path) -> None:
    path, planned = put(tmp_path, residual_model()), tmp_path / "planned.tflite"
    plan_model(path, TFLM_TARGET, output=planned)
    first = contents(emit_native(path, TARGET, output=tmp_path / "a"))
    second = contents(emit_native(planned, TARGET, output=tmp_path / "b", name="net"))
    assert [name for name in first if first[name] != second[name]] == ["net.h"]
    changed = [a for a, b in zip(first["net.h"].split(b"\n"), second["net.h"].split(b"\n"), strict=True) if a != b]
    assert len(changed) == 2, "the comment on the model, and MODEL_SHA256"


def check_fields(report: Report, arena: int) -> None:
    value = json.loads(to_json(document(report)))
    assert list(value["runtime"]) == ["name", "nearest", "differs"]
    assert value["runtime"]["name"] == "native"
    assert value["runtime"]["nearest"].startswith("tflm-")
    assert list(value["flash"])[:2] == ["model_bytes", "code_bytes"]
    assert value["flash"]["model_bytes"] > 0
    code = report.flash.code_bytes if report.flash is not None else None
    assert (code is None) == (report.target is None)
    if code is not None:
        assert code.low <= code.value <= code.high
        assert value["flash"]["code_basis"].startswith("native, cortex-m7, arm-none-eabi-gcc ")
        assert value["flash"]["alternatives"].keys() == {"-Os"}
    assert value["arena"]["bytes"] == value["arena"]["layout_bytes"] == value["arena"]["head_bytes"] == arena
    assert value["arena"]["tail_bytes"] == 0
    assert value["arena"]["is_lower_bound"] is False
    assert {item["bytes"] > 0 for item in value["stack"]} == {True}
    assert parse_reports(to_json(value)) == (report,)


@pytest.mark.parametrize("device", [None, TARGET], ids=["no target", "cortex-m7"])
def test_reports_have_the_runtime_and_the_flash(tmp_path: Path, device: Target | None) -> None:
    path = put(tmp_path, residual_model())
    report = plan_native(path, device)
    arena = native_model(open_tflite(path), device).planned.memory.arena_bytes
    check_fields(report, arena)
    assert (report.memory is None) == (device is None)
    if device is not None:
        assert {item.core for item in report.stack} == {"cortex-m7"}
        assert arena < account_model(residual_model(), platform_of(TFLM_TARGET)).bytes
    check_fields(emit_native(path, device, output=tmp_path / "out").report, arena)


def test_reports_of_tflm_have_its_file_in_flash_and_no_stack(tmp_path: Path) -> None:
    report = plan_model(put(tmp_path, conv_model()), TFLM_TARGET)
    value = document(report)
    assert (value["runtime"], value["stack"]) == (None, [])
    assert value["flash"]["model_bytes"] == len(write_model(conv_model()))


@pytest.mark.parametrize("order", ORDERS)
def test_the_steps_are_in_the_order_that_is_requested(tmp_path: Path, order: OrderStrategy) -> None:
    path = put(tmp_path, branches_model())
    request = PlanRequest(order=order)
    report = plan_native(path, TARGET, request=request)
    assert report.plan is not None
    operators = range(len(branches_model().main.operators))
    assert sorted(report.plan.order) == list(operators)
    if order == "original":
        assert list(report.plan.order) == list(operators)
    model = native_model(open_tflite(path), TARGET, request)
    positions = [model.planned.plan.order.index(step.operator) for step in model.planned.program.steps]
    assert positions == sorted(positions)


def test_a_better_order_has_a_smaller_arena(tmp_path: Path) -> None:
    path = put(tmp_path, badly_ordered())
    first, second = (
        native_model(open_tflite(path), TARGET, PlanRequest(order=order)).planned.memory.arena_bytes for order in ORDERS
    )
    assert first > second


def badly_ordered() -> Model:
    """Return branches whose wide tensors are all computed before any is reduced."""
    net = Net()
    x = net.arena(1, 8, 8, 1)
    wide = [net.op("PAD", [x, net.constant([0, 0, 0, 0, 0, 0, 0, 15], 4, 2)], 1, 8, 8, 16) for _ in range(3)]
    narrow = [net.op("MEAN", [y, net.constant([1, 2, 3])], 1, keep_dims=False) for y in wide]
    return net.model([x], narrow)


@pytest.mark.parametrize(
    ("model", "where", "why"),
    [
        (unary_model("SIGN"), "net.tflite: operator 0", "cannot run SIGN: tflm-"),
        (not_native(), "net.tflite: operator 1", "does not support SIN"),
        (if_model(), "net.tflite: operator 0", "no control flow, which IF needs"),
    ],
    ids=["not TFLM", "not native", "control flow"],
)
def test_an_unsupported_model_is_refused_and_nothing_is_written(
    tmp_path: Path, model: Model, where: str, why: str
) -> None:
    path = put(tmp_path, model)
    out = tmp_path / "out"
    for work in (
        lambda: emit_native(path, TARGET, output=out),
        lambda: plan_native(path, None),
        lambda: verify_native(path),
        lambda: convert_file(ConvertRequest(path), TARGET, output=out),
    ):
        with pytest.raises(UnsupportedModelError, match=why) as raised:
            work()
        assert raised.value.where == where
    assert not out.exists()


def test_the_option_of_programs_for_tflm_is_rejected(tmp_path: Path) -> None:
    path, request = put(tmp_path, conv_model()), FirmwareRequest(data="incbin")
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="--data"):
        emit_native(path, TARGET, output=out, request=request)
    with pytest.raises(UsageError, match="--data"):
        convert_file(ConvertRequest(path), TARGET, output=out, firmware=request)
    assert not out.exists()


@pytest.mark.parametrize(
    ("request_", "option"),
    [(PlanRequest(sharing="greedy"), "--sharing"), (PlanRequest(constants_in_ram=True), "--constants-in-ram")],
    ids=["sharing", "constants"],
)
def test_plans_of_tflm_are_rejected(tmp_path: Path, request_: PlanRequest, option: str) -> None:
    with pytest.raises(UsageError, match=option):
        plan_native(put(tmp_path, conv_model()), TARGET, request=request_)


def test_files_that_exist_are_kept(tmp_path: Path) -> None:
    path = put(tmp_path, conv_model())
    emit_native(path, TARGET, output=tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    with pytest.raises(EdgetoolError, match="exists"):
        emit_native(path, TARGET, output=tmp_path / "out", name="net")
    emit_native(path, TARGET, output=tmp_path / "out", force=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before


def test_convert_delivers_the_model_with_its_code(tmp_path: Path) -> None:
    path = put(tmp_path, residual_model())
    converted = convert_file(ConvertRequest(path), TARGET, output=tmp_path / "out", firmware=FirmwareRequest("cmake"))
    emitted = contents(emit_native(path, TARGET, output=tmp_path / "emitted", request=FirmwareRequest("cmake")))
    written = {file.name: file.read_bytes() for file in converted.files}
    report = parse_reports(written.pop("net.json").decode())[0]
    assert report == converted.report
    assert written.pop("net.tflite") == path.read_bytes()
    assert written == emitted


def test_convert_writes_nothing_if_the_model_must_fit(tmp_path: Path) -> None:
    path = put(tmp_path, residual_model())
    small = TARGET.with_overrides(sram_bytes=64)
    converted = convert_file(ConvertRequest(path), small, output=tmp_path / "out", strict=True)
    assert [finding.rule for finding in converted.report.findings if finding.level == "error"] == ["arena-too-large"]
    assert converted.files == ()
    assert not (tmp_path / "out").exists()


def test_compare_shows_both_arenas(tmp_path: Path) -> None:
    first, second = put(tmp_path, conv_model(), "first"), put(tmp_path, residual_model(), "second")
    compared = compare_models(first, second, "cortex-m7", overrides={"runtime": "native"})
    arenas = [native_model(open_tflite(path), TARGET).planned.memory.arena_bytes for path in (first, second)]
    (change,) = (item for item in compared.compare.figures if item.figure == "arena_bytes")
    assert [change.a, change.b] == arenas
