"""Models in stripes as a user plans them: what is saved, what it costs, and when it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgetool.model.metadata import changes_of, with_changes
from edgetool.model.reader import read_model
from edgetool.model.views import views_of
from edgetool.model.writer import write_model
from edgetool.pipeline import front as pipeline_front
from tests.in_process import captured
from tests.passes.test_stripes import CONV, DEPTHWISE, convolutions

TARGET = ("--target", "cortex-m7", "--kernels", "reference")


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose largest tensors are those of its first two operators."""
    path = tmp_path_factory.mktemp("models") / "images.tflite"
    steps = (CONV, 1, 1, "SAME"), (DEPTHWISE, 5, 1, "SAME"), (DEPTHWISE, 3, 2, "SAME"), (CONV, 1, 1, "SAME")
    path.write_bytes(write_model(convolutions(*steps, height=96, width=32, channels=8, wider=(0, 3))))
    return path


def arena(document: str) -> int:
    found = json.loads(document)["arena"]["bytes"]
    assert isinstance(found, int)
    return found


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_extra_work_buys_a_smaller_arena(tflite: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    planned = tmp_path / "striped.tflite"
    whole = arena(captured("plan", tflite, *TARGET, "--json").stdout)
    done = captured("plan", tflite, *TARGET, "--max-extra-macs", "10", "--json", "-o", planned)
    assert arena(done.stdout) < 0.85 * whole
    (note,) = [item for item in json.loads(done.stdout)["findings"] if item["rule"] == "stripes"]
    assert "stripes with" in note["message"]
    assert views_of(read_model(planned.read_bytes()))
    read = captured("plan", planned, *TARGET, "--json")
    assert arena(read.stdout) == arena(done.stdout)
    rules = {item["rule"] for item in json.loads(read.stdout)["findings"]}
    assert not rules & {"never-written", "dead-tensors", "plan-worse-than-stock"}
    verified = captured("verify", planned, "--target", "x86-64", "--json")
    assert verified.returncode == 0
    document = json.loads(verified.stdout)["verify"]
    assert document["passed"]


def test_without_extra_work_nothing_changes_that_costs_any(tflite: Path) -> None:
    refused = captured("plan", tflite, *TARGET, "--max-extra-macs", "-1")
    assert (refused.returncode, "outside the range 0 to" in words(refused.stderr)) == (2, True)
    some = captured("plan", tflite, *TARGET, "--max-extra-macs", "0", "--json")
    (note,) = [item for item in json.loads(some.stdout)["findings"] if item["rule"] == "stripes"]
    assert "no stripes" in note["message"] or "0.0 %" in note["message"]


@pytest.mark.slow
def test_products_in_pixel_order_take_no_extra_work(tflite: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    target, planned = ("--target", "cortex-m7", "--kernels", "cmsis-nn"), tmp_path / "ordered.tflite"
    whole = arena(captured("plan", tflite, *target, "--json").stdout)
    done = captured("plan", tflite, *target, "--max-extra-macs", "0", "--json", "-o", planned)
    assert arena(done.stdout) < 0.8 * whole
    (note,) = [item["message"] for item in json.loads(done.stdout)["findings"] if item["rule"] == "stripes"]
    assert note.startswith("1x1 convolutions in pixel order (1 operator with slower kernels) lower the arena from")
    assert "memory plan" not in note
    assert json.loads(captured("verify", planned, "--target", "x86-64", "--json").stdout)["verify"]["passed"]
    shrunk = captured("plan", tflite, *target, "--sram", str(arena(done.stdout)), "--shrink", "--json")
    assert json.loads(shrunk.stdout)["shrink"]["step"] == "pixel-order"
    front = captured("plan", tflite, *target, "--front", "--max-extra-macs", "0")
    assert "none: 1x1 convolutions in pixel order" in words(front.stdout)


def test_shrinking_does_what_the_target_requires(tflite: Path) -> None:
    whole = arena(captured("plan", tflite, *TARGET, "--json").stdout)
    easy = captured("plan", tflite, *TARGET, "--sram", str(whole), "--shrink")
    assert (easy.returncode, "no stripes are needed" in words(easy.stdout)) == (0, True)
    assert "overlap makes the model fit" in words(easy.stdout)
    ample = captured("plan", tflite, *TARGET, "--sram", "1MiB", "--shrink")
    assert (ample.returncode, "order and layout suffice" in words(ample.stdout)) == (0, True)
    sram = whole * 85 // 100
    tight = captured("plan", tflite, *TARGET, "--sram", str(sram), "--shrink", "--json")
    assert tight.returncode == 0
    document = json.loads(tight.stdout)
    assert arena(tight.stdout) <= sram
    assert [item["step"] for item in document["shrink"]["steps"]] == ["layout", "overlap", "stripes"]
    assert document["shrink"]["steps"][-1]["arena_bytes"] == arena(tight.stdout)
    assert document["plan"]["stripes"]["extra_macs_percent"] > 0
    assert document["plan"]["stripes"]["regions"]
    hopeless = captured("plan", tflite, *TARGET, "--sram", "2KiB", "--shrink")
    assert (hopeless.returncode, "bytes are missing" in words(hopeless.stderr)) == (1, True)
    unknown = captured("plan", tflite, *TARGET, "--shrink")
    assert (unknown.returncode, "none is known" in words(unknown.stderr)) == (2, True)


def test_shrinking_costs_no_more_than_it_must(tflite: Path) -> None:
    whole = arena(captured("plan", tflite, *TARGET, "--json").stdout)
    costs = []
    for share in (97, 80):
        sram = str(whole * share // 100)
        done = captured(
            "plan", tflite, "-t", "nucleo-f767zi", "--kernels", "reference", "--sram", sram, "--shrink", "--json"
        )
        document = json.loads(done.stdout)
        assert document["arena"]["bytes"] <= int(sram)
        before, after = (document["shrink"][f"latency_{when}_ms"]["value"] for when in ("before", "after"))
        assert before < after
        (note,) = [item["message"] for item in document["findings"] if item["rule"] == "shrunk"]
        assert "ms instead of" in note
        costs.append(document["plan"]["stripes"]["extra_macs"])
    assert costs[0] < costs[1]


def test_stripes_make_the_head_small_where_the_tail_has_a_memory_of_its_own(tflite: Path) -> None:
    def heads(place: str, *options: str) -> tuple[int, int, str]:
        done = captured("plan", tflite, "-t", "nucleo-h743zi2", "--place", place, *options, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        (note,) = [item["message"] for item in document["findings"] if item["rule"] in ("stripes", "shrunk")]
        return document["arena"]["head_bytes"], document["arena"]["tail_bytes"], note

    budget = "--max-extra-macs", "20"
    together = heads("head=dtcm,tail=dtcm", *budget)
    alone = heads("head=dtcm,tail=d3-sram", *budget)
    assert alone[0] < together[0]
    assert alone[1] > together[1]
    assert f"to {alone[0]:,} bytes" in alone[2]
    assert "lower the head from" in alone[2]
    assert "lower the arena from" in together[2]
    easy = heads("head=dtcm,tail=d3-sram", "--shrink")
    assert "the head takes" in easy[2]


def test_stripes_are_no_remedy_for_a_tail_without_room(tmp_path: Path) -> None:
    big = tmp_path / "big.tflite"
    steps = [(CONV, 1, 1, "SAME")] * 40
    big.write_bytes(write_model(convolutions(*steps, height=16, width=8, channels=200)))
    place = "-t", "nucleo-h743zi2", "--place", "head=dtcm,tail=d3-sram"
    refused = captured("plan", big, *place, "--shrink")
    assert (refused.returncode, "stripes would make it larger" in words(refused.stderr)) == (1, True)
    assert "--place" in refused.stderr
    noted = captured("plan", big, *place, "--max-extra-macs", "5")
    assert "stripes would make it larger" in words(noted.stdout)


def test_the_front_shows_what_a_smaller_arena_costs(tflite: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    picture = tmp_path / "front.svg"
    board = ("-t", "nucleo-f767zi", "--kernels", "reference")
    done = captured("plan", tflite, *board, "--front", "--front-svg", picture, "--verify", "--json")
    assert done.returncode == 0
    points = json.loads(done.stdout)["front"]
    assert [point["step"] for point in points] == ["overlap", *["stripes"] * (len(points) - 1)]
    assert len(points) > 2
    assert all(point["verified"] for point in points)
    for one, other in pairwise(points):
        assert one["arena_bytes"] > other["arena_bytes"]
        assert one["extra_macs"] < other["extra_macs"]
        assert one["latency_ms"]["value"] < other["latency_ms"]["value"]
    circles = [item for item in ElementTree.parse(picture).iter() if item.tag.endswith("circle")]
    assert len(circles) == len(points)
    # Each point can be planned for itself.
    for point in points[1:]:
        shrunk = captured("plan", tflite, *board, "--sram", str(point["arena_bytes"]), "--shrink", "--json")
        assert json.loads(shrunk.stdout)["plan"]["stripes"]["extra_macs"] <= point["extra_macs"]


@pytest.mark.slow
def test_the_front_names_the_first_plan_that_fits(tflite: Path) -> None:
    whole = arena(captured("plan", tflite, *TARGET, "--json").stdout)
    shown = captured("plan", tflite, *TARGET, "--sram", str(whole - 16), "--front").stdout
    (marked,) = [line for line in shown.splitlines() if line.startswith("*")]
    assert "in 2" in marked
    none = captured("plan", tflite, *TARGET, "--sram", "1KiB", "--front", "--max-extra-macs", "0").stdout
    assert "none fits the 1,024 B" in words(none)
    assert "no stripes make the arena smaller" in words(none)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--front", "--shrink", "--sram", "20KB"), "--shrink cannot be applied"),
        (("--front", "-o", "x.tflite"), "--output cannot be applied"),
        (("--front", "--explain"), "mutually exclusive"),
        (("--front", "--front-svg", "x.png"), "must be an .svg file"),
        (("--front", "-t", "rpi-pico", "--front-svg", "x.svg"), "for one target, but 2 were specified"),
        (("--front", "--runtime", "native"), "--front does not apply to native code"),
        (("--verify",), "--verify applies only to --front"),
        (("--front-svg", "x.svg"), "--front-svg applies only to --front"),
    ],
)
def test_options_that_a_front_does_not_have_are_refused(tflite: Path, options: tuple[str, ...], text: str) -> None:
    refused = captured("plan", tflite, "-t", "cortex-m7", *options)
    assert (refused.returncode, text in words(refused.stderr)) == (2, True), refused.stderr


def test_plans_that_compute_something_else_are_no_success(tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_front, "_comparison", lambda source: lambda planned: False)
    done = captured("plan", tflite, *TARGET, "--front", "--verify", "--max-extra-macs", "0")
    assert (done.returncode, "DIFFER" in done.stdout) == (1, True)
    assert "the outputs of 1 plans differ" in words(done.stderr)


@pytest.mark.slow
def test_convert_writes_the_firmware_of_a_model_in_stripes(tflite: Path, tmp_path: Path) -> None:
    whole = arena(captured("plan", tflite, *TARGET, "--json").stdout)
    sram = str(whole * 85 // 100)
    done = captured("convert", tflite, *TARGET, "--sram", sram, "--shrink", "--json", "-o", tmp_path / "out")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["provenance"]["options"]["shrink"] is True
    header = (tmp_path / "out" / "images.h").read_text(encoding="ascii")
    assert f"#define IMAGES_ARENA_BYTES {arena(done.stdout)}\n" in header
    planned = tmp_path / "out" / "images.tflite"
    assert views_of(read_model(planned.read_bytes()))
    assert arena(captured("plan", planned, *TARGET, "--json").stdout) == arena(done.stdout)
    again = captured("convert", tflite, *TARGET, "--max-extra-macs", "10", "--json", "-o", tmp_path / "other")
    assert arena(again.stdout) <= arena(done.stdout)
    hopeless = captured("convert", tflite, *TARGET, "--sram", "2KiB", "--shrink", "-o", tmp_path / "none")
    assert (hopeless.returncode, (tmp_path / "none").exists()) == (1, False)


def test_a_check_limits_the_extra_work_of_a_plan(tflite: Path, tmp_path: Path) -> None:
    planned, lock = tmp_path / "striped.tflite", ("--lock", tmp_path / "edgetool.lock")
    done = captured("plan", tflite, *TARGET, "--max-extra-macs", "10", "-o", planned, "--json")
    percent = json.loads(done.stdout)["plan"]["stripes"]["extra_macs_percent"]
    for limit, code in ((percent + 0.1, 0), (percent - 0.1, 1)):
        checked = captured("check", planned, *TARGET, *lock, "--max-extra-macs", str(limit), "--json")
        (item,) = [
            item for item in json.loads(checked.stdout)["check"]["judgements"] if item["rule"] == "max-extra-macs"
        ]
        assert (checked.returncode, item["passed"]) == (code, code == 0)
        assert item["value"] == percent
    assert captured("check", tflite, *TARGET, *lock, "--max-extra-macs", "0").returncode == 0
    refused = captured("check", tflite, *TARGET, *lock, "--max-extra-macs", "-1")
    assert (refused.returncode, "outside the range" in words(refused.stderr)) == (2, True)


def test_the_lock_file_says_how_an_arena_was_reached(tflite: Path, tmp_path: Path) -> None:
    model, lock = tmp_path / "model.tflite", tmp_path / "edgetool.lock"
    captured("plan", tflite, *TARGET, "-o", model)
    captured("check", model, *TARGET, "--lock", lock, "--update")
    (entry,) = json.loads(lock.read_text(encoding="ascii"))["entries"]["model.tflite"].values()
    assert (entry["reached"]["planner"], entry["reached"]["regions"]) == ("plan", [])
    assert entry["reached"]["overlaps"] > 0
    captured("plan", tflite, *TARGET, "--max-extra-macs", "10", "--force", "-o", model)
    changed = captured("check", model, *TARGET, "--lock", lock)
    assert "the arena is reached by the plan in the file" in words(changed.stdout)
    assert "stripes" in words(changed.stdout)
    captured("check", model, *TARGET, "--lock", lock, "--update")
    (entry,) = json.loads(lock.read_text(encoding="ascii"))["entries"]["model.tflite"].values()
    assert entry["reached"]["regions"] == ["0 to 2 in 3"]
    assert entry["reached"]["extra_macs"] > 0


def test_a_statement_that_does_not_match_the_work_of_a_file_is_ignored(tflite: Path, tmp_path: Path) -> None:
    planned, forged = tmp_path / "striped.tflite", tmp_path / "forged.tflite"
    captured("plan", tflite, *TARGET, "--max-extra-macs", "10", "-o", planned)
    model = read_model(planned.read_bytes())
    changes = changes_of(model)
    assert changes.extra_macs > 0
    forged.write_bytes(write_model(with_changes(model, replace(changes, extra_macs=0))))
    checked = captured("check", forged, *TARGET, "--lock", tmp_path / "x.lock", "--max-extra-macs", "400")
    assert (checked.returncode, "does not say" in words(checked.stdout)) == (1, True)


def test_a_page_shows_the_stripes(tflite: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = captured("report", tflite, *TARGET, "--max-extra-macs", "10", "-o", page)
    assert done.returncode == 0
    assert "lower the arena from" in page.read_text(encoding="utf-8")


def test_budgets_beyond_reason_are_refused(tflite: Path) -> None:
    for percent in ("-1", "nan", "401"):
        refused = captured("convert", tflite, *TARGET, "--max-extra-macs", percent)
        assert refused.returncode == 2, percent


def test_a_model_in_stripes_keeps_them(tflite: Path, tmp_path: Path) -> None:
    planned = tmp_path / "striped.tflite"
    captured("plan", tflite, *TARGET, "--max-extra-macs", "10", "-o", planned)
    again = captured("plan", planned, *TARGET, "--max-extra-macs", "20", "--replan")
    assert (again.returncode, "no other stripes can be chosen" in words(again.stderr)) == (2, True)
    replanned = captured("plan", planned, *TARGET, "--replan", "--json")
    assert replanned.returncode == 0
    native = captured("plan", planned, "--target", "cortex-m7", "--runtime", "native")
    assert (native.returncode, "the model is in stripes" in words(native.stderr)) == (3, True)
    nothing = captured("plan", tflite, "--max-extra-macs", "20")
    assert nothing.returncode == 2
