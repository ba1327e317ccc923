"""The artifacts of a release, built once for each file of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release import artifacts


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts.copy_of_tree(tmp_path_factory.mktemp("tree") / "edgetool")


@pytest.fixture(scope="session")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts.build(tree, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts.build(tree, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts.wheel_of_sdist(sdist, tmp_path_factory.mktemp("from_sdist"))
