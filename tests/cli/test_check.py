"""edgetool check as a user and a CI job meet it.

docs/check.md: its workflows are valid, and its options exist; tests/test_readme.py runs its commands.

What a user of the gate meets: a table of cases, with exit code and output of each as a golden file.

EDGETOOL_UPDATE_GOLDEN=1 writes the golden files anew.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgetool.cli.check import FORMS
from edgetool.cli.errors import exit_code_of
from edgetool.cli.main import cli
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.writer import write_model
from tests.cli import check_models as made
from tests.cli.program import edgetool, process
from tests.model.builders import branches_model, chain_model, conv_model, unary_model

BOARD = ("--target", "nucleo-f446re")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    for name, model in (("fits", conv_model()), ("wide", branches_model()), ("gelu", unary_model("GELU"))):
        (tmp_path / "models" / f"{name}.tflite").write_bytes(write_model(model))
    return tmp_path


def run(folder: Path, *arguments: str | Path) -> tuple[int, str, str]:
    done = edgetool("check", *arguments, cwd=folder, COLUMNS="80", NO_COLOR="1")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


FITS, WIDE = "models/fits.tflite", "models/wide.tflite"


def test_a_model_that_fits(folder: Path) -> None:
    code, out, err = run(folder, FITS, *BOARD)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "models/fits.tflite on nucleo-f446re passes"
    assert any(line.startswith("  pass  arena ") for line in lines)
    assert "there is no lock file" in out


def test_a_failure_shows_value_limit_excess_causes_and_advice(folder: Path) -> None:
    code, out, err = run(folder, WIDE, *BOARD, "--max-arena", "4KiB", "--max-latency", "1us")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "models/wide.tflite on nucleo-f446re FAILS: max-arena, max-latency"
    assert all(len(line) <= 80 and line.isascii() for line in lines), out
    text = " ".join(out.split())
    assert "--max-arena allows 4,096 B" in text
    assert "B over the limit" in text
    assert "cause operator " in text
    assert "suggestions - 'edgetool plan --target nucleo-f446re -o NEW.tflite'" in text
    assert "--max-latency allows 1 us" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((FITS,), 0),
        ((FITS, "--quiet"), 0),
        ((WIDE, "--max-arena", "1KiB", "--quiet"), 1),
        (("models/gelu.tflite",), 1),
        ((FITS, WIDE, "--max-arena", "9KiB"), 1),
        ((FITS, "--locked"), 1),
        ((FITS, "--max-accuracy-loss", "1%"), 1),
        ((FITS, "--max-accuracy-loss", "1"), 2),
        ((FITS, "--max-latency", "50"), 2),
        ((FITS, "--allow-growth", "much"), 2),
        ((FITS, "--memory-budget", "64K"), 2),
        ((FITS, "--memory-budget", "64KiB:rom"), 2),
        ((FITS, "--update", "--locked"), 2),
        ((FITS, "--format", "xml"), 2),
        ((FITS, "--report", "none.json"), 2),
        ((FITS, "--target", "nucleo-f446re"), 2),
        ((), 2),
        (("models/none.tflite",), 2),
        (("bad.tflite", FITS), 3),
        ((FITS, "bad.tflite"), 3),
    ],
)
def test_exit_codes(folder: Path, arguments: tuple[str, ...], code: int) -> None:
    (folder / "bad.tflite").write_bytes(b"not a model")
    found, out, err = run(folder, *arguments, *BOARD)
    assert found == code
    assert bool(err) == (code > 1 or (code == 1 and "--quiet" in arguments))
    if "--quiet" in arguments or code > 1:
        assert out == ""


def test_an_unsafe_plan_in_one_file_ends_it(folder: Path) -> None:
    unsafe = encode_plan(conv_model(), dict.fromkeys(conv_model().tensor_keys, 0))
    (folder / "unsafe.tflite").write_bytes(write_model(with_metadata(conv_model(), METADATA_NAME, unsafe)))
    code, out, err = run(folder, FITS, "unsafe.tflite", *BOARD, "--update")
    assert (code, out) == (3, "")
    assert "overlap" in err
    assert not (folder / "edgetool.lock").exists()


def test_two_models_on_two_targets(folder: Path) -> None:
    code, out, _ = run(folder, FITS, WIDE, *BOARD, "--target", "nucleo-f103rb", "--max-arena", "9KiB")
    assert code == 1
    verdicts = [line.split() for line in out.splitlines() if " on nucleo" in line]
    assert [words[0] if words[0] == "pass" else words[3].rstrip(":") for words in verdicts].count("pass") == 2
    assert [words[3].rstrip(":") for words in verdicts if words[0] != "pass"][:2] == ["FAILS", "FAILS"]
    assert "2 of 4 fail" in out.splitlines()


def test_json_is_the_document(folder: Path) -> None:
    code, out, _ = run(folder, WIDE, *BOARD, "--json", "--memory-budget", "4KiB", "--memory-budget", "1MiB:flash")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "edgetool/1")
    assert document["check"]["violations"] == {"violates_4kib": True, "violates_1mib": False}
    assert document["provenance"]["options"]["command"] == "check"
    assert out == run(folder, WIDE, *BOARD, "--format", "json", "--memory-budget", "4KiB", "--memory-budget",
                      "1MiB:flash")[1]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_other_forms_go_to_stdout_or_to_a_file_beside_the_text(folder: Path, form: str) -> None:
    code, out, err = run(folder, WIDE, *BOARD, "--max-arena", "1KiB", "--format", form)
    assert (code, err) == (1, "")
    assert callable(importlib.import_module(FORMS[form]).text)
    code, text, err = run(folder, WIDE, *BOARD, "--max-arena", "1KiB", "--format", form, "-o", "result")
    assert (code, err) == (1, "wrote result\n")
    assert (folder / "result").read_text(encoding="utf-8") == out
    assert text.startswith("models/wide.tflite on nucleo-f446re FAILS")
    again = run(folder, WIDE, *BOARD, "--format", form, "-o", "result")
    assert again[0] == 2
    assert "--force" in again[2]


def test_the_text_in_a_file_has_no_colours(folder: Path) -> None:
    assert run(folder, FITS, *BOARD, "-o", "result.txt", "-q")[1] == ""
    assert "\x1b" not in (folder / "result.txt").read_text(encoding="utf-8")


def test_no_output_replaces_an_input(folder: Path) -> None:
    run(folder, FITS, *BOARD, "--update", "-q")
    for path in (FITS, "edgetool.lock"):
        before = (folder / path).read_bytes()
        assert run(folder, FITS, *BOARD, "-o", path, "--force")[0] == 2
        assert (folder / path).read_bytes() == before


@pytest.mark.slow
def test_from_lock_to_a_failing_job(folder: Path) -> None:
    code, out, err = run(folder, FITS, *BOARD, "--update")
    assert (code, err) == (0, "wrote edgetool.lock\n")
    assert run(folder, FITS, *BOARD, "--locked")[0] == 0
    (folder / FITS).write_bytes(write_model(chain_model(9)))
    code, out, _ = run(folder, FITS, *BOARD)
    assert code == 1
    text = " ".join(out.split())
    assert "FAIL growth" in text
    assert "the model file changed (sha256" in text
    assert "which is new" in text
    assert run(folder, FITS, *BOARD, "--allow-growth", "1KiB", "--allow-growth", "900%")[0] == 0
    assert run(folder, FITS, *BOARD, "--allow-growth", "1KiB")[0] == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "edgetool-lock/9"}', '{"schema": "x"}', "<<<<<<< a\n"])
def test_an_invalid_lock_file_is_a_usage_error(folder: Path, text: str) -> None:
    (folder / "edgetool.lock").write_text(text, encoding="ascii")
    code, out, err = run(folder, FITS, *BOARD)
    assert (code, out) == (2, "")
    assert err.startswith("edgetool: error: edgetool.lock")


def test_settings_give_models_budgets_and_limits(folder: Path) -> None:
    (folder / "edgetool.toml").write_text(
        'target = "nucleo-f446re"\n'
        'memory_budgets = ["4KiB", {size = "1MiB", of = "flash"}, 65536]\n'
        'active_memory_budget = {size = "64KiB", of = "ram"}\n'
        "[check]\n"
        'models = ["models/fits.tflite", "models/wide.tflite"]\n'
        'reserve = "60KiB"\nmax_latency = "1s"\nallow_growth = "2%"\nformat = "json"\n',
        encoding="utf-8",
    )
    code, out, err = run(folder)
    assert (code, err) == (1, "")
    reports = json.loads(out)["reports"]
    assert [item["check"]["passed"] for item in reports] == [True, False]
    assert list(reports[1]["check"]["violations"].items()) == [
        ("violates_4kib", True),
        ("violates_1mib", False),
        ("violates_65536b", False),
        ("violates_64kib", True),
    ]
    failed = [item["rule"] for item in reports[1]["check"]["judgements"] if item["passed"] is False]
    assert failed == ["active-budget"]
    one = json.loads(run(folder, FITS, "--active-memory-budget", "1MiB")[1])
    assert (one["check"]["path"], one["check"]["passed"]) == (FITS, True)
    # The settings of one command leave the others alone.
    assert edgetool("plan", FITS, cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('memory_budgets = ["64K"]', "memory_budgets: '64K' is ambiguous"),
        ("memory_budgets = [1.5]", "memory_budgets: '1.5' is not a budget"),
        ("memory_budgets = [true]", "memory_budgets: "),
        ('memory_budgets = [{sise = "1KiB"}]', "memory_budgets: unknown key 'sise'"),
        ('active_memory_budget = {size = "1KiB", of = "rom"}', "active_memory_budget: a budget applies to"),
        ('memory_budget = "1KiB"', "memory_budget: unknown key; did you mean 'memory-budgets'?"),
        ('[check]\nmax_latency = "50"', "check.max_latency: '50' is not a time"),
        ("[check]\nmodel = 1", "check.model: unknown key; did you mean 'models'?"),
    ],
)
def test_an_error_in_the_settings_names_the_key(folder: Path, text: str, where: str) -> None:
    (folder / "edgetool.toml").write_text(text, encoding="utf-8")
    code, out, err = run(folder, FITS, *BOARD)
    assert (code, out) == (2, "")
    assert err.startswith(f"edgetool: error: edgetool.toml: {where}"), err


def test_quiet_still_prints_failures(folder: Path) -> None:
    code, out, err = run(folder, WIDE, *BOARD, "--max-arena", "4KiB", "-q")
    assert (code, out) == (1, "")
    assert "models/wide.tflite: fails: max-arena" in err


def test_the_lock_is_not_changed_if_the_output_cannot_be_written(folder: Path) -> None:
    (folder / "there.txt").write_text("mine")
    code, _, err = run(folder, FITS, *BOARD, "--update", "-o", "there.txt")
    assert (code, "already exists" in err) == (2, True)
    assert not (folder / "edgetool.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edgetool.toml", "board.toml", "edgetool.lock", FITS])
def test_no_output_replaces_what_was_read(folder: Path, name: str) -> None:
    (folder / "edgetool.toml").write_text("")
    (folder / "board.toml").write_text('extends = "nucleo-f446re"\nname = "board"\nboard = "Ours"\n')
    assert run(folder, FITS, "-t", "board.toml", "--update")[0] == 0
    before = (folder / name).read_bytes()
    code, _, err = run(folder, FITS, "-t", "board.toml", "-o", name, "--force")
    assert (code, "would overwrite the input" in err) == (2, True)
    assert (folder / name).read_bytes() == before


def test_models_of_the_settings_may_be_a_pattern(folder: Path) -> None:
    (folder / "edgetool.toml").write_text('target = "nucleo-f446re"\n[check]\nmodels = ["models/[fw]*.tflite"]\n')
    code, out, _ = run(folder)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines() if " on nucleo" in line] == [
        ["pass", Path(FITS).name],
        ["pass", Path(WIDE).name],
    ]
    (folder / "edgetool.toml").write_text('target = "nucleo-f446re"\n[check]\nmodels = ["none*.tflite"]\n')
    assert run(folder)[0] == 2


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("update = true", "unknown key"),
        ('output = "x.txt"', "unknown key"),
        ("force = true", "cannot be set in a file"),
    ],
)
def test_options_that_settings_must_not_contain(folder: Path, setting: str, said: str) -> None:
    (folder / "edgetool.toml").write_text(f"[check]\n{setting}\n")
    code, _, err = run(folder, FITS, *BOARD)
    assert (code, said in err) == (2, True)


@pytest.mark.slow
def test_concurrent_updates_are_all_kept(folder: Path) -> None:
    boards = ("nucleo-f446re", "nucleo-l4r5zi", "nucleo-l476rg", "rpi-pico")
    with ThreadPoolExecutor(len(boards)) as pool:
        done = list(pool.map(lambda board: process("check", FITS, "-t", board, "--update", cwd=folder), boards))
    assert [each.returncode for each in done] == [0] * len(boards)
    lock = json.loads((folder / "edgetool.lock").read_text())
    assert sorted(lock["entries"][FITS]) == sorted(boards)


def test_a_lock_file_that_is_a_link_stays_a_link(folder: Path) -> None:
    (folder / "real.lock").write_text('{\n  "entries": {},\n  "schema": "edgetool-lock/1"\n}\n')
    (folder / "edgetool.lock").symlink_to("real.lock")
    assert run(folder, FITS, *BOARD, "--update")[0] == 0
    assert (folder / "edgetool.lock").is_symlink()
    assert FITS in (folder / "real.lock").read_text()


ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "check.md"
TEXT = DOCS.read_text(encoding="utf-8")
BLOCK = re.compile(r"```(?P<kind>yaml)\n(?P<text>.*?)```\n", re.DOTALL)
SCHEMAS = ("github-workflows", "gitlab-ci")


def named(text: str) -> tuple[str, str]:
    """What the first line of a YAML block says it is, and the block."""
    return text.partition("\n")[0].removeprefix("# "), text


YAML = [named(block["text"]) for block in BLOCK.finditer(TEXT)]


@pytest.mark.parametrize(("kind", "text"), [item for item in YAML if item[0] in SCHEMAS])
def test_workflows_are_valid(kind: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    (tmp_path / "file.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", "file.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_matches_the_one_of_this_repository() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")
    (text,) = (text for kind, text in YAML if kind == ".pre-commit-config.yaml")
    (shown,) = yaml.safe_load(text)["repos"][0]["hooks"]
    (ours,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert shown["id"] == ours["id"]
    assert {kind for kind, _ in YAML} == {*SCHEMAS, ".pre-commit-config.yaml"}


def test_the_options_are_the_same_as_those_of_the_command() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "edgetool", "check", "--help"], capture_output=True, text=True, check=True
    )
    reported = set(re.findall(r"`?(--[a-z][a-z-]+)", TEXT)) - {
        "--evaluate",
        "--body-file",
        "--edit-last",
        "--create-if-none",
    }
    assert {option for option in reported if option not in shown.stdout} == set()
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert {name for name in action["inputs"] if f"`{name}`" not in TEXT} == set()


GOLDEN = Path(__file__).parent / "golden" / "check"
L4R5 = ("--target", "nucleo-l4r5zi")
CORE = ("--target", "cortex-m4")
MODEL = "models/kws.tflite"
SMALL, LARGE, HUGE = made.classifier(), made.classifier(17), made.classifier(32)
LOST = made.conversion_report(SMALL, 0.95, 0.91)

Files = dict[str, bytes | str]


@dataclass(frozen=True)
class Case:
    """Arguments of `check`, the files of the project, and what was locked before: an earlier model and arguments."""

    name: str
    code: int
    arguments: tuple[str, ...]
    form: str
    files: Files
    locked: Files | None = None
    locked_arguments: tuple[str, ...] | None = None
    damage: Callable[[str], str] | None = None


def case(
    name: str,
    code: int,
    *arguments: str,
    form: str = "github",
    model: bytes = SMALL,
    files: Files | None = None,
    locked: bytes | Files | None = None,
    locked_arguments: tuple[str, ...] | None = None,
    damage: Callable[[str], str] | None = None,
) -> Case:
    given = {MODEL: model} | (files or {})
    before = {MODEL: locked} if isinstance(locked, bytes) else locked
    return Case(name, code, (MODEL, *arguments), form, given, before, locked_arguments, damage)


PROFILE = """name = "our-board"
extends = "nucleo-l4r5zi"
"""
BUDGETS = """memory_budgets = ["8KiB", "1MiB", {size = "16kB", of = "flash"}, {size = "24KiB", of = "ram"}]
active_memory_budget = "8kB"

[check]
reserve = "16KiB"
"""
CASES = [
    case("fits", 0, *L4R5, form="markdown", locked=SMALL),
    case("arena-too-large", 1, *CORE, "--sram", "8KiB", "--flash", "64KiB", "--reserve", "1KiB"),
    case("flash-too-small", 1, *CORE, "--sram", "64KiB", "--flash", "16KiB", "--reserve-flash", "12KiB", form="junit"),
    case("growth-within-the-allowance", 0, *L4R5, "--allow-growth", "10%", model=LARGE, locked=SMALL, form="markdown"),
    case("growth-beyond-the-allowance", 1, *L4R5, "--allow-growth", "1%", model=LARGE, locked=SMALL, form="markdown"),
    case("growth-of-everything", 1, *L4R5, "--allow-growth", "16B", model=HUGE, locked=SMALL, form="sarif"),
    case("improvement", 0, *L4R5, model=SMALL, locked=LARGE, form="markdown"),
    case("improvement-but-locked", 1, *L4R5, "--locked", model=SMALL, locked=LARGE),
    case("no-lock", 0, *L4R5, form="junit"),
    case("no-lock-but-locked", 1, *L4R5, "--locked"),
    case("lock-of-another-model", 0, *L4R5, locked={"models/other.tflite": SMALL}, form="markdown"),
    case("lock-of-another-model-locked", 1, *L4R5, "--locked", locked={"models/other.tflite": SMALL}),
    case("lock-of-another-program", 2, *L4R5, locked=SMALL, damage=lambda _: '[metadata]\nlock-version = "2.1"\n'),
    case("lock-cut-short", 2, *L4R5, locked=SMALL, damage=lambda text: text[: len(text) // 2]),
    case("lock-with-a-merge-conflict", 2, *L4R5, locked=SMALL, damage=lambda text: f"<<<<<<< HEAD\n{text}=======\n"),
    case("lock-of-a-later-version", 2, *L4R5, locked=SMALL, damage=lambda text: text.replace("-lock/1", "-lock/9")),
    case("lock-for-another-target", 0, "--target", "cortex-m7", locked=SMALL, locked_arguments=L4R5, form="markdown"),
    case(
        "profile-changed", 1, "--target", "our.toml", "--locked",
        files={"our.toml": PROFILE + 'clock = "80MHz"\n'},
        locked={MODEL: SMALL, "our.toml": PROFILE}, form="markdown",
    ),
    case("kernels-changed", 0, *L4R5, "--kernels", "reference", "--allow-growth", "10000%",
         locked=SMALL, locked_arguments=L4R5, form="markdown"),
    case("operator-that-the-runtime-lacks", 1, *L4R5, model=made.unsupported(), form="sarif"),
    case("custom-operator", 1, *L4R5, model=made.custom()),
    case("arena-known-from-below-alone", 1, *CORE, "--sram", "1KiB", "--flash", "64KiB", model=made.custom(),
         form="markdown"),
    case("several-models-one-failing", 1, "models/big.tflite", *CORE, "--sram", "12KiB", "--flash", "64KiB",
         files={"models/big.tflite": HUGE}),
    case("several-targets", 1, *L4R5, *CORE, "--max-latency", "5ms", form="junit"),
    case("budgets", 1, *L4R5, form="markdown", files={"edgetool.toml": BUDGETS}),
    case("budgets-kept", 0, *L4R5, "--memory-budget", "64KiB", "--active-memory-budget", "64KiB:flash"),
    case("max-latency", 1, *L4R5, "--max-latency", "2ms", form="sarif"),
    case("max-latency-within-the-band", 0, *L4R5, "--max-latency", "12ms"),
    case("max-arena-of-a-file-without-a-plan", 1, *CORE, "--max-arena", "6KiB", model=made.unordered()),
    case("accuracy-lost", 1, *L4R5, "--max-accuracy-loss", "1%", files={"models/kws.json": LOST}, form="junit"),
    case("accuracy-not-told", 1, *L4R5, "--max-accuracy-loss", "1%"),
    case("hostile-names", 1, *L4R5, "--max-arena", "1KiB", model=made.hostile()),
    case("hostile-names-in-markdown", 1, *L4R5, "--max-arena", "1KiB", model=made.hostile(), form="markdown"),
    case("no-model", 3, *L4R5, model=b"not a model\n"),
]  # fmt: skip


class Program:
    """edgetool in this process, from a folder of its own: 70 processes would take a minute."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capture = folder, capture

    def write(self, files: Files) -> None:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code, and what was printed: the command, stdout, and stderr after a line that says so."""
        code = exit_code_of(lambda: cli.main(["check", *arguments], standalone_mode=False), tracebacks=False)
        printed = self.capture.readouterr()
        said = f"--- stderr\n{printed.err}" if printed.err else ""
        return code, f"$ edgetool check {' '.join(arguments)}\n{printed.out}{said}--- exit code {code}\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return Program(tmp_path, capsys)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, program: Program) -> None:
    if case.locked is not None:
        program.write(case.locked)
        named = [name for name in case.locked if name.endswith(".tflite")]
        options = [item for item in case.arguments[1:] if item != "--locked"]
        earlier = case.locked_arguments if case.locked_arguments is not None else tuple(options)
        code, printed = program.run(*named, *earlier, "--update", "--quiet")
        assert code == 0, printed
        lock = program.folder / "edgetool.lock"
        if case.damage is not None:
            lock.write_text(case.damage(lock.read_text()))
    program.write(case.files)
    outputs = [program.run(*case.arguments), program.run(*case.arguments, "--format", case.form)]
    assert [code for code, _ in outputs] == [case.code, case.code], outputs[0][1]
    text = "".join(printed for _, printed in outputs)
    assert str(program.folder) not in text
    golden = GOLDEN / f"{case.name}.txt"
    if os.environ.get("EDGETOOL_UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case.name for case in CASES}
