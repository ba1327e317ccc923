"""Zip archives in the .keras format that are made to harm whoever unpacks them."""

from __future__ import annotations

import struct
import warnings
import zipfile
from pathlib import Path

import pytest

from edgetool.convert import file_checks
from edgetool.convert.file_checks import check_entries, escapes_folder
from edgetool.convert.source import read_model_file
from edgetool.errors import InvalidModelError, UnsupportedModelError


def archive(path: Path, *more: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    """A .keras file's entries, its weights by name alone, and more."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as made:
        warnings.simplefilter("ignore")  # of entries of the same name
        made.writestr("config.json", "{}")
        made.writestr("model.weights.h5", b"")
        for entry, content in more:
            made.writestr(entry, content)
    return path


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("../outside", r"entry '\.\./outside' points outside the archive"),
        ("assets/../../outside", "points outside the archive"),
        ("/etc/passwd", "points outside the archive"),
        ("C:/windows", "points outside the archive"),
        ("assets\\..\\outside", "points outside the archive"),
        ("config.json", "entry 'config.json' occurs twice"),
        ("model.weights.h5", "occurs twice"),
    ],
)
def test_an_entry_that_leads_outside_is_rejected(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        read_model_file(archive(tmp_path / "a.keras", (entry, b"/etc/passwd")))
    assert caught.value.where == str(tmp_path / "a.keras")


def test_an_entry_with_a_suspicious_compression_ratio_is_rejected(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("assets/bomb")
    entry.file_size, entry.compress_size, entry.compress_type = 2**30, 2**19, zipfile.ZIP_DEFLATED
    with pytest.raises(
        UnsupportedModelError, match="entry 'assets/bomb' declares 1073741824 bytes but occupies only 524288"
    ):
        check_entries([entry], tmp_path)
    entry.compress_size = 2**20
    check_entries([entry], tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(UnsupportedModelError, match="uses a compression method that Keras does not use"):
        read_model_file(archive(tmp_path / "a.keras", method=method))


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.keras")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=r"entry 'config\.json' is encrypted"):
        read_model_file(path)


def test_sizes_that_are_too_much_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_checks, "TOTAL_LIMIT_BYTES", 100)
    with pytest.raises(UnsupportedModelError, match="its files declare a total of 102 bytes"):
        read_model_file(archive(tmp_path / "a.keras", ("assets/a", bytes(50)), ("assets/b", bytes(50))))


def test_an_entry_never_unpacks_to_more_than_its_declared_size(tmp_path: Path) -> None:
    """An archive says small and unpacks to more: what zipfile gives ends at what was checked, and is told damaged."""
    path = tmp_path / "a.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("config.json", b"[" * 10_000_000)
        made.writestr("model.weights.h5", b"")
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 2)
    struct.pack_into("<I", content, 22, 2)
    path.write_bytes(content)
    with pytest.raises(InvalidModelError, match="damaged"):
        read_model_file(path)


@pytest.mark.parametrize("name", ["assets/words.txt", "a/..b/c", "...", "ü/ö"])
def test_ordinary_names_are_accepted(name: str) -> None:
    assert not escapes_folder(name)
