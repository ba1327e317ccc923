"""Pipes, devices, folders and links in place of every file that a command reads: refused at once, never waited for."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from tests.cli.test_hostile_names import check_terminal, edgetool
from tests.model.builders import unary_model

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system has other special files")

# {} is where the file stands.
COMMANDS = (
    "inspect {}",
    "plan {}",
    "plan m.tflite -t {}.toml",
    "plan m.tflite -t cortex-m4 --custom-operators {}",
    "plan m.tflite -t cortex-m4 --runtime-tree {}",
    "estimate {} -t cortex-m4",
    "check {} -t cortex-m4",
    "check m.tflite -t nucleo-f446re --lock {}",
    "check m.tflite -t nucleo-f446re --report {}",
    "compare {} m.tflite -t cortex-m4",
    "report {} -t cortex-m4",
    "emit {} -o out",
    "layout {}",
    "convert {} -t cortex-m4 -o out",
    "verify {} -t cortex-m4",
    "calibrate m.tflite --log {} -t nucleo-f446re -o x.toml --name x",
    "sweep show {}",
    "sweep run {}",
    "targets validate {}",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("special")
    (folder / "m.tflite").write_bytes(write_model(unary_model("RELU")))
    for end in ("", ".toml"):
        os.mkfifo(folder / f"pipe{end}")
        (folder / f"loop{end}").symlink_to(folder / f"loop{end}")
        (folder / f"device{end}").symlink_to("/dev/zero")
        (folder / f"made-up{end}").symlink_to("/proc/self/environ")
        (folder / f"folder{end}").mkdir()
        (folder / f"large{end}").touch()
        os.truncate(folder / f"large{end}", 2**33)  # a file of nothing: its size takes no room
    with contextlib.chdir(folder):
        yield folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["pipe", "loop", "device", "made-up", "folder", "large"])
def test_special_files_are_reported_immediately(folder: Path, kind: str, command: str) -> None:
    def late(signum: int, frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        done = edgetool(*command.format(kind).split())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert done.code in (2, 3), done
    assert done.err.startswith("edgetool: error: ")
    check_terminal(done.err)
    assert done.out == ""
