"""Files that are written: the dependency file as make reads it, and several writers in one directory."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edgetool.errors import OutputError, UsageError
from edgetool.pipeline import output, swap
from edgetool.pipeline.output import (
    check_readable,
    check_writable,
    directory_lock,
    read_file,
    write_depfile,
    write_file,
    write_files,
)
from tests.hostile_names import file_names
from tests.pipeline.killed_writer import contents as files_in

NAMES = ("model.tflite", "a model.tflite", "50$ #1.tflite", "größe.tflite", "tabs and (brackets).tflite")


def rebuilds(folder: Path) -> bool:
    """Whether make finds the output older than what the rule says it was made from."""
    result = subprocess.run(["make", "-q", "-f", "all.mk"], cwd=folder, check=False, capture_output=True, text=True)
    assert result.returncode in (0, 1), result.stderr
    return result.returncode == 1


@pytest.mark.parametrize("name", NAMES)
def test_make_rebuilds_when_an_input_is_newer(tmp_path: Path, name: str) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    model, output = tmp_path / name, tmp_path / "out.h"
    model.write_bytes(b"")
    output.write_bytes(b"")
    write_depfile(tmp_path / "out.d", [output], [model, None])
    (tmp_path / "all.mk").write_text(f"{output}: ; @echo made\ninclude out.d\n")
    for newer, older, expected in ((output, model, False), (model, output, True)):
        os.utime(older, (1_000_000, 1_000_000))
        os.utime(newer, (2_000_000, 2_000_000))
        assert rebuilds(tmp_path) is expected


def test_a_directory_stands_for_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    samples = tmp_path / "samples"
    samples.mkdir()
    (samples / "b.npy").write_bytes(b"")
    (samples / "a.npy").write_bytes(b"")
    write_depfile(tmp_path / "out.d", [Path("x.h"), Path("y.h")], [Path("samples"), Path("own.toml")])
    lines = (tmp_path / "out.d").read_text().splitlines()
    assert lines[0] == f"{tmp_path}/x.h {tmp_path}/y.h: \\"
    assert [line.strip(" \\").removeprefix(f"{tmp_path}/") for line in lines[1:]] == [
        "samples",
        "samples/a.npy",
        "samples/b.npy",
        "own.toml",
    ]


@pytest.mark.parametrize("name", ["two\nlines.h", "back\\slash.h", "a;id", "a!=id", "a|b", "tab\t"])
def test_a_name_that_no_rule_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="dependency file"):
        write_depfile(tmp_path / "out.d", [tmp_path / name], [])


def test_no_name_in_a_directory_is_run_by_make(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    written = []
    for number, name in enumerate((*file_names(), "a;touch${IFS}injected", "a!=touch${IFS}injected", "a:=`id`")):
        samples = tmp_path / "samples" / str(number)
        samples.mkdir(parents=True)
        (samples / f"{name}.npy").write_bytes(b"")
        for read in (samples, samples / f"{name}.npy"):
            with contextlib.suppress(OutputError):
                write_depfile(tmp_path / f"{len(written)}.d", [tmp_path / "out.h"], [read])
                written.append(tmp_path / f"{len(written)}.d")
    assert len(written) > 60
    for path in written:
        subprocess.run(["make", "-f", path, tmp_path / "out.h"], cwd=tmp_path, check=False, capture_output=True)
    assert not list(tmp_path.glob("injected*"))


def test_a_file_that_was_just_written_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.h").write_text("the header")
    with pytest.raises(OutputError, match="just written"):
        write_depfile(tmp_path / "x.h", [tmp_path / "x.h"], [])
    assert (tmp_path / "x.h").read_text() == "the header"


NEW = {"a.h": b"new a", "b.c": b"new b", "c.json": b"new c"}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_new_directory_appears_whole(tmp_path: Path) -> None:
    written = write_files(tmp_path / "deep" / "out dir", NEW)
    assert contents(tmp_path / "deep" / "out dir") == NEW
    assert [path.name for path in written] == list(NEW)
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["deep", "out dir"]


def test_other_files_of_the_directory_stay(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"mine")
    write_files(tmp_path, NEW)
    assert contents(tmp_path) == {"mine.txt": b"mine", **NEW}


def test_existing_files_are_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "b.c").write_bytes(b"old")
    with pytest.raises(OutputError, match="--force"):
        write_files(tmp_path, NEW)
    assert contents(tmp_path) == {"b.c": b"old"}
    write_files(tmp_path, NEW, force=True)
    assert contents(tmp_path) == NEW


def test_an_input_is_never_replaced(tmp_path: Path) -> None:
    source = tmp_path / "a.h"
    source.write_bytes(b"input")
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(OutputError, match="would overwrite the input"):
        write_files(tmp_path, NEW, force=True, inputs=(tmp_path / "link",))
    assert source.read_bytes() == b"input"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"out: cannot be written: No space left.*--output"):
        write_files(tmp_path / "out", NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_way_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.h").symlink_to(outside)
    write_files(out, NEW, force=True)
    assert outside.read_bytes() == b"precious"
    assert contents(out) == NEW


def test_a_directory_that_is_a_link_is_followed_unless_it_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "broken").symlink_to("nowhere")
    write_files(tmp_path / "link", NEW)
    assert contents(tmp_path / "real") == NEW
    assert (tmp_path / "link").is_symlink()
    for refused in (
        lambda: check_writable(tmp_path / "broken", tuple(NEW), force=True, inputs=()),
        lambda: write_files(tmp_path / "broken", NEW, force=True),
    ):
        with pytest.raises(OutputError, match=r"broken: is a dangling link; remove it"):
            refused()
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_without_permission_is_reported_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        check_writable(tmp_path / "new" / "out", ("a.h",), force=False, inputs=())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a directory in which nobody can write")
def test_a_file_system_that_takes_no_files() -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        check_writable(Path("/proc/self"), ("a.h",), force=False, inputs=())


def test_messages_name_the_option_that_chooses_another_place(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_bytes(b"old")
    (tmp_path / "b").mkdir()
    for name, fix in (("a.svg", "use --force to replace it, or choose another --plot"), ("b", "choose another --plot")):
        for refused in (
            lambda name=name: check_writable(tmp_path, (name,), force=False, inputs=(), option="--plot"),
            lambda name=name: write_file(tmp_path / name, b"", option="--plot"),
        ):
            with pytest.raises(OutputError) as caught:
                refused()
            assert caught.value.fix == fix
    with pytest.raises(OutputError, match="or choose another --output"):
        write_file(tmp_path / "a.svg", b"")


def test_a_file_where_a_directory_must_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(OutputError, match="not a directory"):
        check_writable(tmp_path / "out" / "deeper", ("a.h",), force=False, inputs=())
    with pytest.raises(OutputError, match=r"cannot be written|not a directory"):
        write_files(tmp_path / "out", NEW)


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_file(tmp_path / "none.tflite")
    with pytest.raises(UsageError, match="is a directory"):
        read_file(tmp_path)


def test_one_file_needs_its_directory(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        write_file(tmp_path / "none" / "a.h", b"")
    assert write_file(tmp_path / "a.h", b"x").read_bytes() == b"x"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        for read in (read_file, check_readable):
            with pytest.raises(UsageError, match="pipe or a device"):
                read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for name in ("pipe", "link"):
        with pytest.raises(OutputError, match="pipe or a device"):
            write_file(tmp_path / name, b"", force=True)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


def writes(call: ast.Call) -> bool:
    """Whether it is one of the ways to write or move a file."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "open":
        modes = [
            item.value for item in ast.walk(call) if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        return any(set(mode) <= set("rwxab+t") and set(mode) & set("wxa+") for mode in modes)
    return name in {
        "write_bytes",
        "write_text",
        "savefig",
        "rename",
        "renames",
        "move",
        "copyfile",
        "copy2",
        "copytree",
    }


def test_nothing_else_of_the_library_or_the_command_line_writes_files() -> None:
    """What works in temporary directories of its own (conversion, runs, jobs of a sweep) is in other rooms."""
    rooms = Path(output.__file__).parents[1]
    modules = [
        path for room in ("report", "gate", "codegen", "pipeline", "cli") for path in (rooms / room).rglob("*.py")
    ]
    writers = {
        path.name
        for path in modules
        if any(isinstance(node, ast.Call) and writes(node) for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    }
    assert writers == {"output.py", "swap.py"}


needs_flock = pytest.mark.skipif(os.name != "posix", reason="needs flock")
FILE_NAMES = tuple(f"{letter}.h" for letter in "abcdefgh")
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


@needs_flock
@pytest.mark.slow
def test_the_files_of_two_runs_never_mix(tmp_path: Path) -> None:
    """Four processes write into a directory that is not there yet; whoever holds it sees one set."""
    out = tmp_path / "out"
    command = (sys.executable, "-c", WRITER, str(out))
    writers = [subprocess.Popen([*command, str(number), "10", *FILE_NAMES]) for number in range(4)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if out.exists():
            with directory_lock(out):
                found = files_in(out)
            assert found.keys() == set(FILE_NAMES)
            assert len(set(found.values())) == 1, found
            seen.update(found.values())
        time.sleep(0.01)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert seen
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not list(out.glob(".*"))


@needs_flock
def test_of_two_runs_without_force_one_fails(tmp_path: Path) -> None:
    """The other has made the directory while this one waited for its turn to make it."""
    out, refused = tmp_path / "out", []

    def write() -> None:
        try:
            write_files(out, dict.fromkeys(FILE_NAMES, b"late"))
        except OutputError as error:
            refused.append(error)

    with directory_lock(tmp_path):
        late = threading.Thread(target=write)
        late.start()
        time.sleep(0.1)
        assert not out.exists()
        out.mkdir()
        for name in FILE_NAMES:
            (out / name).write_bytes(b"first")
    late.join(60)
    assert [error.what for error in refused] == ["already exists"]
    assert set(files_in(out).values()) == {b"first"}


@needs_flock
def test_waiting_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "WAIT_SECONDS", 0.1)
    with (
        directory_lock(tmp_path),
        pytest.raises(
            OutputError, match=r"another process has been writing to this directory.*choose another directory"
        ),
    ):
        write_file(tmp_path / "a.h", b"")
    assert not list(tmp_path.iterdir())


@needs_flock
def test_a_directory_replaced_while_waiting_is_locked_again(tmp_path: Path) -> None:
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


@needs_flock
def test_without_locks_nothing_is_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    another = tmp_path / ".edgetool-12345678"
    another.mkdir(swap.STAGING_MODE)
    (another / "new").mkdir()
    monkeypatch.setattr(output.fcntl, "flock", refuse)
    with directory_lock(tmp_path) as lock:
        assert lock is None
    for force in (False, True):
        write_files(tmp_path, dict.fromkeys(FILE_NAMES, b"new"), force=force)
    assert another.exists()
    assert files_in(tmp_path) == dict.fromkeys(FILE_NAMES, b"new")


@needs_flock
def test_a_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "fcntl", None)
    with directory_lock(tmp_path) as lock:
        assert lock is None


@needs_flock
def test_checking_a_directory_does_not_wait_for_locks(tmp_path: Path) -> None:
    with directory_lock(tmp_path):
        check_writable(tmp_path, FILE_NAMES, force=False, inputs=())
    assert not list(tmp_path.iterdir())
