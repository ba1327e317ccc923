"""The runtime native as a user meets it: exit codes, messages, options that do not apply, and hostile names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.pipeline.firmware import output_name
from tests import hostile_names
from tests.cli.program import edgetool
from tests.codegen.c_compilers import compile_in
from tests.in_process import captured
from tests.model.builders import residual_model, unary_model

NATIVE = ("--runtime", "native")
BOARD = ("--target", "cortex-m7", *NATIVE)


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "net.tflite"
    path.write_bytes(write_model(residual_model()))
    return path


def words(done: subprocess.CompletedProcess[str]) -> str:
    """What was printed to stderr, in one line."""
    return " ".join(done.stderr.split())


def test_emit_prints_the_arena_and_the_files(tflite: Path, tmp_path: Path) -> None:
    done = edgetool("emit", tflite, *BOARD, "-o", tmp_path / "out", "--project", "cmake", COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("native code", "native code has no tail", "in flash, instead of the model's file", "net_weights.c"):
        assert text in done.stdout, done.stdout
    assert "kernels)" not in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} > {"net.h", "net.c", "main.c", "CMakeLists.txt"}


def test_a_depfile_names_all_files(tflite: Path, tmp_path: Path) -> None:
    depfile = tmp_path / "net.d"
    done = captured("emit", tflite, *NATIVE, "-o", tmp_path / "out", "--depfile", depfile, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rule = depfile.read_text(encoding="utf-8")
    for path in (tmp_path / "out").iterdir():
        assert path.name in rule.partition(":")[0]
    assert "net.tflite" in rule.partition(":")[2]


@pytest.mark.parametrize("command", ["emit", "convert"])
def test_kernels_can_be_left_out(tflite: Path, tmp_path: Path, command: str) -> None:
    done = captured(command, tflite, *BOARD, "--no-kernels", "--json", "-o", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["provenance"]["options"]["no_kernels"] is True
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"net.h", "net.c", "net_weights.h", "net_weights.c", "main.c"} <= names
    assert not [name for name in names if name.startswith("edgetool")]
    done = captured(command, tflite, *BOARD, "--no-kernels", "--project", "cmake", "-o", tmp_path / "other")
    assert (done.returncode, "needs the kernels" in words(done)) == (2, True)
    done = captured(command, tflite, "-t", "cortex-m7", "--no-kernels", "-o", tmp_path / "other")
    assert (done.returncode, "--no-kernels needs --runtime native" in words(done)) == (2, True)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("options", [NATIVE, BOARD], ids=["no target", "cortex-m7"])
def test_documents_have_the_runtime(tflite: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    for command in (("plan", tflite), ("emit", tflite, "-o", tmp_path / "out")):
        done = captured(*command, *options, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        assert document["runtime"]["name"] == document["provenance"]["options"]["runtime"] == "native"
        assert document["flash"]["model_bytes"] > 0
        assert (document["target"] is None) == (options == NATIVE)


def test_plan_shows_the_same_arena_as_emit(tflite: Path, tmp_path: Path) -> None:
    planned = captured("plan", tflite, *BOARD)
    emitted = captured("emit", tflite, *BOARD, "-o", tmp_path / "out")
    assert (planned.returncode, emitted.returncode) == (0, 0)
    lines = [[line for line in done.stdout.splitlines() if line.startswith("  Arena  ")] for done in (planned, emitted)]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 1


@pytest.mark.parametrize("command", ["plan", "emit", "convert", "verify"])
def test_an_unsupported_operator_is_named_and_nothing_is_written(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sign.tflite").write_bytes(write_model(unary_model("SIGN")))
    target = NATIVE if command == "verify" else BOARD
    monkeypatch.chdir(tmp_path)
    done = captured(command, "sign.tflite", *target)
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: sign.tflite: operator 0:" in words(done)
    assert "SIGN" in words(done)
    assert [path.name for path in tmp_path.iterdir()] == ["sign.tflite"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("emit", "--data incbin"),
        ("emit", "--shared-arena"),
        ("emit", "--custom-operators operators.toml"),
        ("emit", "--arena-style buffers"),
        ("emit", "--arena-style buffers --sharing greedy"),
        ("emit", "--kernels cmsis-nn"),
        ("convert", "--data incbin"),
        ("convert", "--custom-operators operators.toml"),
        ("convert", "--no-offline-plan"),
        ("convert", "--kernels cmsis-nn"),
        ("plan", "--sharing greedy"),
        ("plan", "--constants-in-ram"),
        ("plan", "--custom-operators operators.toml"),
        ("plan", "--output planned.tflite"),
        ("plan", "--optimize"),
        ("plan", "--explain"),
        ("plan", "--kernels cmsis-nn"),
        ("verify", "--original net.tflite"),
        ("verify", "--run-unsafe-plan"),
        ("verify", "--kernels cmsis-nn"),
    ],
)
def test_options_that_do_not_apply_are_rejected(tflite: Path, tmp_path: Path, command: str, option: str) -> None:
    (tmp_path / "net.tflite").write_bytes(tflite.read_bytes())
    (tmp_path / "operators.toml").write_text("", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = captured(command, "net.tflite", *BOARD, *option.split())
    assert (done.returncode, done.stdout) == (2, "")
    name = next(word for word in reversed(option.split()) if word.startswith("--"))
    assert name in words(done) or option.split()[0] in words(done)
    assert "native" in words(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.tflite", "operators.toml"]


@pytest.mark.parametrize("command", ["estimate", "plan", "check", "convert"])
def test_documents_have_the_time(tflite: Path, tmp_path: Path, command: str) -> None:
    options = {"check": ("--lock", tmp_path / "lock"), "convert": ("-o", tmp_path / "out")}.get(command, ())
    done = captured(command, tflite, *BOARD, "--json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    estimate = document["estimate"]
    assert document["runtime"]["name"] == "native"
    assert estimate["instructions"] == sum(item["instructions"] for item in estimate["operators"]) > 0
    assert estimate["latency_ms"]["low"] < estimate["latency_ms"]["value"] < estimate["latency_ms"]["high"]
    assert estimate["validation"] != "calibrated"
    assert estimate["not_modelled"] == []
    assert estimate["precision_tradeoffs"] == {}


def test_estimates_are_those_of_the_core(tflite: Path) -> None:
    done = captured("estimate", tflite, "-t", "rpi-pico", "-t", "teensy41", *NATIVE, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    slow, fast = (item["estimate"] for item in json.loads(done.stdout)["reports"])
    assert slow["instructions"] > fast["instructions"]
    done = captured("estimate", tflite, "-t", "rpi-pico", *NATIVE)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("native code", "not measured on the board", "constants"):
        assert text in " ".join(done.stdout.split())
    assert "CMSIS-NN (OPTIMIZED" not in done.stdout


@pytest.mark.parametrize("command", ["estimate", "sweep"])
def test_cores_without_counted_instructions_are_refused(tflite: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "sweep.toml").write_text('[[targets]]\nname = "esp32-s3"\nruntime = "native"\n', encoding="utf-8")
    given = (tflite, "-t", "esp32-s3", *NATIVE) if command == "estimate" else ("run", tmp_path / "sweep.toml")
    done = captured(command, *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the time of native code on xtensa-lx7 is unknown" in words(done)


def test_check_compares_native_code_with_limits_and_the_lock_file(tflite: Path, tmp_path: Path) -> None:
    lock = ("--lock", tmp_path / "edgetool.lock")
    done = captured("check", tflite, *BOARD, *lock, "--update", "--json")
    assert (done.returncode, done.stderr) == (0, f"wrote {tmp_path / 'edgetool.lock'}\n")
    document = json.loads(done.stdout)
    (entry,) = json.loads((tmp_path / "edgetool.lock").read_text(encoding="ascii"))["entries"].values()
    figures = entry["cortex-m7"]["figures"]
    assert figures["arena_bytes"] == document["arena"]["bytes"]
    assert figures["model_bytes"] == document["flash"]["model_bytes"]
    assert figures["tail_bytes"] == 0
    done = captured("check", tflite, *BOARD, *lock, "--locked")
    assert (done.returncode, done.stderr) == (0, "")
    assert "native code" in done.stdout
    done = captured("check", tflite, *BOARD, *lock, "--max-latency", "1ns")
    assert done.returncode == 1
    assert "max-latency" in done.stdout
    done = captured("check", tflite, "-t", "cortex-m7", *lock)
    assert done.returncode == 1
    assert "the runtime changed from native" in " ".join(done.stdout.split())


def test_fit_judges_native_code(tflite: Path) -> None:
    done = captured("fit", tflite, *NATIVE, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)["fit"]["boards"]
    arenas = {(row["target"]["core"], row["arena_bytes"]) for row in rows}
    assert len(arenas) == len({core for core, _ in arenas})
    assert {row["target"]["runtime"] for row in rows} == {"native"}
    unknown = {row["target"]["core"] for row in rows if row["latency_ms"] is None}
    assert {"xtensa-lx6", "xtensa-lx7"} <= unknown
    assert not [core for core in unknown if core.startswith(("cortex", "riscv"))]


@pytest.mark.parametrize("option", ["--row-input", "--row-output"])
def test_options_of_rows_apply_to_native_code(tflite: Path, option: str) -> None:
    refused = captured("plan", tflite, "-t", "cortex-m4", option)
    assert (refused.returncode, f"{option} applies to native code" in words(refused)) == (2, True)


def test_fit_judges_native_code_that_is_handed_rows(tflite: Path) -> None:
    boards = ("--board", "rpi-pico", "--json")
    whole, rows = (captured("fit", tflite, *NATIVE, *options, *boards) for options in ((), ("--row-input",)))
    assert (rows.returncode, rows.stderr) == (0, "")
    arenas = [json.loads(done.stdout)["fit"]["boards"][0]["arena_bytes"] for done in (whole, rows)]
    assert arenas[0] > arenas[1]
    assert json.loads(rows.stdout)["provenance"]["options"]["row_input"] is True
    refused = captured("fit", tflite, "--row-input", *boards)
    assert (refused.returncode, "--row-input applies to native code" in words(refused)) == (2, True)
    taken = captured("fit", tflite, *NATIVE, "--row-output", *boards)
    assert json.loads(taken.stdout)["provenance"]["options"]["row_output"] is True


def test_check_compares_rows_with_the_lock_file(tflite: Path, tmp_path: Path) -> None:
    given = (tflite, *BOARD, "--row-input", "--lock", tmp_path / "edgetool.lock")
    assert captured("check", *given, "--update", "-q").returncode == 0
    done = captured("check", *given, "--locked")
    assert (done.returncode, done.stderr) == (0, "")
    done = captured("check", *(item for item in given if item != "--row-input"), "--locked")
    assert done.returncode == 1


def test_a_plan_that_does_not_fit_notes_what_native_code_needs(tflite: Path) -> None:
    smallest = captured("plan", tflite, *BOARD, "--scratch-budget", "0", "--json")
    arena = json.loads(smallest.stdout)["arena"]["bytes"]
    for size, expected in ((arena, True), (arena - 4, False), (2**20, False)):
        done = captured("plan", tflite, "-t", "cortex-m7", "--sram", str(size), "--json")
        findings = [item for item in json.loads(done.stdout)["findings"] if item["rule"] == "native-code-smaller"]
        assert len(findings) == expected
        assert all(f"an arena of {arena:,} bytes" in item["message"] for item in findings)


def test_calibrate_measures_only_tflm(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("", encoding="utf-8")
    done = captured("calibrate", tmp_path / "log", *BOARD)
    assert done.returncode == 2


def test_an_arena_that_does_not_fit_fails_a_strict_conversion(tflite: Path, tmp_path: Path) -> None:
    done = captured("convert", tflite, *BOARD, "--sram", "64", "--strict", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "sram has 64" in words(done)
    assert not (tmp_path / "out").exists()


def test_verify_without_a_compiler(tflite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = captured("verify", tflite, *NATIVE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a C compiler, and none of cc, gcc, clang is on the PATH" in words(done)
    assert "install gcc or clang" in words(done)


@pytest.mark.slow
def test_verify_passes(tflite: Path) -> None:
    pytest.importorskip("tflite_micro")
    done = edgetool("verify", tflite, *BOARD, "--samples", "2", COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Verified    yes" in done.stdout
    assert "without a report of a sanitizer" in done.stdout


def test_compare_of_native_code(tflite: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(write_model(unary_model("RELU")))
    done = captured("compare", tflite, other, *BOARD)
    assert (done.returncode, done.stderr) == (0, "")


def test_native_code_is_calibrated_beside_tflm(tflite: Path, tmp_path: Path) -> None:
    own, board = tmp_path / "own.toml", ("--target", "nucleo-l4r5zi")
    before = json.loads(captured("estimate", tflite, *board, *NATIVE, "--json").stdout)["estimate"]
    ms = 1.5 * before["latency_ms"]["value"]
    done = captured("calibrate", *board, *NATIVE, "--measured", f"{tflite}={ms:.6f}ms", "-o", own)
    assert done.returncode == 0, done.stderr
    assert "--runtime native" in done.stdout
    native, tflm = (
        json.loads(captured("estimate", tflite, "-t", own, *runtime, "--json").stdout)["estimate"]
        for runtime in (NATIVE, ())
    )
    assert (before["validation"], native["validation"]) == ("extrapolated", "calibrated")
    assert native["latency_ms"]["value"] == pytest.approx(ms, rel=1e-3)
    assert "measured on this board: net" in native["basis"]
    assert "measured on this board: net" not in tflm["basis"]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(hostile_names.NAMES), 12))
def test_hostile_names_of_tensors_stay_text(tmp_path: Path, first: int) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(hostile_names.hostile_model(first))
    done = captured("emit", path, *BOARD, "--project", "cmake", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    check_compiles(tmp_path / "out")


def test_hostile_names_of_inputs_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(hostile_names.many_inputs())
    done = captured("emit", path, *BOARD, "--project", "cmake", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    check_compiles(tmp_path / "out")


def test_hostile_names_of_files_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for number, path in enumerate(hostile_names.write_models(folder, write_model(unary_model("RELU")))):
        out = tmp_path / str(number)
        done = captured("emit", folder / path.name, *NATIVE, "--profile", "-o", out)
        assert done.returncode == 0, (path, done.stderr)
        names = {file.name for file in out.iterdir()}
        name = output_name(path, None)
        assert {f"{name}.h", f"{name}.c", f"{name}_weights.c", f"{name}_profile.c", "main.c"} < names
        if number % 8 == 0:
            check_compiles(out)
    assert not list(tmp_path.rglob("injected"))


def check_compiles(folder: Path) -> None:
    """Compile all C files of a folder, as C and as C++."""
    sources = sorted(path.name for path in folder.glob("*.c"))
    for compiler, standard in (("gcc", "c99"), ("g++", "c++11")):
        done = compile_in(folder, compiler, standard, "-fsyntax-only", *sources)
        assert (done.returncode, done.stderr) == (0, "")
