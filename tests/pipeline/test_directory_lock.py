"""Several writers in one directory."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edgetool.errors import OutputError
from edgetool.pipeline import output, swap
from edgetool.pipeline.output import check_writable, directory_lock, write_file, write_files
from tests.pipeline.killed_writer import contents

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs flock")
NAMES = tuple(f"{letter}.h" for letter in "abcdefgh")
WRITER = """
import sys
from pathlib import Path
from edgetool.pipeline.output import check_writable, write_files
directory, tag, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for turn in range(times):
    files = {name: f"{tag} {turn}".encode() for name in sys.argv[4:]}
    check_writable(directory, tuple(files), force=True, inputs=())
    write_files(directory, files, force=True)
"""


@pytest.mark.slow
def test_the_files_of_two_runs_never_mix(tmp_path: Path) -> None:
    """Four processes write into a directory that is not there yet; whoever holds it sees one set."""
    out = tmp_path / "out"
    command = (sys.executable, "-c", WRITER, str(out))
    writers = [subprocess.Popen([*command, str(number), "10", *NAMES]) for number in range(4)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if out.exists():
            with directory_lock(out):
                found = contents(out)
            assert found.keys() == set(NAMES)
            assert len(set(found.values())) == 1, found
            seen.update(found.values())
        time.sleep(0.01)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert seen
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not list(out.glob(".*"))


def test_of_two_runs_that_may_not_replace_files_one_is_told(tmp_path: Path) -> None:
    """The other has made the directory while this one waited for its turn to make it."""
    out, refused = tmp_path / "out", []

    def write() -> None:
        try:
            write_files(out, dict.fromkeys(NAMES, b"late"))
        except OutputError as error:
            refused.append(error)

    with directory_lock(tmp_path):
        late = threading.Thread(target=write)
        late.start()
        time.sleep(0.1)
        assert not out.exists()
        out.mkdir()
        for name in NAMES:
            (out / name).write_bytes(b"first")
    late.join(60)
    assert [error.what for error in refused] == ["already exists"]
    assert set(contents(out).values()) == {b"first"}


def test_who_waits_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "WAIT_SECONDS", 0.1)
    with (
        directory_lock(tmp_path),
        pytest.raises(
            OutputError, match=r"another process has been writing to this directory.*choose another directory"
        ),
    ):
        write_file(tmp_path / "a.h", b"")
    assert not list(tmp_path.iterdir())


def test_a_directory_replaced_while_waiting_is_held_anew(tmp_path: Path) -> None:
    out, same = tmp_path / "out", []

    def hold() -> None:
        with directory_lock(out) as descriptor:
            assert descriptor is not None
            same.append(os.path.samestat(os.fstat(descriptor), out.stat()))

    out.mkdir()
    with directory_lock(out):
        late = threading.Thread(target=hold)
        late.start()
        time.sleep(0.1)
        shutil.move(out, tmp_path / "moved")
        out.mkdir()
    late.join(60)
    assert same == [True]


def test_where_nothing_can_be_locked_nothing_is_tidied_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    another = tmp_path / ".edgetool-12345678"
    another.mkdir(swap.STAGING_MODE)
    (another / "new").mkdir()
    monkeypatch.setattr(output.fcntl, "flock", refuse)
    with directory_lock(tmp_path) as lock:
        assert lock is None
    for force in (False, True):
        write_files(tmp_path, dict.fromkeys(NAMES, b"new"), force=force)
    assert another.exists()
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"new")


def test_a_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "fcntl", None)
    with directory_lock(tmp_path) as lock:
        assert lock is None


def test_trying_a_directory_waits_for_nobody(tmp_path: Path) -> None:
    with directory_lock(tmp_path):
        check_writable(tmp_path, NAMES, force=False, inputs=())
    assert not list(tmp_path.iterdir())
