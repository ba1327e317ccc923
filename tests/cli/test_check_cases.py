"""What a user of the gate meets: a table of cases, with exit code and output of each as a golden file.

EDGETOOL_UPDATE_GOLDEN=1 writes the golden files anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgetool.cli.errors import exit_code_of
from edgetool.cli.main import cli
from tests.cli import check_models as made

GOLDEN = Path(__file__).parent / "golden" / "check"
BOARD = ("--target", "nucleo-l4r5zi")
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
    case("fits", 0, *BOARD, form="markdown", locked=SMALL),
    case("arena-too-large", 1, *CORE, "--sram", "8KiB", "--flash", "64KiB", "--reserve", "1KiB"),
    case("flash-too-small", 1, *CORE, "--sram", "64KiB", "--flash", "16KiB", "--reserve-flash", "12KiB", form="junit"),
    case("growth-within-the-allowance", 0, *BOARD, "--allow-growth", "10%", model=LARGE, locked=SMALL, form="markdown"),
    case("growth-beyond-the-allowance", 1, *BOARD, "--allow-growth", "1%", model=LARGE, locked=SMALL, form="markdown"),
    case("growth-of-everything", 1, *BOARD, "--allow-growth", "16B", model=HUGE, locked=SMALL, form="sarif"),
    case("improvement", 0, *BOARD, model=SMALL, locked=LARGE, form="markdown"),
    case("improvement-but-locked", 1, *BOARD, "--locked", model=SMALL, locked=LARGE),
    case("no-lock", 0, *BOARD, form="junit"),
    case("no-lock-but-locked", 1, *BOARD, "--locked"),
    case("lock-of-another-model", 0, *BOARD, locked={"models/other.tflite": SMALL}, form="markdown"),
    case("lock-of-another-model-locked", 1, *BOARD, "--locked", locked={"models/other.tflite": SMALL}),
    case("lock-of-another-program", 2, *BOARD, locked=SMALL, damage=lambda _: '[metadata]\nlock-version = "2.1"\n'),
    case("lock-cut-short", 2, *BOARD, locked=SMALL, damage=lambda text: text[: len(text) // 2]),
    case("lock-with-a-merge-conflict", 2, *BOARD, locked=SMALL, damage=lambda text: f"<<<<<<< HEAD\n{text}=======\n"),
    case("lock-of-a-later-version", 2, *BOARD, locked=SMALL, damage=lambda text: text.replace("-lock/1", "-lock/9")),
    case("lock-for-another-target", 0, "--target", "cortex-m7", locked=SMALL, locked_arguments=BOARD, form="markdown"),
    case(
        "profile-changed", 1, "--target", "our.toml", "--locked",
        files={"our.toml": PROFILE + 'clock = "80MHz"\n'},
        locked={MODEL: SMALL, "our.toml": PROFILE}, form="markdown",
    ),
    case("kernels-changed", 0, *BOARD, "--kernels", "reference", "--allow-growth", "10000%",
         locked=SMALL, locked_arguments=BOARD, form="markdown"),
    case("operator-that-the-runtime-lacks", 1, *BOARD, model=made.unsupported(), form="sarif"),
    case("custom-operator", 1, *BOARD, model=made.custom()),
    case("arena-known-from-below-alone", 1, *CORE, "--sram", "1KiB", "--flash", "64KiB", model=made.custom(),
         form="markdown"),
    case("several-models-one-failing", 1, "models/big.tflite", *CORE, "--sram", "12KiB", "--flash", "64KiB",
         files={"models/big.tflite": HUGE}),
    case("several-targets", 1, *BOARD, *CORE, "--max-latency", "5ms", form="junit"),
    case("budgets", 1, *BOARD, form="markdown", files={"edgetool.toml": BUDGETS}),
    case("budgets-kept", 0, *BOARD, "--memory-budget", "64KiB", "--active-memory-budget", "64KiB:flash"),
    case("max-latency", 1, *BOARD, "--max-latency", "2ms", form="sarif"),
    case("max-latency-within-the-band", 0, *BOARD, "--max-latency", "12ms"),
    case("max-arena-of-a-file-without-a-plan", 1, *CORE, "--max-arena", "6KiB", model=made.unordered()),
    case("accuracy-lost", 1, *BOARD, "--max-accuracy-loss", "1%", files={"models/kws.json": LOST}, form="junit"),
    case("accuracy-not-told", 1, *BOARD, "--max-accuracy-loss", "1%"),
    case("hostile-names", 1, *BOARD, "--max-arena", "1KiB", model=made.hostile()),
    case("hostile-names-in-markdown", 1, *BOARD, "--max-arena", "1KiB", model=made.hostile(), form="markdown"),
    case("no-model", 3, *BOARD, model=b"not a model\n"),
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


def test_every_golden_file_is_of_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case.name for case in CASES}
