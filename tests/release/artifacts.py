"""Builds what a release consists of, and unpacks it where nothing of the checkout can be imported."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("toolchain", "targets")
FILES = (
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "LICENSE-0BSD",
)
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


def copy_of_tree(folder: Path) -> Path:
    """Copy what is built, so that building leaves nothing in the checkout and takes nothing stale from it."""
    ignore = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(tree: Path, kind: str, out: Path) -> Path:
    """Build a "wheel", an "sdist" or an "editable" wheel of the tree with setuptools, and return its path."""
    out.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(out)],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": _setuptools()},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out / done.stdout.split()[-1]


def wheel_of_sdist(sdist: Path, folder: Path) -> Path:
    """Unpack the sdist below the folder, and build a wheel of nothing else."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return build(source, "wheel", folder / "wheel")


def unpacked(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel: the folder is then a site directory that holds nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@dataclass(frozen=True, slots=True)
class Installed:
    """A wheel in a virtual environment, beside the dependencies of the environment that runs the tests."""

    python: Path
    site: Path

    def run(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python with these arguments, without the variables that extend its path."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.python, "-P", *map(str, arguments)],
            cwd=cwd,
            env={**kept, "COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )


def installed(wheel: Path, folder: Path) -> Installed:
    """Unpack the wheel in a new virtual environment that also finds this environment's packages.

    A .pth file in that one, such as the one that makes an editable install importable, has no effect here.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    unpacked(wheel, site)
    packages = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    (site / "dependencies.pth").write_text("".join(f"{entry}\n" for entry in packages), encoding="utf-8")
    return Installed(folder / "bin" / "python", site)


def _setuptools() -> str:
    """The folder of the first setuptools on the path that reads a license expression."""
    for distribution in importlib.metadata.distributions(name="setuptools"):
        if int(distribution.version.split(".")[0]) >= 77:
            return str(distribution.locate_file(""))
    raise AssertionError("building needs setuptools 77 or later, of the extra 'dev'")
