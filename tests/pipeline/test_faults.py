from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import faults

from edgetool.errors import UsageError
from edgetool.pipeline.firmware import output_name

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills by /proc, and takes capabilities away")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> faults.Case:
    return faults.case(tmp_path_factory.mktemp("case"))


@pytest.fixture(scope="module")
def permissions() -> None:
    """They hold for the programs that a test starts, even as root."""
    try:
        subprocess.run([sys.executable, "-c", ""], preexec_fn=faults.without_override, check=True)
    except subprocess.SubprocessError:
        pytest.skip("needs a user for whom permissions hold, or who may give up what root may")


def hashes(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        kind = path.readlink() if path.is_symlink() else "directory" if path.is_dir() else path.read_bytes()
        yield str(path.relative_to(folder)), hashlib.sha256(repr(kind).encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["process", "group", "everything"])
def test_convert_killed_at_random_leaves_the_old_or_the_new_files(tmp_path: Path, case: faults.Case, whom: str) -> None:
    assert faults.killed(case, tmp_path, random.Random(whom), whom).state in ("old", "new")


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_files_and_names_the_directory(tmp_path: Path, case: faults.Case) -> None:
    ended = faults.small_disk(case, tmp_path, 300)
    if ended is None:
        pytest.skip("needs a user who may mount a small disk")
    assert (ended.code, ended.state, ended.left) == (2, "old", False)
    assert "out: cannot be written: No space left on device" in ended.said


@pytest.mark.slow
def test_a_limit_of_file_size_leaves_the_old_files_and_names_the_directory(tmp_path: Path, case: faults.Case) -> None:
    ended = faults.small_files(case, tmp_path, 100_000)
    assert (ended.code, ended.state, ended.left) == (2, "old", False)
    assert "out: cannot be written: File too large" in ended.said


@pytest.mark.usefixtures("permissions")
def test_a_directory_without_permission_is_named_and_left_alone(tmp_path: Path, case: faults.Case) -> None:
    ended = faults.read_only(case, tmp_path)
    assert (ended.code, ended.state, ended.left) == (2, "old", False)
    assert "out: cannot be written: Permission denied" in ended.said


@pytest.mark.usefixtures("permissions")
def test_an_unreadable_directory_is_not_an_internal_error(tmp_path: Path, case: faults.Case) -> None:
    closed = tmp_path / "out"
    closed.mkdir()
    closed.chmod(0)
    done = subprocess.run(
        [{"out": "out/deeper"}.get(word, word) for word in case.command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=faults.without_override,
        check=False,
    )
    closed.chmod(0o700)
    assert done.returncode == 2
    assert "cannot be written: Permission denied" in done.stderr


def test_nothing_outside_the_directory_is_touched(tmp_path: Path, case: faults.Case) -> None:
    """Files that are links are replaced; a directory that is one is taken, as the user has named it."""
    real = faults.fill(tmp_path / "real", {"model.h": b"old"})
    (real / "model.json").symlink_to(tmp_path / "precious")
    (real / "model.tflite").symlink_to(tmp_path / "nowhere")
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "out").symlink_to("real")
    before = {name: digest for name, digest in hashes(tmp_path) if not name.startswith("real/")}
    assert faults.refused(case, tmp_path / "out").state == "new"
    assert not any(path.is_symlink() for path in real.iterdir())
    assert {name: digest for name, digest in hashes(tmp_path) if not name.startswith("real/")} == before


@pytest.mark.parametrize("name", ["..", "../up", "a/b", "/tmp/a", ".", "a\\b"])
def test_no_name_leads_outside_the_directory(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name"):
        output_name(Path("model.tflite"), name)
