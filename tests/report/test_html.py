"""Pages as text: every character of a model is data, the document is complete, and large models get a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Sized
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from edgetool.cli.command import Command
from edgetool.cli.page import command_line
from edgetool.errors import InternalError
from edgetool.memory.streaming.problem import Firing, RowOperator, RowPlan, RowProblem, RowTensor
from edgetool.model.reader import read_model
from edgetool.model.types import Quantization
from edgetool.model.writer import write_model
from edgetool.pipeline.report import bundled_page, describe, view_of
from edgetool.pipeline.reporting import Described
from edgetool.pipeline.targets import resolve_named
from edgetool.report.document import Histogram, LayerLoss, QuantizationInfo, SharedBuffer, SharingInfo
from edgetool.report.html import (
    MAX_OPERATORS,
    MAX_TENSORS,
    SHORTENED,
    Omitted,
    PageReport,
    model_view,
    page,
    reports_data,
    rows_view,
    script_text,
    shortened,
)
from edgetool.report.json import document
from edgetool.target.load import load_target
from tests.cli.program import edgetool
from tests.hostile_names import NAMES
from tests.model.builders import residual_model
from tests.report import pages


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    pages.write_inputs(folder)
    return folder


def test_json_can_neither_end_its_element_nor_begin_another() -> None:
    value = {name: [name, "<!--", "##vso[a]", "\u2028"] for name in NAMES}
    text = script_text(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not re.search(r"[<>&]|##", text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_text(float("nan"))


def test_a_page_needs_one_place_for_its_data() -> None:
    bundle = bundled_page()
    assert page(bundle, {"a": 1}).count('{"a":1}') == 1
    for broken in ("", bundle * 2):
        with pytest.raises(InternalError, match="no place"):
            page(broken, {})


@pytest.mark.parametrize("kind", pages.HOSTILE)
def test_names_of_a_model_add_no_element(folder: Path, kind: str) -> None:
    text = pages.write_page(folder, kind).read_text(encoding="utf-8")
    elements, empty = Elements(text), Elements(bundled_page())
    assert elements.tags == empty.tags
    assert [script for script in elements.scripts if not script.startswith("{")] == empty.scripts[1:]
    names = {tensor.name for tensor in read_model((folder / COMMAND_MODELS[kind]).read_bytes(), name="m").main.tensors}
    data = pages.data_of(folder / f"{kind}.html")["reports"][0]
    planned = {item["name"] for item in data["document"]["plan"]["tensors"]}
    named = {row[2] for row in data["view"]["tensors"]}
    constants = {row[1] for row in data["view"]["tensors"] if row[5] == "constant"}
    assert len(names) - len(constants) <= len(planned | named)


COMMAND_MODELS = {
    "many-names": "many.tflite",
    "chain-of-names": "chain.tflite",
    "custom-operators": "custom.tflite",
}


def test_only_the_page_itself_may_run_or_load_anything() -> None:
    policy = Elements(bundled_page()).policy.split("; ")
    assert policy[0] == "default-src 'none'"
    assert [item.split()[0] for item in policy[1:]] == ["script-src", "style-src", "base-uri", "form-action"]
    assert all(re.fullmatch(r"'(none|sha256-[A-Za-z0-9+/=]{44})'", item.split()[1]) for item in policy)
    assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", bundled_page().partition("<footer>")[0])


def test_the_page_has_the_licences_of_its_libraries() -> None:
    footer = bundled_page().partition("<footer>")[2].partition("</footer>")[0]
    lock = json.loads((pages.ROOT / "toolchain/edgetool/report/page/package-lock.json").read_text(encoding="utf-8"))
    used = {name: item for name, item in lock["packages"].items() if name and not item.get("dev")}
    bundled = [name for name in used if f"{name.removeprefix('node_modules/')} {used[name]['version']} (" in footer]
    direct = json.loads((pages.ROOT / "toolchain/edgetool/report/page/package.json").read_text(encoding="utf-8"))
    assert {f"node_modules/{name}" for name in direct["dependencies"]} <= set(bundled)
    assert len(re.findall(r"^(Permission|Redistribution)", footer, re.MULTILINE)) == len(bundled)


def test_a_plan_is_the_same_with_a_page_which_also_has_an_estimate(folder: Path) -> None:
    words = ("plan", pages.KEYWORD, *pages.BOARD, "--json")
    done = edgetool(*words, "--html", folder / "both.html", cwd=folder)
    assert done.stdout == edgetool(*words, cwd=folder).stdout
    (shown,) = pages.data_of(folder / "both.html")["reports"]
    assert shown["document"]["estimate"]["operators"]
    assert json.loads(done.stdout) == {**shown["document"], "estimate": None}
    assert f"wrote {folder / 'both.html'}" in done.stderr


def test_stock_buffers_and_positions_are_those_of_the_plan(folder: Path) -> None:
    path = folder / "residual.tflite"
    path.write_bytes(write_model(residual_model()))
    (described,) = describe(path, [resolve_named("nucleo-l476rg")])
    view, plan = view_of(described), described.analysis.plan
    assert view.stock is not None
    assert plan.stock is not None
    assert view.stock.arena_bytes == described.report.arena.stock_bytes  # type: ignore[union-attr]
    assert max(item[4] + item[3] for item in view.stock.buffers) <= view.stock.head_bytes
    assert [item[5] for item in view.operators] == [plan.order.index(item[1]) for item in view.operators]
    native, tflm = describe(
        path,
        [resolve_named("nucleo-l476rg", runtime="native"), resolve_named("nucleo-l476rg", kernels="reference")],
    )
    own, stock = view_of(native).stock, tflm.analysis.plan.stock
    assert own is not None
    assert stock is not None
    assert (own.head_bytes, own.tail_bytes, own.arena_bytes) == (stock.head_bytes, stock.tail_bytes, stock.bytes)


@pytest.fixture(scope="module")
def tflm(folder: Path) -> Described:
    (described,) = describe(folder / "if.tflite", [resolve_named("nucleo-l476rg")])
    return described


@pytest.fixture(scope="module")
def rows(folder: Path) -> Described:
    (folder / "rows.tflite").write_bytes(write_model(residual_model()))
    target = resolve_named("nucleo-l476rg", runtime="native", scratch_budget=0, row_input=True)
    (described,) = describe(folder / "rows.tflite", [target])
    return described


def test_a_report_of_very_many_operators_is_shortened_and_says_so(tflm: Described, rows: Described) -> None:
    report, row_plan = tflm.report, rows.report.rows
    assert shortened(report) == (report, None)
    assert report.estimate is not None
    assert report.plan is not None
    assert report.arena is not None
    assert row_plan is not None
    layer = LayerLoss("conv", "Conv2D", "CONV_2D", 30.0, 0.3, 0.1, -1.0, 1.0, 8, 3, 2.0, Histogram(-1, 1, (1,)))
    shared = SharingInfo(8, 4, 4, "none", False, (SharedBuffer(4, ()), SharedBuffer(8, ())))
    times = 1_100
    many = replace(
        report,
        rows=replace(row_plan, tensors=row_plan.tensors * times, segments=row_plan.segments * times),
        model=replace(report.model, operators=MAX_OPERATORS + 1),
        estimate=replace(report.estimate, operators=report.estimate.operators * times, not_modelled=("A",) * times),
        plan=replace(
            report.plan,
            tensors=report.plan.tensors * times,
            sharing=replace(shared, buffers=shared.buffers * times),
        ),
        arena=replace(report.arena, breakdown=report.arena.breakdown * times),
        quantization=QuantizationInfo("int8", True, 1, layers=(layer,) * times),
    )
    shorter, omitted = shortened(many)
    assert shorter.estimate is not None
    assert shorter.plan is not None
    assert shorter.plan.sharing is not None
    assert shorter.rows is not None
    assert shorter.arena is not None
    assert shorter.quantization is not None
    lists: tuple[Sized, ...] = (
        *(
            shorter.estimate.operators,
            shorter.estimate.not_modelled,
            shorter.plan.tensors,
            shorter.plan.sharing.buffers,
        ),
        *(shorter.rows.tensors, shorter.rows.segments, shorter.arena.breakdown, shorter.quantization.layers),
    )
    assert [len(item) for item in lists] == [SHORTENED] * len(lists)
    assert omitted == Omitted(
        operators=times * len(report.estimate.operators) - SHORTENED,
        buffers=times * (len(report.plan.tensors) + len(row_plan.tensors)) - 2 * SHORTENED,
        entries=times * len(report.arena.breakdown) - SHORTENED,
        layers=times - SHORTENED,
        others=times * (1 + len(shared.buffers) + len(row_plan.segments)) - 3 * SHORTENED,
    )
    slowest = max(item.ms.value for item in report.estimate.operators)
    assert all(item.ms.value == slowest for item in shorter.estimate.operators)
    assert all(item.bytes == 8 for item in shorter.plan.sharing.buffers)
    peak = report.plan.peak
    assert peak is not None
    assert all(item.first_op <= max(peak.position, 0) <= item.last_op for item in shorter.plan.tensors)
    data = reports_data([PageReport(many, "", False, view_of(tflm))], "edgetool")
    (shown,) = data["reports"]
    assert shown["omitted"]["others"] == omitted.others
    assert shown["view"]["stock"] is None
    assert shown["document"] == document(shorter)


def test_a_report_of_very_many_buffers_or_tensors_is_shortened(tflm: Described) -> None:
    report = tflm.report
    assert report.plan is not None
    buffers = report.plan.tensors[:1] * (MAX_OPERATORS + 1)
    shorter, omitted = shortened(replace(report, plan=replace(report.plan, tensors=buffers, scratch=())))
    assert omitted == Omitted(0, len(buffers) - SHORTENED, 0, 0, 0)
    assert shorter.model.operators < MAX_OPERATORS
    _, omitted = shortened(replace(report, model=replace(report.model, tensors=MAX_TENSORS + 1)))
    assert omitted == Omitted(0, 0, 0, 0, 0)


def test_tensors_of_rows_have_their_own_names_and_impossible_scales_none(rows: Described) -> None:
    view, model = view_of(rows), rows.source.model
    assert view.rows is not None
    names = {row[1]: row[2] for row in view.tensors if row[5] != "constant"}
    assert names == {index: model.main.tensors[index].name for index in names}
    endless = replace(model.main.tensors[0], quantization=Quantization((float("inf"),), (0,), 0))
    graph = replace(model.main, tensors=(endless, *model.main.tensors[1:]))
    first = model_view(replace(model, subgraphs=(graph,)), rows.analysis.plan, None, None).tensors[0]
    assert first[6] is None
    assert json.loads(script_text(first))[6] is None


def test_scratch_of_rows_belongs_to_operators_of_the_model() -> None:
    tensors = (RowTensor("x", 1, 4), RowTensor("y", 1, 4))
    feed, run = RowOperator("feed", (Firing((), (0,)),)), RowOperator("RELU", (Firing((0,), (1,), (), 8),))
    view = rows_view(RowProblem(tensors, (feed, run)), RowPlan((0, 1), (0, 4), ((), (8,)), 16), (-1, 7))
    assert view.scratch == ((7, 8, 8, (1, 2)),)


@pytest.mark.parametrize(
    ("target", "macs", "source"),
    [
        ("cortex-m55", 8, "Cortex-M55"),
        ("cortex-m4", 2, "Cortex-M4 Technical Reference Manual"),
        ("cortex-m0plus", 1, "Cortex-M3 Technical Reference Manual"),
        ("desktop", None, ""),
    ],
)
def test_the_limit_of_a_core_states_its_source(tflm: Described, target: str, macs: int | None, source: str) -> None:
    device = model_view(tflm.source.model, tflm.analysis.plan, load_target(target), None).device
    assert device is not None
    assert device.macs_per_cycle == macs
    assert source in device.basis if source else not device.basis


def test_the_command_is_shown_as_it_was_typed_without_directories(folder: Path) -> None:
    data = pages.data_of(pages.write_page(folder, "planned"))
    assert data["command"] == "edgetool report person_detection.tflite -t nucleo-l476rg -q -o planned.html"
    (folder / "own.toml").write_bytes((pages.ROOT / "targets" / "boards" / "rpi-pico.toml").read_bytes())
    (folder / "edgetool.toml").write_text(f'target = "{folder / "own.toml"}"\n', encoding="utf-8")
    done = edgetool("report", "if.tflite", f"-qo{folder / 'set.html'}", cwd=folder)
    (folder / "edgetool.toml").unlink()
    assert done.returncode == 0, done
    assert pages.data_of(folder / "set.html")["command"].endswith("if.tflite -qoset.html --target own.toml")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("-o/home/me/x.html", "-ox.html"),
        ("-fo/home/me/x.html", "-fox.html"),
        ("-opages/x.html", "-opages/x.html"),
        ("-o /home/me/x.html", "-o x.html"),
        ("--output=/home/me/x.html", "--output=x.html"),
        ("--output=pages/a=b.html", "--output=pages/a=b.html"),
        ("-f /home/me/m.tflite", "-f m.tflite"),
    ],
)
def test_directories_are_left_out_of_every_form_of_an_option(words: str, shown: str) -> None:
    @click.command("report", cls=Command)
    @click.argument("model", required=False)
    @click.option("--output", "-o")
    @click.option("--force", "-f", is_flag=True)
    @click.option("--verbose", "-v", count=True)
    def command(model: str, output: str, force: bool, verbose: int) -> None: ...

    assert command_line(command.make_context("report", words.split())) == f"report {shown}"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "if.tflite", "-o"),
        ("plan", "if.tflite", "--rows-svg"),
        ("check", "if.tflite", *pages.BOARD, "-o"),
        ("compare", "if.tflite", "empty.tflite", *pages.BOARD, "-o"),
        ("sweep", "show", "sweep.sqlite", "-o"),
        ("convert", pages.KEYWORD, *pages.BOARD, "--depfile"),
    ],
)
def test_the_page_is_no_other_file_of_the_command(folder: Path, words: tuple[str | Path, ...]) -> None:
    done = edgetool(*words, "one.svg", "--html", folder / "one.svg", "--force", cwd=folder)
    assert done.returncode == 2, done
    assert "is specified for both" in done.stderr
    assert not (folder / "one.svg").exists()


def test_an_existing_page_is_replaced_only_on_request(folder: Path) -> None:
    (folder / "mine.html").write_text("mine", encoding="utf-8")
    for words in (("report", "if.tflite", "-o", "mine.html"), ("plan", "if.tflite", "--html", "mine.html")):
        done = edgetool(*words, cwd=folder)
        assert (done.returncode, (folder / "mine.html").read_text(encoding="utf-8")) == (2, "mine")
        assert "already exists" in done.stderr
    assert edgetool("report", "if.tflite", "-o", "mine.html", "--force", "-q", cwd=folder).returncode == 0
    assert (folder / "mine.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    done = edgetool("report", "if.tflite", "-o", "if.tflite", "--force", cwd=folder)
    assert "would overwrite the input" in done.stderr


def test_a_conversion_writes_the_page_of_its_planned_file_or_nothing(folder: Path) -> None:
    words = ("convert", pages.KEYWORD, *pages.BOARD, "-q", "-o", "out", "--html", "converted.html")
    done = edgetool(*words, "--strict", "--sram", "4KiB", cwd=folder)
    assert done.returncode == 1, done
    assert not (folder / "converted.html").exists()
    assert edgetool(*words, cwd=folder).returncode == 0
    (shown,) = pages.data_of(folder / "converted.html")["reports"]
    assert shown["document"] == json.loads((folder / "out" / "keyword_spotting.json").read_text(encoding="ascii"))
    assert len(shown["view"]["operators"]) == shown["document"]["model"]["operators"]


def test_reports_without_their_models_are_compared_too(folder: Path) -> None:
    data = pages.data_of(pages.write_page(folder, "documents"))
    assert [item["view"] for item in data["reports"]] == [None, None]
    assert data["document"]["compare"]["a"]["kind"] == "report"
