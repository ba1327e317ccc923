"""Every hostile PyTorch program is refused by name before PyTorch sees it; what is left contains nothing pickled."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from pathlib import Path

import pytest

from edgetool.convert.exported_program import checked_program
from edgetool.errors import ModelError
from tests.attacks.programs import ATTACKS, MARK, PICKLED, SOUND, archive


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that occurs twice
        path.write_bytes(ATTACKS[name].make())
    with pytest.raises(ModelError) as caught:
        checked_program(path)
    assert re.search(ATTACKS[name].message, str(caught.value)), str(caught.value)
    assert str(caught.value).isprintable()
    assert str(path) in (caught.value.where or "")
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt2"], MARK


def test_only_the_graph_and_the_weights_are_written_again() -> None:
    with zipfile.ZipFile(io.BytesIO(checked_program(SOUND))) as written:
        for name in written.namelist():
            assert not written.read(name).startswith((b"\x80", b"PK")) or "/weights/weight_" in name, name
        assert written.read("program/data/sample_inputs/model.pt") == b""
        assert b"stack_trace" not in written.read("program/models/model.json")


def test_sample_inputs_and_other_files_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(
        archive(replaced={"data/sample_inputs/model.pt": PICKLED}, added={"images/extra/notes.txt": b"hello"})
    )
    with zipfile.ZipFile(io.BytesIO(checked_program(path))) as written:
        contents = b"".join(written.read(name) for name in written.namelist())
    assert PICKLED not in contents
    assert b"hello" not in contents
