"""The wheel holds exactly the tree, the sdist all that builds the wheel, and the metadata what is true."""

from __future__ import annotations

import email
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from edgetool import __version__
from edgetool.target.load import list_runtimes, list_targets
from tests.release import artifacts

ROOT = artifacts.ROOT
PAGE = ROOT / "toolchain" / "edgetool" / "report" / "page"
LIST = """
import site, sys
site.addsitedir(sys.argv[1])
from edgetool.target.tables import load_factors, load_instructions
from edgetool.target.load import list_cores, list_runtimes, list_targets, load_core, load_target
import pathlib, edgetool
for file in ("edgetoolConfig.cmake", "edgetoolConfigVersion.cmake"):
    assert (pathlib.Path(edgetool.__file__).parent / "cmake" / file).is_file(), file
for name in list_targets():
    assert load_target(name).name == name
for core in map(load_core, list_cores()):
    for timing in core.timings:
        load_instructions(core.instructions, timing.kernels)
assert load_factors()
print(*list_targets(), *list_runtimes())
"""
EXPECTED = [*list_targets(), *list_runtimes()]


def listed(site_dir: Path) -> list[str]:
    """What a bare interpreter (no site-packages of ours) lists with only this folder added."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LIST, str(site_dir)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=site_dir,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def files_of_tree() -> dict[str, bytes]:
    """Every file that an installed edgetool must have, by its path in a wheel."""
    places = {ROOT / "toolchain" / "edgetool": "edgetool", ROOT / "targets": "edgetool/targets"}
    return {
        f"{place}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for folder, place in places.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not is_source_of_page(path)
    }


def is_source_of_page(path: Path) -> bool:
    """Return whether the page of reports is made from the file, so that an installed edgetool does not need it."""
    return path.parent == PAGE and path.name != "page.html"


def files_of_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> Message:
    return email.message_from_bytes(files_of_wheel(wheel)[f"edgetool-{__version__}.dist-info/METADATA"])


def test_the_wheel_holds_the_tree_and_nothing_else(wheel: Path) -> None:
    held = {name: data for name, data in files_of_wheel(wheel).items() if ".dist-info/" not in name}
    wanted = files_of_tree()
    assert sorted(held) == sorted(wanted)
    assert held == wanted
    assert wheel.name == f"edgetool-{__version__}-py3-none-any.whl"


def test_a_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "toolchain" / "edgetool").rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_wheel_lists_all_targets(wheel: Path, tmp_path: Path) -> None:
    assert listed(artifacts.unpacked(wheel, tmp_path / "site")) == EXPECTED


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, wheel_of_sdist: Path) -> None:
    assert files_of_wheel(wheel_of_sdist) == files_of_wheel(wheel)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "LICENSE-0BSD",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "pyproject.toml",
        "setup.cfg",
    } <= names
    assert {f"toolchain/edgetool/report/page/{path.name}" for path in PAGE.iterdir()} <= names
    assert not any(name.startswith(("tests", "docs", "examples", "benchmarks")) for name in names)


def test_an_editable_install_lists_all_targets(tree: Path, tmp_path: Path) -> None:
    editable = artifacts.build(tree, "editable", tmp_path / "out")
    site_dir = artifacts.unpacked(editable, tmp_path / "site")
    assert not (site_dir / "edgetool").exists()
    assert listed(site_dir) == EXPECTED


def test_the_metadata(wheel: Path) -> None:
    held = metadata(wheel)
    assert (held["Name"], held["Version"], held["Author"]) == ("edgetool", __version__, "The edgetool authors")
    assert held["License-Expression"] == "Apache-2.0 AND 0BSD AND BSD-3-Clause AND ISC AND MIT"
    assert held["License"] is None
    assert held.get_all("License-File") == ["LICENSE", "LICENSE-0BSD"]
    assert held["Requires-Python"] == ">=3.11"
    assert "microcontroller" in held["Keywords"].split(",")
    assert held["Description-Content-Type"] == "text/markdown"
    classifiers = held.get_all("Classifier") or []
    assert not any(line.startswith(("License ::", "Operating System :: MacOS")) for line in classifiers)
    licence = files_of_wheel(wheel)[f"edgetool-{__version__}.dist-info/licenses/LICENSE"].decode()
    assert licence.split()[:5] == ["Apache", "License", "Version", "2.0,", "January"]


@pytest.mark.parametrize("extra", ["convert", "onnx", "verify", "cp-sat", "fast", "sweep"])
def test_all_is_every_extra_for_users(wheel: Path, extra: str) -> None:
    held = metadata(wheel)
    (everything,) = (line for line in held.get_all("Requires-Dist") or [] if line.endswith('extra == "all"'))
    names = everything.partition("[")[2].partition("]")[0].split(",")
    assert extra in names
    # PyTorch takes several GB unless its CPU build is installed first.
    assert set(names) == set(held.get_all("Provides-Extra") or []) - {"all", "dev", "torch"}


def test_the_changelog_has_a_section_for_this_version() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert headings[0] == "## Unreleased"
    assert headings[1].startswith(f"## {__version__} (")
