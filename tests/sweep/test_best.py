"""The best variant, and its files beside those of `convert`."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.errors import FailedCheckError, OutputError, UsageError
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.pipeline import convert
from edgetool.pipeline.convert import convert_file, hash_of_path
from edgetool.pipeline.firmware import FirmwareRequest
from edgetool.report.document import Band
from edgetool.report.json import plain
from edgetool.sweep.best import TIE_BREAKERS, best_row, write_best
from edgetool.sweep.front import AXES, front
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.metrics import Judged, Metrics, Row
from edgetool.sweep.spec import TargetSpec
from edgetool.sweep.store import open_store
from edgetool.sweep.table import rows
from edgetool.sweep.worker import measured_cost
from edgetool.target.load import load_target
from tests.graphs import chain as chain_model
from tests.model.builders import branches_model, residual_model
from tests.sweep.made_rows import QUALITY, QUANTIZATION, REJECTED, chain, outcomes, record, row, variant, write_store

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "keyword_spotting"


def test_the_best_of_each_axis_is_found_among_the_accepted_of_the_target() -> None:
    found = [
        row(1, quality={"accuracy": 0.99}, judged=REJECTED),
        row(2, quality={"accuracy": 0.9}, arena_bytes=100),
        row(3, quality={"accuracy": 0.95}, arena_bytes=200),
        row(4, variant(target="other"), quality={"accuracy": 0.98}, arena_bytes=10),
    ]
    assert best_row(found, "board").number == 3
    assert best_row(found, "board", "arena_bytes").number == 2
    assert best_row(found, "other").number == 4


def test_ties_are_broken_by_the_next_axes_then_by_the_number() -> None:
    latency = {number: Band(ms, ms, ms) for number, ms in ((1, 9.0), (2, 5.0), (3, 5.0), (4, 5.0))}
    found = [row(number, latency_ms=band, arena_bytes=200 - 10 * (number > 2)) for number, band in latency.items()]
    assert best_row(found, "board").number == 3
    assert best_row(found[::-1], "board").number == 3
    assert best_row(found[:2], "board", "arena_bytes").number == 2


def test_between_equal_answers_the_cheaper_variant_is_best_and_not_the_one_nearer_to_the_original() -> None:
    found = [
        row(1, quality={"sqnr_db": 140.0}, latency_ms=Band(225.0, 200.0, 250.0), arena_bytes=26_000),
        row(2, quality={"sqnr_db": 30.0}, latency_ms=Band(21.0, 20.0, 22.0), arena_bytes=6_000),
    ]
    assert best_row(found, "board").number == 2
    assert 2 in front(found)


def test_if_only_the_power_is_unknown_the_advice_says_so() -> None:
    unknown = Judged((), False, ("the inference energy is unknown; the limit is 500 uJ",), ("energy",))
    with pytest.raises(FailedCheckError) as caught:
        best_row([row(1, judged=unknown, energy_uj=None)], "board")
    assert caught.value.fix == "omit max_energy, or specify the power in the target's profile"
    with pytest.raises(FailedCheckError, match="prune more"):
        best_row([row(1, judged=unknown, energy_uj=None), row(2, judged=REJECTED)], "board")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8))
def test_nothing_accepted_is_better_in_the_axis(drawn: list[tuple[int, int, int]]) -> None:
    found = [
        row(number, quality={"accuracy": a / 2}, arena_bytes=arena, model_bytes=flash)
        for number, (a, arena, flash) in enumerate(drawn, start=1)
    ]
    for by in AXES:
        best = best_row(found, "board", by)
        value, axis = AXES[by].value(best), AXES[by]
        assert value is not None
        assert all(axis.sign * (axis.value(item) or 0) >= axis.sign * value for item in found)
        # Nor in all axes at once, so that what is chosen is always on the front of them all.
        values = [
            tuple(AXES[name].sign * (AXES[name].value(item) or 0) for name in TIE_BREAKERS) for item in (best, *found)
        ]
        assert not any(all(a <= b for a, b in zip(v, values[0], strict=True)) and v != values[0] for v in values[1:])


def test_sqnr_replaces_unknown_accuracy() -> None:
    silent: dict[str, Any] = {"accuracy": None, "agreement": None}
    found = [row(1, quality={**silent, "sqnr_db": 20.0}), row(2, quality={**silent, "sqnr_db": 40.0})]
    assert best_row(found, "board").number == 2
    found = [row(1, latency_ms=None), row(2, latency_ms=None)]
    with pytest.raises(UsageError, match="latency_ms is unknown for all accepted variants"):
        best_row(found, "board", "latency_ms")


def test_unknown_targets_and_axes_are_named() -> None:
    with pytest.raises(UsageError, match="no target 'bord'; use one of board, other"):
        best_row([row(1), row(2, variant(target="other"))], "bord")
    with pytest.raises(UsageError, match="no axis 'speed'"):
        best_row([row(1)], "board", "speed")
    with pytest.raises(UsageError, match="run the sweep first"):
        best_row([], "board")


def test_if_none_is_accepted_the_nearest_variants_give_reasons() -> None:
    found = [
        row(1, judged=Judged((), False, ("too large", "too slow"))),
        row(2, variant(0.5), judged=Judged((), False, ("too slow",))),
        Row(3, variant(0.75, width=8), "failed", reason="pruning: no layer can be pruned"),
        Row(4, variant(0.8), "pending"),
    ]
    with pytest.raises(FailedCheckError, match="none of the 4 variants is accepted") as caught:
        best_row(found, "board")
    assert caught.value.details == (
        "2 (level 0.5, int8): too slow",
        "1 (level 0, int8): too large; too slow",
        "3 (level 0.75, int8, width 8): pruning: no layer can be pruned",
    )
    assert caught.value.exit_code == 1


def stored(path: Path, tflite: bytes, target: str, *, runtime: str | None = None, **value: Any) -> None:
    """A store with one variant, of which these are the .tflite and what its conversion says."""
    entry = chain(1, variant(target=target))
    cost = measured_cost(tflite, load_target(target).with_overrides(runtime=runtime))
    results = outcomes(entry, Metrics(QUALITY, cost))
    convert = dict(results["convert 0.0 int8"].value) | value
    results["convert 0.0 int8"] = Outcome(value=convert, blobs={"model.tflite": tflite})
    overrides = () if runtime is None else (("runtime", runtime),)
    sweep = replace(record(targets=(target,)), targets=(TargetSpec(target, target, overrides=overrides),))
    write_store(path, sweep, [entry], results)


@pytest.mark.slow
def test_the_files_of_native_code(tmp_path: Path) -> None:
    stored(tmp_path / "s.sqlite", write_model(residual_model()), "cortex-m7", runtime="native")
    with open_store(tmp_path / "s.sqlite") as store:
        best = best_row(rows(store), "cortex-m7")
        made = write_best(store, best, output=tmp_path / "out")
        timed = write_best(store, best, output=tmp_path / "other", firmware=FirmwareRequest(profile=True))
    assert "words_profile.c" in {path.name for path in timed.files}
    assert {path.name for path in made.files} > {"words.tflite", "words.json", "words.h", "words.c", "words_weights.c"}
    assert best.metrics is not None
    assert made.report.arena is not None
    assert made.report.flash is not None
    cost = best.metrics.cost
    assert (cost.arena_bytes, cost.model_bytes) == (made.report.arena.bytes, made.report.flash.model_bytes)
    assert made.report.runtime is not None
    assert made.report.runtime.name == "native"


def test_the_files_of_the_chosen_variant(tmp_path: Path) -> None:
    """A graph whose operators are reordered, so that plan and numbers are those of the file that is written."""
    tflite = write_model(branches_model())
    stored(tmp_path / "s.sqlite", tflite, "cortex-m7", notes=["an observation"])
    with open_store(tmp_path / "s.sqlite") as store:
        best = best_row(rows(store), "cortex-m7")
        made = write_best(store, best, output=tmp_path / "out", firmware=FirmwareRequest("cmake", profile=True))
        with pytest.raises(OutputError, match="already exists"):
            write_best(store, best, output=tmp_path / "out")
        again = write_best(store, best, output=tmp_path / "out", force=True)
    assert {path.name for path in made.files} > {"words.tflite", "words.json", "words.h", "CMakeLists.txt"}
    assert best.metrics is not None
    assert made.report.arena is not None
    assert made.report.estimate is not None
    assert made.report.plan is not None
    written = (tmp_path / "out" / "words.tflite").read_bytes()
    cost = best.metrics.cost
    assert (cost.arena_bytes, cost.model_bytes) == (made.report.arena.bytes, len(written))
    assert (cost.latency_ms, cost.macs) == (made.report.estimate.latency_ms, made.report.estimate.macs)
    before, after = branches_model().main.operators, read_model(written).main.operators
    assert [item.outputs for item in after] != [item.outputs for item in before]
    assert made.report.plan.order == tuple(range(len(after)))
    reported = made.report.provenance.options
    assert (reported["command"], reported["sweep"], reported["level"], reported["precision"]) == (
        "sweep best",
        "words sweep",
        0,
        "int8",
    )
    assert (reported["quantize"], reported["target"], reported["seed"]) == ("int8", "cortex-m7", 0)
    assert "an observation" in {finding.message for finding in made.report.findings}
    assert "other-arena" not in {finding.rule for finding in made.report.findings}
    assert made.report.quantization == QUANTIZATION
    assert again.report.arena == made.report.arena
    json.loads((tmp_path / "out" / "words.json").read_text())


def test_a_different_arena_than_the_judged_one_is_reported(tmp_path: Path) -> None:
    entry = chain(1, variant(target="cortex-m7"))
    tflite = write_model(chain_model([16, 16]))
    made = Metrics(QUALITY, measured_cost(tflite, load_target("cortex-m7")))
    results = outcomes(entry, made)
    results["analyse 0.0 int8 cortex-m7"].value["cost"]["arena_bytes"] = 16  # type: ignore[index]
    results["convert 0.0 int8"] = Outcome(value=results["convert 0.0 int8"].value, blobs={"model.tflite": tflite})
    write_store(tmp_path / "s.sqlite", record(targets=("cortex-m7",)), [entry], results)
    with open_store(tmp_path / "s.sqlite") as store:
        report = write_best(store, rows(store)[0], output=tmp_path / "out", name="net").report
    assert report.arena is not None
    (finding,) = [item for item in report.findings if item.rule == "other-arena"]
    assert f"{report.arena.bytes:,} bytes, but the model was selected with an arena of 16" in finding.message
    assert (tmp_path / "out" / "net.h").exists()


def test_the_report_names_the_pruned_model_as_the_converted_file(tmp_path: Path) -> None:
    entry = chain(1, variant(0.5, target="cortex-m7"))
    tflite = write_model(chain_model([16, 16]))
    results = outcomes(entry, Metrics(QUALITY, measured_cost(tflite, load_target("cortex-m7"))))
    blobs = {"convert 0.5 int8": {"model.tflite": tflite}, "prune 0.5": {"model.keras": b"pruned"}}
    results |= {key: Outcome(value=results[key].value, blobs=data) for key, data in blobs.items()}
    write_store(tmp_path / "s.sqlite", record(targets=("cortex-m7",)), [entry], results)
    with open_store(tmp_path / "s.sqlite") as store:
        model = write_best(store, rows(store)[0], output=tmp_path / "out").report.model
    assert (model.name, model.bytes) == ("words.keras", 6)
    assert model.output is not None


def test_files_of_a_builder_are_named_after_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entry = chain(1, variant(target="cortex-m7"))
    tflite = write_model(chain_model([16, 16]))
    results = outcomes(entry, Metrics(QUALITY, measured_cost(tflite, load_target("cortex-m7"))))
    results["convert 0.0 int8"] = Outcome(value=results["convert 0.0 int8"].value, blobs={"model.tflite": tflite})
    built = record(targets=("cortex-m7",), name="v1.5 words", model="model:build", options={"builder": {"files": []}})
    write_store(Path("s.sqlite"), built, [entry], results)
    with open_store(Path("s.sqlite")) as store:
        made = write_best(store, rows(store)[0])
    assert Path("v1_5_words-firmware/v1_5_words.tflite") in made.files


def test_a_row_without_a_model_or_of_another_store_is_refused(tmp_path: Path) -> None:
    entry = chain(1, variant(target="cortex-m7"))
    write_store(tmp_path / "s.sqlite", record(targets=("cortex-m7",)), [entry], {})
    with open_store(tmp_path / "s.sqlite") as store:
        with pytest.raises(UsageError, match="has no model: it has not been run yet"):
            write_best(store, rows(store)[0], output=tmp_path / "out")
        with pytest.raises(UsageError, match="has no variant 7"):
            write_best(store, row(7, variant(target="cortex-m7")), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs the extra 'convert'")
def test_every_file_is_the_one_that_convert_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[Conversion] = []

    def keep(*arguments: Any, **named: Any) -> Conversion:
        converted.append(real(*arguments, **named))
        return converted[-1]

    real = convert.convert_model
    monkeypatch.setattr(convert, "convert_model", keep)
    model = EXAMPLE / "keyword_spotting.h5"
    request = ConvertRequest(model, calibration=EXAMPLE / "calibration.npz")
    expected = convert_file(request, load_target("nucleo-l4r5zi"), output=tmp_path / "convert", name="words")
    sha256, size_bytes = hash_of_path(model)
    stored(
        tmp_path / "s.sqlite",
        converted[0].tflite,
        "nucleo-l4r5zi",
        quantization=plain(expected.report.quantization),
        versions=converted[0].versions,
        notes=list(converted[0].notes),
        original={"sha256": sha256, "bytes": size_bytes},
    )
    with open_store(tmp_path / "s.sqlite") as store:
        write_best(store, rows(store)[0], output=tmp_path / "best")
    names = {path.name for path in expected.files}
    assert {path.name for path in (tmp_path / "best").iterdir()} == names
    for name in names - {"words.json"}:
        assert (tmp_path / "best" / name).read_bytes() == (tmp_path / "convert" / name).read_bytes(), name
    reports = [json.loads((tmp_path / side / "words.json").read_text()) for side in ("best", "convert")]
    for report in reports:
        del report["provenance"]["options"]
    reports[1]["model"]["name"] = "words.h5"
    assert reports[0] == reports[1]
