"""The page's own code: its types are right, and page.html is what its sources and lock file make."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.report.browser import NODE_MODULES, ROOT

SOURCES = ROOT / "toolchain" / "edgetool" / "report" / "page"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources without the bundle, beside the installed libraries."""
    if shutil.which("node") is None or not NODE_MODULES.is_dir():
        pytest.skip("node and its packages are not installed: make build/page/node_modules")
    folder = tmp_path_factory.mktemp("page")
    for source in SOURCES.iterdir():
        if source.name != "page.html":
            shutil.copy(source, folder)
    (folder / "node_modules").symlink_to(NODE_MODULES)
    return folder


@pytest.mark.slow
def test_the_types_are_right_and_wrong_ones_are_found(copied: Path) -> None:
    done = check_types(copied)
    assert (done.returncode, done.stdout) == (0, "")
    (copied / "wrong.ts").write_text('import { grouped } from "./format";\nexport const text: number = grouped(1);\n')
    done = check_types(copied)
    (copied / "wrong.ts").unlink()
    assert done.returncode != 0
    assert "wrong.ts(2" in done.stdout


def check_types(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NODE_MODULES / ".bin" / "tsc"], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_bundle_is_what_its_sources_make(copied: Path) -> None:
    done = subprocess.run(["node", "build.mjs"], cwd=copied, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert (copied / "page.html").read_bytes() == (SOURCES / "page.html").read_bytes()


def test_the_lock_file_names_every_library_with_its_hash() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    package = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))
    for kind in ("dependencies", "devDependencies"):
        assert lock["packages"][""][kind] == package[kind]
        assert all(version[0].isdigit() for version in package[kind].values())
    for name, item in lock["packages"].items():
        assert not name or item["integrity"].startswith("sha512-"), name
