"""Every command on models and files whose names are made to break it: a name is text wherever it comes out.

Firmware where one name meets another: models in a shared arena, the best of a sweep, headers of the system.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from edgetool.cli.errors import exit_code_of
from edgetool.cli.main import cli
from edgetool.gate import github, junit, markdown, sarif
from edgetool.model.reader import read_model
from edgetool.model.types import Signature
from edgetool.model.writer import write_model
from edgetool.report.json import parse_reports
from edgetool.sweep.spec import TargetSpec
from tests import hostile_names
from tests.cli import sweeps
from tests.codegen.c_compilers import TFLM_API, compile_in
from tests.hostile_names import NAMES
from tests.model.builders import Builder, unary_model

BOARD = ("-t", "nucleo-f446re")
# Forms of characters that are not seen, move others about, or end a line.
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


def edgetool(*words: str | Path) -> Done:
    """The program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = exit_code_of(
            lambda: cli.main([*map(str, words)], prog_name="edgetool", standalone_mode=False), tracebacks=False
        )
    return Done(code, out.getvalue(), err.getvalue())


def check_terminal(text: str) -> None:
    """Nothing but lines of visible characters, none of which a terminal or a CI runner obeys."""
    for line in text.split("\n"):
        odd = [character for character in line if unicodedata.category(character) in UNSEEN]
        assert not odd, (odd, line)
        assert not line.startswith("::"), line
        assert not re.search(r"##\w*\[", line), line


def shown(done: Done, *codes: int) -> str:
    """What a person saw of a command that ended as it should."""
    assert done.code in (codes or (0,)), done
    check_terminal(done.out)
    check_terminal(done.err)
    return done.out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the commands run, with the models: by hostile names, and of hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "many.tflite").write_bytes(hostile_names.many_inputs())
    (folder / "chain.tflite").write_bytes(hostile_names.hostile_model())
    (folder / "custom.tflite").write_bytes(hostile_names.custom_operators())
    (folder / "named").mkdir()
    hostile_names.write_models(folder / "named", write_model(unary_model("RELU")))
    with contextlib.chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def named(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in (folder / "named").iterdir())


def test_there_are_enough_cases() -> None:
    assert len(set(NAMES)) >= 40
    assert len(hostile_names.file_names()) >= 40
    for make in (hostile_names.many_inputs, hostile_names.hostile_model, hostile_names.custom_operators):
        model = read_model(make(), name="m")
        reported = {tensor.name for tensor in model.main.tensors} | {
            operator.custom_code for operator in model.main.operators
        }
        assert len(reported & set(NAMES)) > 40


MODELS = ("many.tflite", "chain.tflite", "custom.tflite")
VIEWS = (
    ("inspect",),
    ("inspect", "-v"),
    ("plan", *BOARD),
    ("plan", "-v"),
    ("estimate", *BOARD),
    ("estimate", *BOARD, "-v"),
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("words", VIEWS, ids=" ".join)
def test_terminal_output_contains_only_printable_text(folder: Path, model: str, words: tuple[str, ...]) -> None:
    assert shown(edgetool(*words, model))


@pytest.mark.parametrize("words", [("inspect",), ("plan", *BOARD)], ids=" ".join)
def test_a_file_of_any_name_is_shown(named: list[Path], words: tuple[str, ...]) -> None:
    for path in named:
        assert shown(edgetool(*words, path))


@pytest.mark.parametrize("model", MODELS)
def test_the_document_contains_the_names_unchanged(folder: Path, model: str) -> None:
    for words in (("plan", *BOARD), ("inspect",)):
        done = edgetool(*words, model, "--json")
        assert (done.code, done.out.isascii()) == (0, True)
        check_terminal(done.out)
        names = set(texts(json.loads(done.out)))
        main = read_model((folder / model).read_bytes(), name=model).main
        wanted = {main.tensors[index].name for index in main.inputs}
        assert wanted <= names


def texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(item)


# ---- the gate


@pytest.fixture(scope="module")
def judged(folder: Path, named: list[Path]) -> dict[str, str]:
    """The judgement of every model in every form; each fails, so that the report on it is long."""
    files = [*named, *MODELS]
    words = ("check", *BOARD, "--max-arena", "16", "--", *files)
    forms = {"text": shown(edgetool(*words), 1)}
    reports = parse_reports(shown(edgetool(words[0], "--json", *words[1:]), 1))
    writers = {"junit": junit.text, "sarif": sarif.text, "github": github.text, "markdown": markdown.text}
    forms |= {form: write(reports) for form, write in writers.items()}
    return forms


def test_text_and_annotations_are_lines(judged: dict[str, str], named: list[Path]) -> None:
    check_terminal(judged["text"])
    commands = [line for line in judged["github"].split("\n") if line.startswith("::")]
    for line in judged["github"].split("\n"):
        check_terminal(line.removeprefix("::"))
    assert all(re.match(r"::(error|warning|notice) (file=[^:]*,)?title=[^:]*::", line) for line in commands)
    assert len(commands) >= 2 * (len(named) + len(MODELS))


def test_junit_contains_only_our_xml_elements(judged: dict[str, str], named: list[Path]) -> None:
    root = ElementTree.fromstring(judged["junit"])
    assert len(root) == len(named) + len(MODELS)
    ours = "testsuites testsuite properties property testcase failure skipped system-out"
    assert {element.tag for element in root.iter()} <= set(ours.split())
    for element in root.iter():
        for text in (element.text or "", *element.attrib.values()):
            assert all(character == "\n" or unicodedata.category(character) not in UNSEEN for character in text)
    check_terminal(judged["junit"])


def test_sarif_contains_names_as_text(judged: dict[str, str], named: list[Path]) -> None:
    log = json.loads(judged["sarif"])
    assert judged["sarif"].isascii()
    results = log["runs"][0]["results"]
    for result in results:
        assert "](" not in result["message"]["text"]
        check_terminal(result["message"]["text"])
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9_.~/%-]+", uri), uri
    found = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
    assert len(found) == len(named) + len(MODELS)


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)


def test_markdown_has_a_row_for_each_model_and_no_injected_tags(judged: dict[str, str], named: list[Path]) -> None:
    text = judged["markdown"]
    assert text.isascii()
    assert len([line for line in text.split("\n") if line.startswith("| ")]) == 2 + len(named) + len(MODELS)
    page = Tags()
    page.feed(text)
    assert page.found <= {"code", "details", "summary", "br"}


def test_a_lock_of_these_names_is_read_again(folder: Path, named: list[Path]) -> None:
    named = named[::3]
    lock = ("--lock", "edgetool.lock", *BOARD)
    shown(edgetool("check", "--update", *lock, "--", *named, *MODELS), 0, 1)
    text = Path("edgetool.lock").read_text(encoding="ascii")
    assert len(json.loads(text)["entries"]) == len(named) + len(MODELS)
    again = edgetool("check", "--locked", *lock, "--", *named, *MODELS)
    assert "not in the lock" not in shown(again, 0, 1)
    for path in (Path("many.tflite"), named[5]):
        Path("missing.lock").write_text(text, encoding="ascii")
        shown(edgetool("check", "--update", "--lock", "missing.lock", *BOARD, "--", path), 0, 1)
    (folder / "else").mkdir(exist_ok=True)
    shutil.copy("edgetool.lock", "else/edgetool.lock")
    shutil.copy("chain.tflite", "else/chain.tflite")
    lost = edgetool("check", "--update", "--lock", "else/edgetool.lock", *BOARD, "--", "else/chain.tflite")
    shown(lost, 0, 1)
    assert lost.err.count("which does not exist") >= len(named)


def test_a_comparison_is_text(folder: Path, named: list[Path]) -> None:
    for other in (*MODELS, *named[:12]):
        assert shown(edgetool("compare", "chain.tflite", other, *BOARD))
    for words in (("compare", "chain.tflite", "many.tflite", *BOARD, "--json"),):
        check_terminal(edgetool(*words).out)


# ---- firmware


CPP = re.compile(r"_(ops|runner)\.h$")
FORMS = {
    "plain": ("--project", "plain", "--profile"),
    "incbin": ("--data", "incbin", "--project", "plain"),
    "buffers": ("--arena-style", "buffers"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ["many.tflite", "chain.tflite"])
def test_all_emitted_files_compile(folder: Path, tmp_path: Path, form: str, model: str) -> None:
    path = shutil.copy(model, tmp_path / '??= "x\n.tflite')
    shown(edgetool("emit", path, *BOARD, "-o", tmp_path / "out", *FORMS[form]))
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    for name in files:
        assert re.fullmatch(r"[A-Za-z0-9_]+\.(h|c|cc|S|tflite)", name), name
        if not name.endswith(".tflite"):
            assert (tmp_path / "out" / name).read_bytes().isascii()
    sources = [name for name in files if name.endswith(".c")]
    for compiler, standard in (("gcc", "c99"), ("g++", "c++20"), ("arm-none-eabi-gcc", "c2x")):
        headers = [name for name in files if name.endswith(".h") and (compiler == "g++" or not CPP.search(name))]
        unit = "".join(f'#include "{name}"\n' for name in headers)
        (tmp_path / "out" / "unit.c").write_text(f"{unit}typedef int unit;\n")
        arguments = (f"-I{TFLM_API}", "-fsyntax-only", "unit.c", *sources)
        done = compile_in(tmp_path / "out", compiler, standard, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    programs = [name for name in files if name.endswith(".cc")]
    if programs:
        texts = "".join((tmp_path / "out" / name).read_text(encoding="ascii") for name in programs)
        counters = set(re.findall(r"define (\w+_PROFILE_TICKS)\(\)", texts))
        ticks = [word for name in counters for word in (f"-D{name}()=1u", f"-D{name}_HZ=1000000")]
        done = compile_in(tmp_path / "out", "g++", "c++17", f"-I{TFLM_API}", "-fsyntax-only", *ticks, *programs)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_headers_of_models_with_any_file_names_can_be_combined(folder: Path, named: list[Path], tmp_path: Path) -> None:
    before = snapshot(folder)
    for path in named:
        shown(edgetool("emit", "-o", tmp_path / "out", "--force", "--project", "header", *BOARD, "--", path))
    assert snapshot(folder) == before
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(files) == 3 * len(named)
    for name in files:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*\.[hc]", name), name
    unit = "".join(f'#include "{name}"\n' for name in files if name.endswith(".h"))
    (tmp_path / "out" / "unit.c").write_text(f"{unit}typedef int unit;\n")
    for compiler, standard in (("gcc", "c11"), ("arm-none-eabi-gcc", "c99")):
        done = compile_in(tmp_path / "out", compiler, standard, "-fsyntax-only", "unit.c")
        assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "out" / "unit.c").write_text(f"{unit}typedef int unit;\n")
    done = compile_in(tmp_path / "out", "g++", "c++11", "-fsyntax-only", "unit.c")
    assert (done.returncode, done.stderr) == (0, "")


def snapshot(folder: Path) -> str:
    """A hash of all files below the folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(ascii(path).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def test_cmake_configures_and_runs_nothing(folder: Path, named: list[Path], tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    wanted = [path for path in named if any(mark in path.name for mark in ("CMAKE", "message", "touch", "error"))]
    shown(edgetool("emit", "--project", "cmake", *BOARD, "-o", tmp_path / "one", "--", wanted[0]))
    for number, path in enumerate(wanted):
        out = tmp_path / str(number)
        shown(edgetool("emit", "--project", "cmake", *BOARD, "-o", out, "--data", "incbin", "--", path))
        text = (out / "CMakeLists.txt").read_text(encoding="ascii")
        assert "message(FATAL_ERROR injected" not in text
        assert "${CMAKE_COMMAND} $ENV{HOME}" not in text
    done = subprocess.run(
        ["cmake", "-S", tmp_path / "one", "-B", tmp_path / "build"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.rglob("injected*"))
    assert not list(tmp_path.rglob("injected"))


# ---- what is refused, and what other files name


@pytest.mark.slow
def test_rejected_input_is_reported_in_one_line(folder: Path, named: list[Path], tmp_path: Path) -> None:
    for path in named:
        broken = tmp_path / path.name
        broken.write_bytes(b"\0" * 40)
        for words in (("plan", broken), ("compare", broken, broken), ("plan", "-t", path.name, "many.tflite")):
            done = edgetool(*words)
            shown(done, 2, 3)
            assert done.err.count("\n") < 12
    for name in (name for name in NAMES if "\0" not in name):  # which no argument can hold
        for words in (
            ("plan", name),
            ("plan", "many.tflite", "-t", name),
            ("plan", "many.tflite", "--sram", name),
            (name,),
        ):
            done = edgetool(*words)
            check_terminal(done.err)
            assert done.code in (0, 2)  # "--help" is no name there


@pytest.mark.parametrize("key", ["name", "core", "board", "x"])
def test_profiles_and_settings_with_any_text_are_reported(folder: Path, tmp_path: Path, key: str) -> None:
    for name in NAMES:
        (tmp_path / "my.toml").write_text(f"{key} = {json.dumps(name)}\n{json.dumps(name)} = 1\n", encoding="utf-8")
        done = edgetool("plan", "many.tflite", "-t", tmp_path / "my.toml")
        shown(done, 2)
        shown(edgetool("targets", "validate", tmp_path / "my.toml"), 1, 2)


def test_a_sweep_is_text(tmp_path: Path) -> None:
    rows = tuple(
        sweeps.row(number, parameters=(("style", name),), level=0.25, notes=(name,))
        if number % 3
        else sweeps.row(number, parameters=(("style", name),), status="failed", reason=name)
        for number, name in enumerate(NAMES, 1)
    )
    made = sweeps.record(name=NAMES[0], model=NAMES[31], parameter_names=("style",))
    store = sweeps.stored(tmp_path / "s.sqlite", rows, made)
    for words in (("show",), ("show", "-v"), ("show", "--json"), ("pareto",)):
        done = sweeps.sweep(*words, store)
        assert done.code in (0, 1), done
        check_terminal(done.out)
        check_terminal(done.err)


@pytest.mark.parametrize("model", ["many.tflite", "chain.tflite"])
def test_the_output_of_convert_can_be_read_back(folder: Path, tmp_path: Path, model: str) -> None:
    shown(edgetool("convert", model, *BOARD, "-o", tmp_path / "out", "--name", "model", "--project", "header"))
    report = tmp_path / "out" / "model.json"
    check_terminal(report.read_text(encoding="ascii"))
    assert shown(edgetool("compare", report, report))
    assert shown(edgetool("inspect", tmp_path / "out" / "model.tflite"))


def test_a_model_named_like_a_system_header_does_not_hide_it(tmp_path: Path) -> None:
    for name in ("string", "stdint", "features", "Limits", "NUL"):
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(write_model(unary_model("RELU")))
        shown(edgetool("emit", path, *BOARD, "-o", tmp_path / "out", "--force"))
        shown(edgetool("emit", path, *BOARD, "-o", tmp_path / "refused", "--name", name), 2)
    assert not (tmp_path / "refused").exists()
    files = [path.name for path in (tmp_path / "out").iterdir()]
    sources = sorted(name for name in files if name.endswith("_runner.cc"))
    assert len(sources) == 5
    done = compile_in(tmp_path / "out", "g++", "c++17", f"-I{TFLM_API}", "-I.", "-fsyntax-only", *sources)
    assert (done.returncode, done.stderr) == (0, "")


def compiles_together(out: Path) -> None:
    """All headers of the directory in one unit, as C where they are that, and all sources of C++."""
    files = sorted(path.name for path in out.iterdir())
    for name in files:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*\.(h|c|cc|S|tflite|json)|CMakeLists.txt", name), name
        assert name.endswith(".tflite") or (out / name).read_bytes().isascii()
    assert len({name.lower() for name in files}) == len(files)
    for compiler, standard in (("gcc", "c99"), ("arm-none-eabi-g++", "c++20")):
        cpp = compiler.endswith("++")
        headers = [name for name in files if name.endswith(".h") and (cpp or not CPP.search(name))]
        (out / "unit.c").write_text("".join(f'#include "{name}"\n' for name in headers) + "typedef int unit;\n")
        sources = [name for name in files if cpp and name.endswith(".cc")]
        done = compile_in(out, compiler, standard, f"-I{TFLM_API}", "-I.", "-fsyntax-only", "unit.c", *sources)
        assert (done.returncode, done.stderr) == (0, "")
    (out / "unit.c").unlink()


def odd_model(name: str, number: int) -> bytes:
    """A model all of whose tensors have the name, with a state of that name, as its signature and description have."""
    build = Builder(seed=number)
    x, y = (build.activation([1, 4], name=name) for _ in "xy")
    build.operator("RELU", [x], [y])
    model = build.model([x], [y])
    state = replace(model.main.tensors[x], name=name, is_variable=True, index=2)
    graph = replace(model.main, tensors=(*model.main.tensors, state), name=name)
    signature = Signature(name, 0, ((name or "x", x),), ((name or "x", y),))
    return write_model(replace(model, subgraphs=(graph,), signatures=(signature,), description=f"{name}{number}"))


@pytest.mark.slow
@pytest.mark.parametrize("form", [("--project", "cmake"), ("--project", "plain", "--data", "incbin", "--profile")])
def test_models_with_any_names_can_share_an_arena(tmp_path: Path, form: tuple[str]) -> None:
    models = tmp_path / "models"
    models.mkdir()
    paths = []
    # What the C names of one model are made of, as the name of another; and names that differ in hardly anything.
    near = ("m", "m_input_0", "m_error", "m_tensors", "odd\u200b", "odd\u200c", "CMAKE")
    for number, stem in enumerate((*near, *sorted(hostile_names.file_names())[::5])):
        paths.append(models / f"{stem}.tflite")
        name = os.fsencode(stem).decode("utf-8", "replace")
        paths[-1].write_bytes(odd_model(name, number))
    words = ("emit", "--shared-arena", *BOARD, "-o", tmp_path / "out", *form)
    out = shown(edgetool(*words, "--", *paths))
    assert "arena" in out.lower()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "out"]
    assert len(list(models.iterdir())) == len(paths)
    check_terminal(edgetool(*words, "--force", "--json", "--", *paths).out)
    compiles_together(tmp_path / "out")
    if "cmake" in form and shutil.which("cmake") is not None:
        command = ["cmake", "-S", tmp_path / "out", "-B", tmp_path / "build"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    twins = [tmp_path / f"{name}.tflite" for name in ("Twin", "tWIN")]
    for number, path in enumerate(twins):
        path.write_bytes(odd_model("twin", number))
    refused = edgetool(*words, "--force", "--", *twins)
    assert refused.code == 2
    assert "would have the name" in refused.err


@pytest.mark.slow
def test_the_best_variant_of_a_sweep_with_any_names_is_written(tmp_path: Path) -> None:
    label = BOARD[1]
    for number, name in enumerate(NAMES[::6]):
        rows = [sweeps.row(1, parameters=(("style", name),), notes=(name,), target=label)]
        made = sweeps.record(
            name=name or "x",
            model=name or "x",
            parameter_names=("style",),
            targets=(TargetSpec(label, label),),
            options={"builder": name} if number % 2 else {"calibration": name},
        )
        store = sweeps.stored(tmp_path / f"{number}.sqlite", rows, made, tflite=odd_model(name, number))
        words = ("sweep", "best", store, "--project", ("plain", "header")[number % 2], "--force")
        shown(edgetool(*words, "-o", tmp_path / "out", "--data", ("array", "incbin")[number % 2]))
        reported = edgetool(*words, "-o", tmp_path / "again", "--json")
        check_terminal(reported.out)
        assert name in set(texts(json.loads(reported.out)))
    compiles_together(tmp_path / "out")
