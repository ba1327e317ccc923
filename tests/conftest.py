"""Settings and fixtures that tests of several packages use."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from edgetool.convert.load_keras import ONE_THREAD
from tests.forked_children import forked

# OR-Tools dies in a process that has loaded TensorFlow before it; the other way round both work.
with contextlib.suppress(ImportError):
    import ortools.sat.python.cp_model  # noqa: F401

# No test fails because the machine is slow or busy. The quick tests try few examples, other ones each time; make slow
# runs the same tests again with the profile "thorough".
settings.register_profile(
    "thorough", settings.default, max_examples=24, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=12)
settings.load_profile("quick")


def examples(percent: int) -> settings:
    """Try this share of the profile's examples; that of cheap tests is more than 100 %."""
    return settings(max_examples=percent * settings.default.max_examples // 100)


# Where TensorFlow runs in the tests' own process, it runs as it does in the conversion's.
os.environ.update(ONE_THREAD)

BUILDER = Path(__file__).parent / "convert" / "build_models.py"
SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no garbage collection looks through it again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Tests of Ctrl-C work in a background job as well, where a shell has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def forked_children() -> Iterator[None]:
    """Fork the children that a test starts from this process, instead of importing libraries in each."""
    with forked():
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real models and measurements; a user's checkout has none."""
    if not (SHARED / "data").is_dir():
        pytest.skip("needs the folder ../shared with real models")
    return SHARED


def model_files() -> list[Path]:
    """Every real .tflite file at hand, for parametrized tests; empty where the folder is absent."""
    data = SHARED / "data"
    return sorted([*data.glob("models/*/*.tflite"), *data.glob("latency/zoo/*.tflite")])


def over_models(files: list[Path]) -> pytest.MarkDecorator:
    """Run a test of one argument, path, over real files; skipped with the reason where there are none.

    Three of four are for the slow tests: neighbours in the list are much alike.
    """
    if not files:
        reason = "needs the folder ../shared with real models"
        return pytest.mark.parametrize("path", [pytest.param(None, marks=pytest.mark.skip(reason=reason))])
    marks = ((), pytest.mark.slow, pytest.mark.slow, pytest.mark.slow)
    cases = [
        pytest.param(path, id=f"{path.parent.name}/{path.stem}", marks=mark)
        for path, mark in zip(files, cycle(marks), strict=False)
    ]
    return pytest.mark.parametrize("path", cases)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every model of build_models.py; the first of several workers builds them."""
    for name in ("tensorflow", "keras", "h5py"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name} (the extra 'convert')")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return _build_models(tmp_path_factory.mktemp("models"))
    directory = tmp_path_factory.getbasetemp().parent / "models"
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            _build_models(tmp_path_factory.mktemp("models")).rename(directory)
    return directory


def _build_models(directory: Path) -> Path:
    done = subprocess.run(
        [sys.executable, str(BUILDER), str(directory)],
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "KERAS_HOME": str(directory), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory
