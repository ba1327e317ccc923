"""Wheel, sdist and editable install carry the profiles and the CMake package, and find them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from edgetool.target.load import list_runtimes, list_targets

ROOT = Path(__file__).resolve().parents[2]
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"
LIST = """
import site, sys
site.addsitedir(sys.argv[1])
from edgetool.target.instructions import load_factors, load_instructions
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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, so that building leaves nothing in the working tree."""
    setuptools = pytest.importorskip("setuptools", reason="building needs setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip(f"building needs setuptools 77, this is {setuptools.__version__}")
    copy = tmp_path_factory.mktemp("tree") / "edgetool"
    ignore = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for folder in ("toolchain", "targets"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignore)
    for name in FILES:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, copy / name)
    return copy


def build(tree: Path, kind: str, out: Path) -> Path:
    out.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(out)], cwd=tree, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out / done.stdout.split()[-1]


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


EXPECTED = [*list_targets(), *list_runtimes()]


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_wheel(tree: Path, tmp_path: Path) -> None:
    wheel = build(tree, "wheel", tmp_path / "out")
    names = zipfile.ZipFile(wheel).namelist()
    assert "edgetool/targets/cores/cortex-m7.toml" in names
    assert "edgetool/targets/cores/instructions/cortex-m7.cmsis-nn.csv" in names
    assert "edgetool/targets/factors.csv" in names
    assert "edgetool/cmake/edgetoolConfig.cmake" in names
    assert not any(name.startswith("targets/") for name in names)
    assert listed(unpacked(wheel, tmp_path / "site")) == EXPECTED


def test_sdist_builds_the_same_wheel(tree: Path, tmp_path: Path) -> None:
    sdist = build(tree, "sdist", tmp_path / "out")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "src", filter="data")
    (source,) = (tmp_path / "src").iterdir()
    wheel = build(source, "wheel", tmp_path / "wheel")
    assert listed(unpacked(wheel, tmp_path / "site")) == EXPECTED


def test_editable(tree: Path, tmp_path: Path) -> None:
    wheel = build(tree, "editable", tmp_path / "out")
    site_dir = unpacked(wheel, tmp_path / "site")
    assert not (site_dir / "edgetool").exists()
    assert listed(site_dir) == EXPECTED
