"""The size of the code on the command line, and --tflm-library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.target.code_sizes import load_registrations
from edgetool.target.load import DEFAULT_RUNTIME
from tests import in_process
from tests.archive.objects import Part, Unit, library_bytes, object_bytes
from tests.model.builders import unary_model

KERNEL_BYTES = 50_000


def command_line(*arguments: str) -> tuple[int, str, str]:
    """Run edgetool in the current directory; return its exit code and what it prints."""
    done = in_process.command_line(*arguments, cwd=Path.cwd())
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a model of RELU and a library with the symbols that its firmware needs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.tflite").write_bytes(write_model(unary_model("RELU")))
    known = load_registrations(DEFAULT_RUNTIME)
    [registered] = [item for item in known if item.operator == "RELU"]
    symbols = (*known[0].symbols, *registered.symbols)
    parts = [Part(f".text.{number}", bytes(4)) for number in range(len(symbols) - 1)]
    unit = Unit([*parts, Part(".text.kernel", bytes(KERNEL_BYTES))], {name: at for at, name in enumerate(symbols)})
    (tmp_path / "my lib.a").write_bytes(library_bytes({"all of it.o": object_bytes(unit)}))
    return tmp_path


def flash_of(*arguments: str) -> dict[str, object]:
    """Return the section of the document of `plan`."""
    status, output, _ = command_line("plan", "m.tflite", "--json", *arguments)
    assert status == 0
    flash = json.loads(output)["flash"]
    assert isinstance(flash, dict)
    return flash


def test_the_plan_states_the_code(folder: Path) -> None:
    status, output, _ = command_line("plan", "m.tflite", "--target", "cortex-m7", "-v")
    assert status == 0
    assert "of flash besides the model: tflm-2026-08, cmsis-nn, cortex-m7," in " ".join(output.split())
    assert "--optimization Os" in output
    flash = flash_of("--target", "cortex-m7")
    assert flash["model_bytes"] == (folder / "m.tflite").stat().st_size
    smaller = flash_of("--target", "cortex-m7", "--optimization", "Os", "--c-library", "newlib-nano")
    assert isinstance(flash["code_bytes"], dict)
    assert isinstance(smaller["code_bytes"], dict)
    assert smaller["code_bytes"]["value"] < flash["code_bytes"]["value"]
    assert str(smaller["code_basis"]).endswith("-Os, newlib-nano")


def test_the_code_of_the_users_library_must_fit(folder: Path) -> None:
    library = ("--tflm-library", "my lib.a", "--target", "cortex-m7")
    flash = flash_of(*library)
    assert flash["code_is_exact"] is True
    assert isinstance(flash["code_bytes"], dict)
    total = int(flash["code_bytes"]["value"]) + (folder / "m.tflite").stat().st_size
    assert total > KERNEL_BYTES
    status, output, _ = command_line("check", "m.tflite", *library, "--flash", str(total))
    assert (status, f"the model and its code take {total:,} B" in output) == (0, True)
    status, output, _ = command_line("check", "m.tflite", *library, "--flash", str(total - 1))
    assert status == 1
    budget = ("--active-memory-budget", f"{total - 1}:flash")
    assert command_line("check", "m.tflite", *library, "--flash", "1MiB", *budget)[0] == 1
    assert command_line("check", "m.tflite", "--target", "cortex-m7", "--flash", "1MiB", *budget)[0] == 0


def test_measured_code_that_does_not_fit_is_a_warning(folder: Path) -> None:
    status, output, _ = command_line("check", "m.tflite", "--target", "cortex-m7", "--flash", "16KiB")
    assert status == 0
    assert "and its code at least" in output


def test_the_header_and_the_comparison_state_it(folder: Path) -> None:
    assert command_line("emit", "m.tflite", "--target", "cortex-m7", "--project", "header", "-o", "out")[0] == 0
    value = flash_of("--target", "cortex-m7")["code_bytes"]
    assert isinstance(value, dict)
    assert f"#define M_CODE_BYTES {value['value']}\n" in (folder / "out" / "m.h").read_text(encoding="ascii")
    status, output, _ = command_line("compare", "m.tflite", "m.tflite", "--target", "cortex-m7")
    assert status == 0
    assert "  code  " in output
    status, output, _ = command_line("fit", "m.tflite", "--json")
    boards = json.loads(output)["fit"]["boards"]
    assert any(row["code_bytes"] for row in boards)


@pytest.mark.parametrize(
    ("content", "arguments", "what"),
    [
        (None, (), "my lib.a: cannot be read"),
        (b"!<thin>\n", (), "my lib.a: is a thin archive"),
        (b"text", (), "my lib.a: is not a static library"),
        (library_bytes({}), (), "my lib.a: contains no object files"),
        (library_bytes({"f.o": b"text"}), (), "my lib.a(f.o): is not an object file (ELF)"),
        (library_bytes({"f.o": b"BC\xc0\xde"}), (), "my lib.a(f.o): contains code for link-time optimization"),
        (library_bytes({"f.o": object_bytes(Unit((Part(".text"),)))}), (), "my lib.a: does not define the interpreter"),
        (library_bytes({"f.o": object_bytes(Unit((), machine=243))}), (), "my lib.a(f.o): is for RISC-V, not for Arm"),
        (None, ("--runtime", "native"), "do not apply to native code"),
    ],
)
def test_what_is_refused(folder: Path, content: bytes | None, arguments: tuple[str, ...], what: str) -> None:
    (folder / "my lib.a").unlink()
    if content is not None:
        (folder / "my lib.a").write_bytes(content)
    status, _, error = command_line(
        "plan", "m.tflite", "--target", "cortex-m7", "--tflm-library", "my lib.a", *arguments
    )
    assert (status, what in error) == (2, True), error


def test_the_options_need_a_target(folder: Path) -> None:
    status, _, error = command_line("plan", "m.tflite", "--optimization", "Os")
    assert (status, "--optimization, --c-library and --tflm-library override a target" in error) == (2, True)
