from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import OutputError, UsageError
from edgetool.sweep.run import snapshot
from edgetool.sweep.spec import Builder, FineTune, SweepSpec


def spec_of(folder: Path) -> SweepSpec:
    for name in ("m.h5", "c.npz", "e.npz", "t.npz"):
        (folder / name).write_bytes(name.encode())
    return SweepSpec(
        "s",
        folder / "m.h5",
        None,
        ("int8",),
        (),
        fine_tune=FineTune(folder / "t.npz"),
        calibration=folder / "c.npz",
        evaluate=folder / "e.npz",
    )


def built(folder: Path, *files: str) -> SweepSpec:
    folder.mkdir()
    for name in ("model.py", *files):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"# {name}")
    builder = Builder(folder / "model.py", "model", "build", tuple(folder / name for name in files))
    return SweepSpec("s", None, builder, ("int8",), ())


def test_copies_have_name_and_content_and_do_not_change(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    files = snapshot(spec, tmp_path / "copies")
    assert {role: file.name for role, file in files.items()} == {
        "model": "m.h5",
        "calibration": "c.npz",
        "evaluate": "e.npz",
        "fine_tune": "t.npz",
    }
    (tmp_path / "m.h5").write_bytes(b"edited")
    for file in files.values():
        assert file.path.name == file.name
        assert file.path.read_bytes() == file.name.encode()
        assert file.sha256 == hashlib.sha256(file.name.encode()).hexdigest()
    assert snapshot(spec, tmp_path / "again")["model"].sha256 != files["model"].sha256


def test_a_directory_is_known_by_names_and_contents(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    images = tmp_path / "images"
    (images / "deeper").mkdir(parents=True)
    (images / "deeper" / "1.png").write_bytes(b"1")
    spec = replace(spec, calibration=images)
    first = snapshot(spec, tmp_path / "1")["calibration"]
    assert (first.path / "deeper" / "1.png").read_bytes() == b"1"
    (images / "deeper" / "1.png").rename(images / "deeper" / "2.png")
    assert snapshot(spec, tmp_path / "2")["calibration"].sha256 != first.sha256
    (images / "deeper" / "2.png").rename(images / "deeper" / "1.png")
    assert snapshot(spec, tmp_path / "3")["calibration"].sha256 == first.sha256


def test_a_builders_files_have_roles_of_their_names(tmp_path: Path) -> None:
    files = snapshot(built(tmp_path / "b", "blocks.py", "model.py"), tmp_path / "copies")
    assert list(files) == ["builder", "builder_file:blocks.py"]
    assert files["builder"].path.read_text() == "# model.py"


@pytest.mark.parametrize("names", [("a/blocks.py", "b/blocks.py"), ("a/model.py",)])
def test_two_builder_files_of_one_name_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="two builder files are named"):
        snapshot(built(tmp_path / "b", *names), tmp_path / "copies")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    spec = replace(spec_of(tmp_path), evaluate=tmp_path / "none.npz")
    with pytest.raises(UsageError, match=r"none\.npz: cannot be read"):
        snapshot(spec, tmp_path / "copies")


def test_copies_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    (tmp_path / "copies").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be copied"):
        snapshot(spec, tmp_path / "copies")
