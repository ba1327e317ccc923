"""edgetool layout: whole processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.program import edgetool

ROOT = Path(__file__).parents[2]
AUDIO = ROOT / "examples" / "layout" / "audio.csv"
GRAPH = ROOT / "examples" / "layout" / "branches.json"


def hard_instance(path: Path) -> Path:
    """Buffers whose mixed alignments leave a gap that no search closes in a minute."""
    draw = random.Random(2)
    rows = []
    for i in range(120):
        lower, upper = sorted(draw.sample(range(60), 2))
        rows.append(f"b{i},{lower},{upper},{draw.randint(1, 999)},{draw.choice([1, 64, 100, 512])}\n")
    path.write_text("id,lower,upper,size,alignment\n" + "".join(rows))
    return path


def test_it_shows_peak_proof_and_the_offset_of_each_buffer() -> None:
    result = edgetool("layout", AUDIO)
    assert (result.returncode, result.stderr) == (0, "")
    for words in ("audio.csv: 9 buffers", "1,120 B", "2,624 B", "2.34 times", "optimal (meets", "samples"):
        assert words in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_json_is_one_reproducible_document(tmp_path: Path) -> None:
    arguments = ("layout", GRAPH, "--constants-in-ram", "--capacity", "32KiB", "--json", "-o", "a.json")
    first = edgetool(*arguments, cwd=tmp_path)
    again = edgetool(*arguments, "--force", cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, again.stdout)
    document = json.loads(first.stdout)
    assert list(document) == ["schema", "provenance", "instance", "layout", "interrupted", "findings"]
    assert document["layout"]["capacity"] == 32768
    assert {"id", "lower", "upper", "size", "alignment", "offset"} == set(document["layout"]["buffers"][0])
    assert json.loads((tmp_path / "a.json").read_text())["tensors"][0]["offset"] >= 0


def test_the_answer_goes_to_a_file_that_is_read_again(tmp_path: Path) -> None:
    result = edgetool("layout", AUDIO, "-o", "answer.csv", "-q", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert edgetool("layout", "answer.csv", "--capacity", "1120", cwd=tmp_path).returncode == 0
    refused = edgetool("layout", "answer.csv", "-o", "answer.csv", "--force", cwd=tmp_path)
    assert (refused.returncode, "would overwrite the input" in refused.stderr) == (2, True)


def test_many_buffers_are_cut_and_hostile_names_are_escaped(tmp_path: Path) -> None:
    rows = "".join(f"{i}\x1b[31m\u202e{'x' * 200},{i},{i + 1},{2**40}\n" for i in range(50))
    (tmp_path / "many.csv").write_text("id,lower,upper,size\n" + rows)
    result = edgetool("layout", "many.csv", cwd=tmp_path)
    assert "... and 10 more (-v shows all)" in result.stdout
    assert "\x1b" not in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert edgetool("layout", "many.csv", "-v", cwd=tmp_path).stdout.count("\\x1b[") == 50


def test_a_layout_that_does_not_fit_is_exit_code_1(tmp_path: Path) -> None:
    missed = edgetool("layout", AUDIO, "--strategy", "tflm", "--capacity", "1500", "-o", "answer.csv", cwd=tmp_path)
    assert (missed.returncode, "Fits        no" in missed.stdout) == (1, True)
    assert "--strategy optimal may find one" in missed.stderr
    assert (tmp_path / "answer.csv").is_file()
    impossible = edgetool("layout", AUDIO, "--capacity", "1KiB", "-o", "other.csv", cwd=tmp_path)
    assert (impossible.returncode, impossible.stdout) == (1, "")
    assert "1,120 B are live at time 2" in impossible.stderr
    assert "512 B  row 3 ('window')" in impossible.stderr
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "arguments", "code"),
    [
        ("id,lower,upper,size\na,1,1,4\n", (), 3),
        ("id,lower,upper,size,offset\na,0,2,4,0\nb,0,2,4,3\n", (), 3),
        ('{"tensors": {}, "operators": [{"inputs": [0]}]}', (), 3),
        ("\x80\x02}q\x00.", (), 3),
        ("id,lower,upper,size\n", ("--constants-in-ram",), 2),
        ("id,lower,upper,size\n", ("--capacity", "64K"), 2),
        ("id,lower,upper,size\n", ("--capacity", "-1"), 2),
        ("id,lower,upper,size\n", ("--time-limit", "nan"), 2),
        ("id,lower,upper,size\n", ("--time-limit", "0"), 2),
        ("id,lower,upper,size\n", ("--seed", "-1"), 2),
        ("id,lower,upper,size\n", ("--strategy", "best"), 2),
        ("id,lower,upper,size\n", ("--sharing", "greedy", "--strategy", "greedy"), 2),
        ("id,lower,upper,size\n", ("-o", "none/answer.csv"), 2),
    ],
)
def test_errors_are_one_clear_line(tmp_path: Path, content: str, arguments: tuple[str, ...], code: int) -> None:
    (tmp_path / "i.csv").write_text(content, encoding="latin-1")
    result = edgetool("layout", "i.csv", *arguments, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (code, "")
    assert "Traceback" not in result.stderr
    assert "rror" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["i.csv"]


def test_all_pairs_of_a_wrong_plan_are_named(tmp_path: Path) -> None:
    rows = "".join(f"b{i},0,2,4,0\n" for i in range(5))
    (tmp_path / "i.csv").write_text("id,lower,upper,size,offset\n" + rows)
    result = edgetool("layout", "i.csv", cwd=tmp_path)
    assert result.returncode == 3
    assert "10 conflicts between pinned offsets" in result.stderr
    for i in range(5):
        for j in range(i):
            assert f"row {j + 2} ('b{j}') and row {i + 2} ('b{i}') overlap" in result.stderr


def test_sharing_lists_whole_buffers() -> None:
    result = edgetool("layout", AUDIO, "--sharing", "dynamic-programming")
    assert "dynamic-programming, 4 shared buffers" in result.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_ctrl_c_delivers_the_best_layout_so_far(tmp_path: Path) -> None:
    import pty

    hard_instance(tmp_path / "hard.csv")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "edgetool", "layout", "hard.csv", "-o", "answer.csv", "--time-limit", "100"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"height" not in shown:
        shown += os.read(ours, 4096)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    assert process.wait(30) == 130
    assert time.monotonic() - started < 20
    with contextlib.suppress(OSError):  # Linux reports the closed end so
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert b"interrupted: this is the best result so far" in shown
    assert "above the lower bound" in printed
    assert (tmp_path / "answer.csv").read_text().startswith("id,lower,upper,size,alignment,offset\n")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]], ids=["term", "twice"])
def test_a_second_ctrl_c_or_a_termination_aborts(tmp_path: Path, signals: list[signal.Signals]) -> None:
    hard_instance(tmp_path / "hard.csv")
    # A search that never asks whether to stop: it sends the signals to itself, at once.
    code = (
        "import os, sys\n"
        "from edgetool.cli import main\n"
        "from edgetool.pipeline import layout\n"
        "def solve(*arguments, **options):\n"
        f"    for number in {[int(number) for number in signals]}:\n"
        "        os.kill(os.getpid(), number)\n"
        "    raise SystemExit('not aborted')\n"
        "layout.solve = solve\n"
        "sys.argv = ['edgetool', 'layout', 'hard.csv', '-o', 'answer.csv']\n"
        "main.main()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (130, "")
    assert "edgetool: error: interrupted" in result.stderr
    assert not (tmp_path / "answer.csv").exists()


def test_layout_starts_without_heavy_libraries() -> None:
    code = (
        "import sys\nfrom edgetool.cli.main import cli\n"
        f"cli.main(['layout', {str(AUDIO)!r}, '-q'], standalone_mode=False)\n"
        "print([n for n in ('tensorflow', 'keras', 'ai_edge_litert', 'ortools') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_several_memories_are_shown_and_written(tmp_path: Path) -> None:
    output = tmp_path / "placed.csv"
    memories = ("--memory", "dtcm=800", "--memory", "sram=2KiB:2")
    result = edgetool("layout", AUDIO, *memories, "-o", output)
    assert result.returncode == 0
    shown = " ".join(result.stdout.split())
    assert "9 buffers in several memories" in shown
    assert "optimal: no placement that fits waits less" in shown
    assert output.read_text().splitlines()[0].endswith("offset,memory")


def test_the_memory_that_is_minimized_is_shown() -> None:
    result = edgetool("layout", AUDIO, "--memory", "dtcm=800", "--memory", "sram=2KiB:2", "--minimize", "sram")
    shown = " ".join(result.stdout.split())
    assert "optimal: no placement takes less of sram" in shown
    assert "optimal: no placement with this height waits less" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--minimize", "dtcm"), "--minimize names a --memory"),
        (("--memory", "dtcm=1KiB", "--minimize", "sram"), "there is no memory 'sram'"),
        (("--memory", "dtcm"), "use NAME=SIZE or NAME=SIZE:CYCLES"),
        (("--memory", "dtcm=1KiB:x"), "use NAME=SIZE or NAME=SIZE:CYCLES"),
        (("--memory", "dtcm=1KiB:-1"), "use NAME=SIZE or NAME=SIZE:CYCLES"),
        (("--memory", "dtcm=-5"), "'-5' is not a size"),
        (("--memory", "a=1KiB", "--memory", "a=2KiB"), "is specified twice"),
        (("--memory", "a=1KiB", "--capacity", "1KiB"), "--capacity applies to one memory"),
        (("--memory", "a=1KiB", "--sharing", "greedy"), "--sharing applies to one memory"),
    ],
)
def test_wrong_memories_are_refused(options: tuple[str, ...], said: str) -> None:
    result = edgetool("layout", AUDIO, *options)
    assert result.returncode == 2
    assert said in result.stderr


def test_memories_that_are_too_small_fail() -> None:
    result = edgetool("layout", AUDIO, "--memory", "a=256", "--memory", "b=256:1")
    assert (result.returncode, "no placement fits in these memories" in result.stderr) == (1, True)
