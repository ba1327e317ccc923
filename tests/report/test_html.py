"""Pages as text: every character of a model is data, the document is complete, and large models get a summary."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from edgetool.cli.command import Command
from edgetool.cli.page import command_line
from edgetool.errors import InternalError
from edgetool.model.reader import read_model
from edgetool.model.types import Quantization
from edgetool.pipeline.report import bundled_page, describe, view_of
from edgetool.pipeline.targets import resolve_named
from edgetool.report.html import (
    MAX_OPERATORS,
    SHORTENED,
    PageReport,
    model_view,
    page,
    reports_data,
    script_text,
    shortened,
)
from edgetool.report.json import document
from tests.cli.program import edgetool
from tests.hostile_names import NAMES
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


def test_stock_buffers_and_positions_are_those_of_the_plan() -> None:
    (described,) = describe(pages.PERSON, [resolve_named("nucleo-l476rg")])
    view, plan = view_of(described), described.analysis.plan
    assert view.stock is not None
    assert plan.stock is not None
    assert view.stock.arena_bytes == described.report.arena.stock_bytes  # type: ignore[union-attr]
    assert max(item[4] + item[3] for item in view.stock.buffers) <= view.stock.head_bytes
    assert [item[5] for item in view.operators] == [plan.order.index(item[1]) for item in view.operators]
    native, tflm = describe(
        pages.KEYWORD,
        [resolve_named("nucleo-l476rg", runtime="native"), resolve_named("nucleo-l476rg", kernels="reference")],
    )
    own, arena = view_of(native).stock, tflm.report.arena
    assert own is not None
    assert arena is not None
    assert (own.head_bytes, own.tail_bytes, own.arena_bytes) == (arena.head_bytes, arena.tail_bytes, arena.stock_bytes)


def test_a_report_of_very_many_operators_is_shortened_and_says_so() -> None:
    (described,) = describe(pages.KEYWORD, [resolve_named("nucleo-l476rg")])
    report = described.report
    assert shortened(report) == (report, None)
    assert report.estimate is not None
    assert report.plan is not None
    assert report.arena is not None
    rows = describe(pages.KEYWORD, [resolve_named("nucleo-l476rg", runtime="native", scratch_budget=0)])[0].report.rows
    assert rows is not None
    many = replace(
        report,
        rows=replace(rows, tensors=rows.tensors * 300),
        model=replace(report.model, operators=MAX_OPERATORS + 1),
        estimate=replace(report.estimate, operators=report.estimate.operators * 300),
        plan=replace(report.plan, tensors=report.plan.tensors * 300),
        arena=replace(report.arena, breakdown=report.arena.breakdown * 300),
    )
    shorter, omitted = shortened(many)
    assert shorter.estimate is not None
    assert shorter.plan is not None
    assert omitted is not None
    assert len(shorter.estimate.operators) == len(shorter.plan.tensors) == SHORTENED
    assert shorter.rows is not None
    assert len(shorter.rows.tensors) == SHORTENED
    buffers = len(report.plan.tensors) + len(rows.tensors)
    assert omitted.buffers == 300 * buffers - 2 * SHORTENED
    assert omitted.operators == 300 * len(report.estimate.operators) - SHORTENED
    slowest = max(item.ms.value for item in report.estimate.operators)
    assert sum(item.ms.value == slowest for item in shorter.estimate.operators) == 300 * sum(
        item.ms.value == slowest for item in report.estimate.operators
    )
    peak = report.plan.peak
    assert peak is not None
    live = [item for item in report.plan.tensors if item.first_op <= peak.position <= item.last_op]
    assert all(sum(item == other for other in shorter.plan.tensors) == 300 for item in live)
    data = reports_data([PageReport(many, "", False, view_of(described))], "edgetool")
    (shown,) = data["reports"]
    assert shown["omitted"]["operators"] == omitted.operators
    assert shown["view"]["stock"] is None
    assert shown["document"] == document(shorter)


def test_tensors_of_rows_have_their_own_names_and_impossible_scales_none(tmp_path: Path) -> None:
    target = resolve_named("nucleo-l476rg", runtime="native", scratch_budget=0)
    (described,) = describe(pages.KEYWORD, [target])
    view, model = view_of(described), described.source.model
    assert view.rows is not None
    names = {row[1]: row[2] for row in view.tensors if row[5] != "constant"}
    assert names == {index: model.main.tensors[index].name for index in names}
    endless = replace(model.main.tensors[0], quantization=Quantization((float("inf"),), (0,), 0))
    graph = replace(model.main, tensors=(endless, *model.main.tensors[1:]))
    plan = described.analysis.plan
    first = model_view(replace(model, subgraphs=(graph,)), plan, None, None).tensors[0]
    assert first[6] is None
    assert json.loads(script_text(first))[6] is None


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
