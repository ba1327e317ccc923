"""The firmware of several models that share one arena."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edgetool.errors import EdgetoolError, OutputError, UnsupportedModelError, UsageError
from edgetool.memory.account import Tenant, account_model, account_shared
from edgetool.memory.planner import plan_memory
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.pipeline.emit import EmittedShared, emit_shared
from edgetool.pipeline.firmware import FirmwareRequest
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_named
from edgetool.report.json import documents, parse_reports, to_json
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.memory.account_net import Net
from tests.model.builders import Builder, chain_model, conv_model, dense_model, residual_model, unary_model

TARGET = load_target("cortex-m7")
BUILD = platform_of(TARGET)
OWN = ("{}.h", "{}_model.h", "{}_model.c", "{}_ops.h", "{}_runner.h", "{}_runner.cc")


def put(directory: Path, **models: Model) -> list[Path]:
    """The models as files of these names."""
    paths = []
    for name, model in models.items():
        paths.append(directory / f"{name}.tflite")
        paths[-1].write_bytes(write_model(model))
    return paths


def rules(emitted: EmittedShared) -> list[str]:
    return [finding.rule for finding in emitted.arena.findings]


def macro(text: str, name: str) -> int:
    found = re.search(rf"^#define {name} (\d+)$", text, re.MULTILINE)
    assert found is not None, name
    return int(found[1])


def test_every_file_is_there_and_says_what_the_account_says(tmp_path: Path) -> None:
    paths = put(tmp_path, vision=residual_model(), motion=dense_model())
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out")
    own = [file.format(name) for name in ("vision", "motion") for file in OWN]
    assert [path.name for path in emitted.files] == [*own, "shared_arena.h", "shared_arena.cc", "main.cc"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in emitted.files)
    account = account_shared([Tenant(residual_model()), Tenant(dense_model())], BUILD)
    text = (tmp_path / "out" / "shared_arena.h").read_text()
    assert macro(text, "SHARED_ARENA_BYTES") == account.bytes == emitted.arena.bytes
    assert macro(text, "SHARED_MODELS_BYTES") == sum(path.stat().st_size for path in paths)
    for name in ("vision", "motion"):
        assert "shared_arena_allocator()" in (tmp_path / "out" / f"{name}_runner.cc").read_text()
        assert "shared_arena.h" in (tmp_path / "out" / f"{name}.h").read_text()
    main = (tmp_path / "out" / "main.cc").read_text()
    assert 0 < main.index("vision_runner::init()") < main.index("motion_runner::init()")


def test_one_model_that_needs_a_general_kernel_is_enough(tmp_path: Path) -> None:
    build = Builder()
    x, y = (build.tensor([1, 4], DType.FLOAT32) for _ in range(2))
    build.operator("SOFTMAX", [x], [y])
    emit_shared(put(tmp_path, vision=residual_model(), motion=build.model([x], [y])), TARGET, output=tmp_path / "out")
    text = (tmp_path / "out" / "vision_ops.h").read_text()
    assert "AddSoftmax()" in text
    assert "AddFullyConnected(VISION_KERNEL(Register_FULLY_CONNECTED_INT8))" in text
    assert "AddSoftmax()" in (tmp_path / "out" / "motion_ops.h").read_text()


def test_the_document_has_the_arena_beside_the_reports(tmp_path: Path) -> None:
    paths = put(tmp_path, vision=residual_model(), motion=dense_model())
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out", name="both")
    alone = [account_model(model, BUILD) for model in (residual_model(), dense_model())]
    document = json.loads(to_json(documents(emitted.reports, emitted.arena)))
    assert list(document) == ["schema", "reports", "shared_arena"]
    assert [report["arena"]["bytes"] for report in document["reports"]] == [account.bytes for account in alone]
    assert [report["provenance"]["options"]["name"] for report in document["reports"]] == ["vision", "motion"]
    assert parse_reports(to_json(document)) == emitted.reports
    shared = document["shared_arena"]
    assert (
        list(shared)
        == (
            "name bytes used_bytes head_bytes tail_bytes is_lower_bound fits separate_bytes order best_order "
            "best_order_bytes models findings places placements"
        ).split()
    )
    assert shared["name"] == "both"
    assert shared["separate_bytes"] == sum(account.bytes for account in alone) > shared["bytes"]
    assert shared["used_bytes"] == shared["head_bytes"] + shared["tail_bytes"]
    assert shared["order"] == ["vision", "motion"]
    assert [list(model) for model in shared["models"]] == [["name", "head_bytes", "tail_bytes"]] * 2
    assert sum(model["tail_bytes"] for model in shared["models"]) == shared["tail_bytes"]
    assert shared["is_lower_bound"] is False
    assert shared["fits"] is None


def test_one_report_without_an_arena_is_a_document_of_its_own(tmp_path: Path) -> None:
    paths = put(tmp_path, a=conv_model(), b=dense_model())
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out")
    assert "reports" not in documents(emitted.reports[:1])
    assert "shared_arena" not in documents(emitted.reports)


def test_the_plan_in_each_file_counts(tmp_path: Path) -> None:
    paths = put(tmp_path, vision=residual_model(), motion=dense_model())
    plan_model(paths[0], TARGET, output=tmp_path / "planned.tflite")
    emitted = emit_shared([tmp_path / "planned.tflite", paths[1]], TARGET, output=tmp_path / "out")
    planned = emitted.reports[0].arena
    assert planned is not None
    assert emitted.arena.models[0].head_bytes == planned.head_bytes


def test_a_better_order_is_reported_but_the_given_one_is_emitted(tmp_path: Path) -> None:
    paths = put(tmp_path, small=conv_model(), chain=chain_model(60))
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out")
    assert rules(emitted) == ["shared-arena-order"]
    assert emitted.arena.order == ("small", "chain")
    assert emitted.arena.best_order == ("chain", "small")
    assert emitted.arena.bytes is not None
    assert emitted.arena.best_order_bytes is not None
    assert emitted.arena.best_order_bytes < emitted.arena.bytes
    assert "chain, small" in emitted.arena.findings[0].message
    better = emit_shared(paths[::-1], TARGET, output=tmp_path / "better")
    assert better.arena.bytes == emitted.arena.best_order_bytes
    assert rules(better) == []


@pytest.mark.parametrize("name", [None, "cortex-m7"])
def test_a_lower_bound_is_reported(tmp_path: Path, name: str | None) -> None:
    """Without a target, or with an operator whose kernel nobody knows."""
    paths = put(tmp_path, a=conv_model(), b=dense_model() if name is None else unary_model("GELU"))
    request = FirmwareRequest("plain" if name is None else "header")
    emitted = emit_shared(paths, resolve_named(name), output=tmp_path / "out", request=request)
    assert rules(emitted) == ["shared-arena-lower-bound"]
    assert emitted.arena.is_lower_bound
    assert (emitted.arena.best_order, emitted.arena.best_order_bytes) == (None, None)
    text = (tmp_path / "out" / "shared_arena.h").read_text()
    least = macro(text, "SHARED_ARENA_LOWER_BOUND_BYTES")
    assert least == (emitted.arena.bytes or max(plan_memory(m).layout.height for m in (conv_model(), dense_model())))
    assert "#define SHARED_ARENA_BYTES" not in text


def test_what_does_not_fit_is_reported(tmp_path: Path) -> None:
    paths = put(tmp_path, a=residual_model(), b=conv_model())
    size = sum(path.stat().st_size for path in paths)
    arena = account_shared([Tenant(residual_model()), Tenant(conv_model())], BUILD).bytes
    for sram, flash, expected in (
        (arena, size, []),
        (arena - 1, size, ["shared-arena-too-large"]),
        (arena, size - 1, ["models-too-large"]),
    ):
        target = resolve_named("cortex-m7", sram=sram, flash=flash)
        emitted = emit_shared(paths, target, output=tmp_path / "out", force=True)
        found = [rule for rule in rules(emitted) if rule != "shared-arena-order"]
        assert found == expected
        assert emitted.arena.fits is (sram == arena)


def test_header_alone_has_no_cpp(tmp_path: Path) -> None:
    paths = put(tmp_path, a=residual_model(), b=unary_model("GELU"))
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out", request=FirmwareRequest("header"))
    assert {path.suffix for path in emitted.files} == {".h", ".c"}
    assert "shared_arena.h" in [path.name for path in emitted.files]
    assert "allocator()" not in (tmp_path / "out" / "shared_arena.h").read_text()


def test_cmake_profile_and_incbin_have_their_files(tmp_path: Path) -> None:
    paths = put(tmp_path, a=residual_model(), b=conv_model())
    request = FirmwareRequest("cmake", "incbin", profile=True)
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out", request=request)
    names = {path.name for path in emitted.files}
    assert {"CMakeLists.txt", "a.tflite", "b.tflite", "a_model.S", "a_profile.cc", "b_profile.cc"} <= names
    assert (tmp_path / "out" / "b.tflite").read_bytes() == paths[1].read_bytes()
    assert "shared_arena.cc" in (tmp_path / "out" / "CMakeLists.txt").read_text()


def test_a_model_may_lie_where_the_assembler_reads_it(tmp_path: Path) -> None:
    paths = put(tmp_path, a=residual_model(), b=conv_model())
    emitted = emit_shared(paths, TARGET, output=tmp_path, request=FirmwareRequest(data="incbin"))
    names = [path.name for path in emitted.files]
    assert "a_model.S" in names
    assert "a.tflite" not in names
    assert paths[0].read_bytes() == write_model(residual_model())


def test_an_operator_that_tflm_lacks_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    paths = put(tmp_path, a=residual_model(), b=unary_model("GELU"))
    with pytest.raises(UnsupportedModelError, match="GELU"):
        emit_shared(paths, TARGET, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_state_that_a_plan_puts_where_the_others_write_is_refused(tmp_path: Path) -> None:
    net = Net(1)
    x = net.arena(1, 8)
    state = net.arena(1, 8, is_variable=True)
    model = net.model([x], [net.op("ADD", [x, state])])
    paths = put(tmp_path, b=conv_model(), keeps=model, moved=with_metadata(
        model, METADATA_NAME, encode_plan(model, {(0, 0): 0, (0, state): 64, (0, 2): 16})
    ))  # fmt: skip
    emit_shared(paths[:2], TARGET, output=tmp_path / "out")
    with pytest.raises(UnsupportedModelError, match="variable tensor 1"):
        emit_shared([paths[0], paths[2]], TARGET, output=tmp_path / "other")


def test_a_description_is_for_all_models(tmp_path: Path) -> None:
    paths = put(tmp_path, a=conv_model(), b=unary_model("ABS"))
    net = Net(2)
    x, y = net.arena(1, 4), net.arena(1, 4)
    net.custom("MyOp", [x], [y])
    paths += put(tmp_path, c=net.model([x], [y]))
    described = tmp_path / "ops.toml"
    described.write_text(
        '[[operator]]\nname = "MyOp"\ntemporary_inputs = [0]\n[[operator]]\nname = "Nobody"\ntemporary_inputs = [0]\n'
    )
    emitted = emit_shared(paths, TARGET, output=tmp_path / "out", custom_operators=described)
    assert not emitted.arena.is_lower_bound
    for report in emitted.reports:
        unused = [finding.message for finding in report.findings if finding.rule == "custom-operator-unused"]
        assert len(unused) == 1
        assert "Nobody" in unused[0]
        assert "MyOp" not in unused[0]


def refusal(paths: list[Path], tmp_path: Path, **options: object) -> EdgetoolError:
    with pytest.raises(EdgetoolError) as caught:
        emit_shared(paths, TARGET, output=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    return caught.value


def test_one_model_has_nothing_to_share(tmp_path: Path) -> None:
    error = refusal(put(tmp_path, a=conv_model()), tmp_path)
    assert isinstance(error, UsageError)
    assert "needs at least two models, not 1" in str(error)


def test_shared_buffers_are_something_else(tmp_path: Path) -> None:
    paths = put(tmp_path, a=conv_model(), b=dense_model())
    assert isinstance(refusal(paths, tmp_path, arena_style="buffers"), UsageError)
    assert isinstance(refusal(paths, tmp_path, sharing="greedy"), UsageError)


def test_the_same_model_twice_is_refused(tmp_path: Path) -> None:
    paths = put(tmp_path, a=conv_model(), b=conv_model())
    assert "is the same model as" in str(refusal(paths, tmp_path))
    assert isinstance(refusal([paths[0], paths[0]], tmp_path), UsageError)


@pytest.mark.parametrize(
    ("names", "group", "said"),
    [
        (("kws", "KWS"), None, "would have the name 'KWS' in C"),
        (("a b", "a_b"), None, "would have the name 'a_b' in C"),
        (("shared", "b"), None, "the arena shared"),
        (("kws", "b"), "KWS", "the arena KWS"),
        (("a", "a_model"), None, "both write a file a_model.h"),
        (("a", "both_arena"), "both", "both write a file both_arena.h"),
    ],
)
def test_names_that_collide_are_rejected(tmp_path: Path, names: tuple[str, str], group: str | None, said: str) -> None:
    paths = [tmp_path / str(position) / f"{name}.tflite" for position, name in enumerate(names)]
    for path, model in zip(paths, (conv_model(), dense_model()), strict=True):
        path.parent.mkdir()
        path.write_bytes(write_model(model))
    error = refusal(paths, tmp_path, name=group)
    assert isinstance(error, UsageError)
    assert said in str(error)
    assert error.fix


def test_a_name_that_c_cannot_have_is_refused(tmp_path: Path) -> None:
    error = refusal(put(tmp_path, a=conv_model(), b=dense_model()), tmp_path, name="9 lives")
    assert "is not a valid name" in str(error)


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    paths = put(tmp_path, a=conv_model(), b=dense_model())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "main.cc").write_text("mine")
    with pytest.raises(OutputError, match="already exists"):
        emit_shared(paths, TARGET, output=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["main.cc"]
    emit_shared(paths, TARGET, output=tmp_path / "out", force=True)
    assert (tmp_path / "out" / "main.cc").read_text() != "mine"


def test_the_directory_is_named_after_the_arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = put(tmp_path, a=conv_model(), b=dense_model())
    monkeypatch.chdir(tmp_path)
    assert {path.parent for path in emit_shared(paths, TARGET).files} == {Path("shared-firmware")}
    assert {path.parent for path in emit_shared(paths, TARGET, name="duo").files} == {Path("duo-firmware")}


def test_the_same_models_give_the_same_bytes(tmp_path: Path) -> None:
    paths = put(tmp_path, a=conv_model(), b=dense_model())
    first, second = (emit_shared(paths, TARGET, output=tmp_path / out).files for out in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
