"""Every attack is refused by name, at once, and for little memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

import edgetool
from edgetool.model.reader import read_model
from tests.attacks.base import sound, sound_model
from tests.attacks.make import ATTACKS, FILES, path_of, write_all

pytest.importorskip("resource", reason="measures the reader's memory with it")

CPU_SECONDS = 0.2
PEAK_BYTES = 100 * 2**20
TRIES = 3  # a processor that others share is slow now and then
ROOT = Path(__file__).resolve().parents[2]
# The name and place that every refusal of a table has; files of other kinds have no place.
PLACE = re.compile(r".+\.tflite: [A-Z]\w+.* at byte \d+|.+\.tflite: subgraphs")


class Reader:
    """One warm process that reads one file after another."""

    def __init__(self, ask: TextIO, reported: TextIO) -> None:
        self.ask, self.told = ask, reported
        self.baseline_bytes = int(self.answer()["peak_bytes"])

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.told.readline())
        return answer

    def read(self, path: Path) -> dict[str, Any]:
        print(path, file=self.ask, flush=True)
        return self.answer()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    source = str(Path(edgetool.__file__).parents[1])
    path = os.pathsep.join([source, str(ROOT), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.reading"],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin
        assert child.stdout
        yield Reader(child.stdin, child.stdout)
        child.stdin.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every attack, just made."""
    directory = tmp_path_factory.mktemp("attacks")
    write_all(directory, large=True)
    return directory


def test_the_undamaged_file_is_accepted() -> None:
    assert read_model(sound()) == sound_model()


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, reader: Reader, files: Path) -> None:
    answer = reader.read(path_of(files, name))
    assert answer["error"] in ("InvalidModelError", "UnsupportedModelError"), answer
    assert answer["exit_code"] == 3
    assert re.search(ATTACKS[name].message, answer["message"]), answer["message"]
    assert answer["message"].isprintable()
    assert PLACE.match(answer["where"]) or name.startswith(("identifier", "cut-to-nothing")), answer["where"]
    # The peak never falls: where one file passes the limit, so do those after it.
    assert answer["peak_bytes"] - reader.baseline_bytes < PEAK_BYTES
    seconds = [answer["cpu_seconds"]]
    while seconds[-1] > CPU_SECONDS and len(seconds) < TRIES:
        seconds.append(reader.read(path_of(files, name))["cpu_seconds"])
    assert min(seconds) < CPU_SECONDS


def test_the_script_creates_the_same_files(files: Path) -> None:
    kept = {path.name: path.read_bytes() for path in FILES.iterdir()}
    made = {path_of(files, name).name: path_of(files, name).read_bytes() for name in ATTACKS if not ATTACKS[name].large}
    assert kept == made, "run python -m tests.attacks.make"
