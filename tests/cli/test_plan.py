"""edgetool plan, and what other commands make of a plan: whole processes.

What `plan` and `plan --explain` say: lines fit the terminal, and no part can be mistaken for another.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool.cli.plan import explain_view, tensor_map
from edgetool.memory.planner import plan_memory
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.plan import plan_model
from edgetool.report.document import PlanInfo, PlannedTensor
from edgetool.target.load import load_target
from tests.cli.program import edgetool
from tests.in_process import captured
from tests.model.builders import Builder, branches_model, if_model


def test_plan_prints_one_document(tflite: Path) -> None:
    result = edgetool("plan", tflite, "--target", "cortex-m7", "--json")
    document = json.loads(result.stdout)
    arena = document["arena"]
    assert arena["is_lower_bound"] is False
    assert arena["bytes"] % 16 == 0
    assert arena["bytes"] >= arena["used_bytes"] == arena["head_bytes"] + arena["tail_bytes"]
    assert arena["head_bytes"] == arena["layout_bytes"] >= arena["lower_bound_bytes"] > 0
    assert arena["stock_bytes"] >= arena["bytes"]
    assert {entry["part"] for entry in arena["breakdown"]} == {"tail", "head", "transient"}
    assert document["target"]["core"] == "cortex-m7"
    assert {"offset", "bytes", "first_op", "last_op", "index", "subgraph", "name"} == set(
        document["plan"]["tensors"][0]
    )


def test_without_a_target_the_arena_is_not_known(tflite: Path) -> None:
    arena = json.loads(edgetool("plan", tflite, "--json").stdout)["arena"]
    assert (arena["bytes"], arena["stock_bytes"], arena["is_lower_bound"]) == (None, None, True)
    shown = edgetool("plan", tflite, "--explain")
    assert "--explain needs a target" in " ".join(shown.stdout.split())


def test_explain_lists_every_part_of_the_arena(tflite: Path) -> None:
    shown = edgetool("plan", tflite, "--target", "cortex-m7", "--explain").stdout
    for words in ("GreedyMemoryPlanner", "operator 0 CONV_2D", "per-channel multipliers", "Invoke", "smaller than"):
        assert words in shown


def test_plan_writes_a_model_with_the_plan(tflite: Path, tmp_path: Path) -> None:
    output = tmp_path / "planned model.tflite"
    assert edgetool("plan", tflite, "-o", output, "-q").returncode == 0
    metadata = json.loads(edgetool("inspect", output, "--json").stdout)["metadata"]
    assert "OfflineMemoryAllocation" in [entry["name"] for entry in metadata]
    again = edgetool("plan", tflite, "-o", output)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    over = edgetool("plan", output, "-o", output, "--force")
    assert (over.returncode, "would overwrite the input" in over.stderr) == (2, True)


def test_emit_reports_the_plan_in_the_file(tflite: Path, tmp_path: Path) -> None:
    small = read_model(tflite.read_bytes())
    plan = plan_memory(small)
    assert plan.offsets is not None
    far = {key: offset + 2**20 for key, offset in plan.offsets.items()}
    moved = with_metadata(small, METADATA_NAME, encode_plan(small, far))
    (tmp_path / "moved.tflite").write_bytes(write_model(moved))
    result = edgetool("emit", "moved.tflite", "-t", "nucleo-l4r5zi", "--json", cwd=tmp_path)
    document = json.loads(result.stdout)
    assert document["arena"]["layout_bytes"] == plan.layout.height + 2**20
    assert document["memory"]["arena_fits"] is False
    assert [tensor["offset"] for tensor in document["plan"]["tensors"]] == list(far.values())


def test_a_plan_in_the_file_is_honoured_unless_replan(tflite: Path, tmp_path: Path) -> None:
    small = read_model(tflite.read_bytes())
    plan = plan_memory(small)
    assert plan.offsets is not None
    far = {key: offset + 2**20 for key, offset in plan.offsets.items()}
    (tmp_path / "moved.tflite").write_bytes(write_model(with_metadata(small, METADATA_NAME, encode_plan(small, far))))
    arguments = ("plan", "moved.tflite", "-t", "cortex-m7", "--json")
    kept = json.loads(edgetool(*arguments, cwd=tmp_path).stdout)
    assert kept["arena"]["bytes"] > 2**20 > kept["arena"]["stock_bytes"]
    assert {"plan-in-file", "plan-worse-than-stock"} <= {finding["rule"] for finding in kept["findings"]}
    anew = json.loads(edgetool(*arguments, "--replan", cwd=tmp_path).stdout)
    assert anew["arena"]["bytes"] <= anew["arena"]["stock_bytes"] < 2**20


@pytest.mark.slow
def test_a_plan_made_for_another_build_is_reported(tflite: Path, tmp_path: Path) -> None:
    edgetool("plan", tflite, "-t", "cortex-m7", "-o", tmp_path / "m7.tflite", "-q")
    for target, reported in (("cortex-m7", False), ("cortex-m0plus", True)):
        document = json.loads(edgetool("plan", "m7.tflite", "-t", target, "--json", cwd=tmp_path).stdout)
        assert ("plan-for-other-build" in {finding["rule"] for finding in document["findings"]}) is reported


def test_an_unsafe_plan_is_refused_by_name(tflite: Path, tmp_path: Path) -> None:
    small = read_model(tflite.read_bytes())
    plan = plan_memory(small)
    assert plan.offsets is not None
    (tmp_path / "unsafe.tflite").write_bytes(
        write_model(with_metadata(small, METADATA_NAME, encode_plan(small, dict.fromkeys(plan.offsets, 0))))
    )
    refused = edgetool("plan", "unsafe.tflite", "-t", "cortex-m7", cwd=tmp_path)
    assert refused.returncode == 3
    assert "overlap" in refused.stderr
    assert "--replan" in refused.stderr
    replaced = edgetool("plan", "unsafe.tflite", "-t", "cortex-m7", "--replan", "-o", "safe.tflite", cwd=tmp_path)
    assert replaced.returncode == 0
    assert edgetool("plan", "safe.tflite", "-t", "cortex-m7", cwd=tmp_path).returncode == 0


def test_plan_starts_without_heavy_libraries(tflite: Path) -> None:
    code = (
        "import sys\nfrom edgetool.cli.main import cli\n"
        f"cli.main(['plan', {str(tflite)!r}, '--target', 'cortex-m7', '-q'], standalone_mode=False)\n"
        "print([n for n in ('tensorflow', 'keras', 'ai_edge_litert', 'h5py', 'numpy') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_order_is_reported_and_can_be_kept(tmp_path: Path) -> None:
    model = tmp_path / "two branches.tflite"
    model.write_bytes(write_model(branches_model()))
    best = edgetool("plan", model, "--target", "cortex-m7").stdout
    assert "1 of 5 operators moved" in " ".join(best.split())
    assert "is minimal" in " ".join(best.split())
    kept = json.loads(edgetool("plan", model, "--target", "cortex-m7", "--order", "original", "--json").stdout)
    assert kept["plan"]["order"] == [0, 1, 2, 3, 4]
    assert kept["plan"]["moved"] == 0
    assert kept["plan"]["live_lower_bound_bytes"] is None


@pytest.mark.slow
def test_every_strategy_and_sharing_plans(tmp_path: Path) -> None:
    model = tmp_path / "branches.tflite"
    model.write_bytes(write_model(branches_model()))
    sizes = {}
    for option in ("optimal", "greedy", "tflm"):
        result = edgetool("plan", model, "--target", "cortex-m7", "--strategy", option, "--json")
        sizes[option] = json.loads(result.stdout)["arena"]["layout_bytes"]
    assert sizes["optimal"] <= min(sizes.values())
    shared = edgetool("plan", model, "--sharing", "greedy")
    assert "unshared" in shared.stdout
    assert edgetool("plan", model, "--sharing", "greedy", "--strategy", "tflm").returncode == 2
    loaded = edgetool("plan", model, "--constants-in-ram")
    assert "with constants" in loaded.stdout
    assert edgetool("plan", model, "--constants-in-ram", "-o", tmp_path / "x.tflite").returncode == 2


def test_an_arena_without_constants_cannot_be_explained_with_them(tflite: Path) -> None:
    result = edgetool("plan", tflite, "--target", "cortex-m7", "--constants-in-ram", "--explain")
    assert (result.returncode, result.stdout) == (2, "")
    assert "omit --explain" in result.stderr


@pytest.mark.slow
def test_several_targets_are_planned_one_after_the_other(tflite: Path, tmp_path: Path) -> None:
    targets = ("-t", "rpi-pico", "-t", "cortex-m7")
    reports = json.loads(edgetool("plan", tflite, *targets, "--json").stdout)["reports"]
    assert [report["target"]["name"] for report in reports] == ["rpi-pico", "cortex-m7"]
    alone = json.loads(edgetool("plan", tflite, "-t", "rpi-pico", "--json").stdout)
    assert reports[0]["arena"] == alone["arena"]
    for more in ((), ("--explain",)):
        shown = edgetool("plan", tflite, *targets, *more).stdout
        for name in ("rpi-pico", "cortex-m7"):
            single = edgetool("plan", tflite, "-t", name, *more).stdout.splitlines()
            assert set(single[:-2]) <= set(shown.splitlines())  # all but the verdict
        assert shown.splitlines()[-1].startswith("  Fits 1 of 2 targets")
    refused = edgetool("plan", tflite, *targets, "-o", tmp_path / "planned.tflite")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--output writes the plan for one target, but 2 were specified" in refused.stderr
    assert not (tmp_path / "planned.tflite").exists()


NAME = "ACustomOperatorWithALongName"
DESCRIBED = f'[[operator]]\nname = "{NAME}"\npersistent = [16]\nscratch = [320, 80]\n'
# Columns that lines without anything to cut or wrap need.
COLUMNS = 80


def custom_model() -> Model:
    build = Builder()
    x = build.activation(
        [1, 4, 4, 2], name="a tensor with a name that is as long as those that converters make of layers"
    )
    y = build.activation([1, 4, 4, 2])
    build.operator("CUSTOM", [x], [y], custom_code=NAME)
    return build.model([x], [y])


def explained(folder: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    (folder / "model.tflite").write_bytes(write_model(model))
    (folder / "ops.toml").write_text(DESCRIBED)
    return explain_view(
        plan_model(folder / "model.tflite", load_target("cortex-m7"), custom_operators=folder / "ops.toml")
    )


def test_several_scratch_buffers_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = " ".join(" ".join(explained(tmp_path, custom_model(), monkeypatch)).split())
    assert "head: 320 B scratch (buffer 0), 80 B scratch (buffer 1)" in shown


def test_the_head_fits_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = explained(tmp_path, custom_model(), monkeypatch)
    assert any("scratch: buffer 0" in line and NAME in line for line in lines)
    assert max(map(len, lines)) <= COLUMNS + len("\x1b[1m\x1b[0m")


def test_tensors_of_later_subgraphs_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = explained(tmp_path, if_model(), monkeypatch)
    head = lines[next(i for i, line in enumerate(lines) if "at its peak" in line) :]
    assert any("subgraph 1: tensor 0" in line for line in head)
    assert any(line.split()[1:3] == ["tensor", "0:"] for line in head)


def test_the_map_of_a_model_without_operators_names_no_range() -> None:
    header, row = tensor_map(PlanInfo((0,), (PlannedTensor(0, 0, "x", 0, 16, 0, -1),)), 40)
    assert "-1" not in header
    assert "never" in row


def test_places_are_shown_with_their_memories(tflite: Path) -> None:
    place = ("--target", "nucleo-h743zi2", "--place", "head=dtcm,tail=d3-sram")
    places = json.loads(captured("plan", tflite, *place, "--json").stdout)["places"]
    for explain in ((), ("--explain",)):
        lines = captured("plan", tflite, *place, *explain).stdout.splitlines()
        start = next(index for index, line in enumerate(lines) if line.split()[:1] == ["Places"])
        shown = [" ".join(line.replace("Places", "").split()) for line in lines[start : start + 3]]
        assert shown == [
            f"{item['part']} {item['bytes']:,} B of {item['memory_bytes']:,} B in {item['memory']}" for item in places
        ]


def test_auto_names_the_next_best_places(tflite: Path) -> None:
    shown = " ".join(captured("plan", tflite, "-t", "nucleo-h743zi2", "--place", "auto").stdout.split())
    assert "times are not compared: the profile lacks the speeds of these memories" in shown
    assert "next best: head in axi-sram, tail in dtcm" in shown


def test_places_that_are_too_small_are_named(tflite: Path) -> None:
    place = ("--place", "head=dtcm,tail=dtcm,model=d3-sram")
    result = captured("plan", tflite, "-t", "nucleo-h743zi2", *place, "--json")
    size = json.loads(result.stdout)["places"][0]["bytes"]
    assert size > 0
    profile = ("-t", "nucleo-h743zi2", "--arena-region", "dtcm", "--sram", "16")
    shown = captured("plan", tflite, *profile, *place).stdout
    assert "no: dtcm is too small" in " ".join(shown.split())
    assert "Does not fit: dtcm has 16 bytes" in " ".join(shown.split())


def test_native_code_has_places_of_its_own(tflite: Path) -> None:
    native = ("plan", tflite, "-t", "nucleo-h743zi2", "--runtime", "native", "--place")
    result = captured(*native, "head=dtcm,tail=dtcm")
    assert (result.returncode, "native code has no head" in result.stderr) == (2, True)
    shown = " ".join(captured(*native, "arena=dtcm").stdout.split())
    assert "B of 131,072 B in dtcm constants" in shown
    assert "optimal: no placement of these buffers waits less" in shown
    shown = " ".join(captured(*native, "minimize=dtcm").stdout.split())
    assert "optimal: no placement takes fewer bytes of dtcm" in shown
