"""The dependency file: a rule that make reads as it was meant."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetool.errors import OutputError
from edgetool.pipeline.output import write_depfile
from tests.hostile_names import file_names

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
