"""The gate as a library call: files in, judged reports and a lock file out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import InvalidModelError, ModelError, OutputError, TargetError, UsageError
from edgetool.gate.limits import Allowance, ModelLimits, parse_budget
from edgetool.gate.lock_file import parse_lock
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.plan import plan_model
from edgetool.report.json import documents, parse_reports, to_json
from edgetool.target.load import load_target
from edgetool.target.types import Target
from tests.model.builders import branches_model, chain_model, conv_model, if_model, residual_model, unary_model
from tests.model.mutants import mutants
from tests.pipeline.checks import BOARD, check, failed, gate, lock_of, write

OTHER = load_target("nucleo-f103rb")
BARE = load_target("cortex-m4")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_that_fits_passes(folder: Path) -> None:
    checked = check(write(residual_model(), "models/m.tflite"))
    assert checked.passed
    assert gate(checked).path == "models/m.tflite"
    assert lock_of(checked).state == "missing"
    assert list(folder.iterdir()) == [folder / "models"]  # nothing is written


def test_a_model_above_the_current_directory_is_called_as_the_user_did(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(conv_model())
    assert gate(check(folder / "m.tflite")).path == "m.tflite"
    below = folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert gate(check(Path("..") / path)).path == "../m.tflite"


def test_causes_and_advice_of_an_arena_that_is_too_large(folder: Path) -> None:
    checked = check(write(branches_model()), limits=ModelLimits(max_arena_bytes=4096))
    (item,) = (item for item in gate(checked).judgements if item.rule == "max-arena")
    assert item.passed is False
    assert item.over == item.value - 4096  # type: ignore[operator]
    assert item.causes[0].startswith("operator ")
    assert any(" B: tensor " in cause and "output of operator" in cause for cause in item.causes)
    planned = plan_model(Path("m.tflite"), BOARD).arena
    assert planned is not None
    assert f"an arena of {planned.bytes:,} B" in item.advice[0]


def test_the_file_is_judged_as_it_is_with_its_plan_or_without(folder: Path) -> None:
    path = write(branches_model())
    stock = check(path).reports[0].arena
    plan_model(path, BOARD, output=Path("planned.tflite"))
    checked = check(Path("planned.tflite"), limits=ModelLimits(max_arena_bytes=16))
    planned = checked.reports[0].arena
    assert stock is not None
    assert planned is not None
    assert planned.bytes < stock.bytes == stock.stock_bytes  # type: ignore[operator]
    (item,) = (item for item in gate(checked).judgements if item.rule == "max-arena")
    assert not any("edgetool plan" in advice for advice in item.advice)  # it has the best one


def test_larger_regions_are_named(folder: Path) -> None:
    board = load_target("stm32f769i-disco")
    outside = [region.name for region in board.regions if region.kind == "external-ram"]
    small = board.with_overrides(sram_bytes=16 * 1024)
    checked = check(write(branches_model()), targets=(small,), limits=ModelLimits(reserve_bytes=15 * 1024))
    (item,) = (item for item in gate(checked).judgements if item.rule == "arena")
    assert item.passed is False
    assert [advice for advice in item.advice if "--arena-region" in advice] == [
        advice for name in outside for advice in item.advice if f"(--arena-region {name})" in advice
    ]
    assert sum("--arena-region" in advice for advice in item.advice) == len(outside) == 1


def test_an_operator_that_tflm_lacks_fails_by_name(folder: Path) -> None:
    checked = check(write(unary_model("GELU")))
    assert failed(checked) == ["operators", "arena-known"]
    (item, _) = (item for item in gate(checked).judgements if item.passed is False)
    assert item.causes == ("operator 0 GELU",)


def test_a_bare_core_judges_no_memory(folder: Path) -> None:
    checked = check(write(conv_model()), targets=(BARE,))
    assert checked.passed
    unjudged = [item.rule for item in gate(checked).judgements if item.passed is None]
    assert unjudged == ["arena", "flash", "lock"]


def test_budgets_are_reported_and_the_active_one_rejects(folder: Path) -> None:
    path = write(residual_model())
    arena = check(path).reports[0].arena
    assert arena is not None
    size = arena.bytes
    assert size is not None
    budgets = (parse_budget(str(size)), parse_budget(str(size - 1)), parse_budget(f"{size}:ram"), parse_budget("1MiB"))
    limits = ModelLimits(reserve_bytes=1, budgets=budgets)
    tracked = check(path, limits=limits)
    assert tracked.passed
    assert gate(tracked).violations == {
        f"violates_{size}b": False,
        f"violates_{size - 1}b": True,
        f"violates_{size}b_ram": True,
        "violates_1mib": False,
    }
    memory = tracked.reports[0].memory
    assert memory is not None
    assert {item.name: item.violated for item in memory.budgets} == gate(tracked).violations
    active = check(path, limits=replace(limits, active_budget=budgets[2]))
    assert failed(active) == ["active-budget"]
    assert gate(active).violations == gate(tracked).violations  # it was tracked already
    assert check(path, limits=replace(limits, active_budget=budgets[0])).passed


@pytest.mark.parametrize(
    ("limits", "target", "said"),
    [
        (ModelLimits(reserve_bytes=1), BARE, "--reserve reserves memory"),
        (ModelLimits(reserve_flash_bytes=1), BARE, "--reserve-flash reserves memory"),
        (ModelLimits(reserve_bytes=2**30), BOARD, "leaves nothing"),
        (ModelLimits(reserve_flash_bytes=2**30), BOARD, "leaves nothing"),
    ],
)
def test_reserves_must_be_of_a_memory_that_holds_them(
    folder: Path, limits: ModelLimits, target: Target, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        check(write(conv_model()), targets=(target,), limits=limits)


def test_a_reserve_on_a_bare_core_may_count_towards_a_budget(folder: Path) -> None:
    limits = ModelLimits(reserve_bytes=1000, active_budget=parse_budget("1000:ram"))
    assert failed(check(write(conv_model()), targets=(BARE,), limits=limits)) == ["active-budget"]


def test_the_lock_reports_what_changed_and_why(folder: Path) -> None:
    path = write(chain_model(3))
    first = check(path, update=True)
    assert (first.written, lock_of(first).state) == (Path("edgetool.lock"), "updated")
    assert lock_of(check(path)).state == "equal"
    assert check(path, locked=True).passed
    write(chain_model(5))
    grown = check(path)
    assert failed(grown) == ["growth", "growth", "growth"]
    changes = {item.figure: item for item in lock_of(grown).changes}
    arena = changes["arena_bytes"]
    assert not arena.allowed
    sizes = [int(cause.partition(" B: ")[0].replace(",", "")) for cause in arena.causes]
    assert sum(sizes) == arena.after - arena.before  # type: ignore[operator]
    assert any("operator" in cause and "which is new" in cause for cause in arena.causes)
    assert check(path, allowance=Allowance(percent=200)).passed
    assert check(path, update=True).passed
    assert check(path, locked=True).passed
    write(chain_model(2))
    assert check(path).passed  # it shrank
    assert failed(check(path, locked=True)) == ["lock"]


def test_the_lock_keeps_other_models_and_targets(folder: Path) -> None:
    a, b = write(conv_model(), "a.tflite"), write(chain_model(2), "b.tflite")
    check(a, b, targets=(BOARD, OTHER), update=True)
    check(a, update=True)
    a_again = write(chain_model(4), "a.tflite")
    check(a_again, update=True)
    lock = parse_lock(Path("edgetool.lock").read_text(encoding="ascii"), where="x")
    assert {path: set(targets) for path, targets in lock.items()} == {
        name: {BOARD.name, OTHER.name} for name in ("a.tflite", "b.tflite")
    }
    assert lock["a.tflite"][BOARD.name].sha256 != lock["a.tflite"][OTHER.name].sha256
    b.unlink()
    (notice,) = check(a, update=True).notices
    assert "b.tflite, which does not exist" in notice


def test_a_model_of_another_target_or_none_is_reported(folder: Path) -> None:
    a, b = write(conv_model(), "a.tflite"), write(conv_model(), "b.tflite")
    check(a, update=True)
    for path, target, state in ((a, OTHER, "other-target"), (b, BOARD, "not-in-lock")):
        checked = check(path, targets=(target,))
        assert (checked.passed, lock_of(checked).state) == (True, state)
        assert failed(check(path, targets=(target,), locked=True)) == ["lock"]


def test_a_changed_profile_and_clock_are_reported_beside_the_growth(folder: Path) -> None:
    path = write(conv_model())
    check(path, update=True)
    slow = BOARD.with_overrides(clock_hz=10_000_000)
    checked = check(path, targets=(slow,))
    assert failed(checked) == ["growth"]
    assert [text.split(" changed")[0] for text in lock_of(checked).inputs] == ["the target's figures"]
    (item,) = (item for item in gate(checked).judgements if item.rule == "growth" and item.passed is False)
    assert "the model file is the same, but the target's figures changed" in item.message


def test_the_lock_is_the_same_bytes_anywhere_and_is_left_alone_when_equal(folder: Path) -> None:
    path = write(residual_model(), "models/m.tflite")
    check(path, update=True)
    blob = Path("edgetool.lock").read_bytes()
    stamp = Path("edgetool.lock").stat().st_mtime_ns
    assert check(path, update=True).written is None
    assert Path("edgetool.lock").stat().st_mtime_ns == stamp
    elsewhere = folder / "else" / "where"
    elsewhere.mkdir(parents=True)
    other = elsewhere / "models"
    other.mkdir()
    (other / "m.tflite").write_bytes(path.read_bytes())
    check(other / "m.tflite", lock=elsewhere / "edgetool.lock", update=True)
    assert (elsewhere / "edgetool.lock").read_bytes() == blob
    assert str(folder).encode() not in blob
    assert b"\r" not in blob


def test_a_model_beside_the_lock_folder_has_a_relative_name(folder: Path) -> None:
    path = write(conv_model(), "models/m.tflite")
    Path("ci").mkdir()
    check(path, lock=Path("ci/edgetool.lock"), update=True)
    assert list(parse_lock(Path("ci/edgetool.lock").read_text("ascii"), where="x")) == ["../models/m.tflite"]


def test_a_broken_model_among_several_ends_it_before_anything_is_written(folder: Path) -> None:
    good, bad = write(conv_model(), "good.tflite"), Path("bad.tflite")
    bad.write_bytes(b"no model")
    with pytest.raises(InvalidModelError):
        check(good, bad, update=True)
    assert not Path("edgetool.lock").exists()


def test_conflicting_requests_are_rejected(folder: Path) -> None:
    path = write(conv_model())
    with pytest.raises(UsageError, match="--update and --locked are mutually exclusive"):
        check(path, update=True, locked=True)
    with pytest.raises(TargetError, match="specified twice"):
        check(path, targets=(BOARD, BOARD.with_overrides(kernels="reference")))
    with pytest.raises(UsageError, match="nothing to check"):
        check()
    Path("edgetool.lock").write_text("{", encoding="ascii")
    with pytest.raises(UsageError, match="not valid JSON"):
        check(path, update=True)
    with pytest.raises(OutputError):
        check(path, lock=Path("no folder/edgetool.lock"), update=True)
    with pytest.raises(UsageError, match="directory"):
        check(path, lock=Path())


def test_the_same_model_twice_is_judged_once(folder: Path) -> None:
    path = write(conv_model())
    assert len(check(path, path).reports) == 1


def test_the_document_reads_back(folder: Path) -> None:
    path = write(branches_model())
    limits = ModelLimits(max_arena_bytes=16, max_latency_ms=0.001, budgets=(parse_budget("1KiB"),))
    check(path, update=True)
    reports = check(path, targets=(BOARD, OTHER), limits=limits).reports
    text = to_json(documents(reports))
    assert parse_reports(text) == reports
    assert json.loads(text)["reports"][0]["check"]["passed"] is False


def test_nothing_is_printed_and_no_numpy_is_loaded(folder: Path) -> None:
    write(conv_model())
    code = (
        "import sys; from pathlib import Path; from edgetool.pipeline.check import check_models;"
        "from edgetool.target.load import load_target;"
        "check_models([Path('m.tflite')], [load_target('nucleo-f446re')]);"
        "heavy = {'numpy', 'tensorflow', 'keras', 'ai_edge_litert', 'click'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("model", [residual_model(), if_model()], ids=["residual", "if"])
def test_damaged_models_are_refused_or_judged_and_their_changes_add_up(folder: Path, model: Model) -> None:
    limits = ModelLimits(max_arena_bytes=16, max_latency_ms=1e-6)
    path, judged = write(model), 0
    check(path, update=True)
    for blob in mutants(write_model(model), 60, seed=6):
        path.write_bytes(blob)
        try:
            checked = check(path, limits=limits)
        except ModelError:
            continue
        judged += 1
        for change in lock_of(checked).changes:
            if change.causes and change.unit == "B":
                sizes = [int(cause.partition(" B: ")[0].replace(",", "")) for cause in change.causes]
                assert sum(sizes) == change.after - change.before  # type: ignore[operator]
        check(path, update=True)
        assert lock_of(check(path, locked=True)).state == "equal"
    assert judged >= 3
