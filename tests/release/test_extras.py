"""The wheel in a fresh virtual environment for each extra: pip installs it, and the commands of the extra work."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.release import artifacts

pytestmark = pytest.mark.slow

KEYWORDS = artifacts.ROOT / "examples" / "keyword_spotting"
ONNX_MODEL = artifacts.ROOT / "examples" / "onnx" / "keyword_spotting.onnx"
AUDIO = artifacts.ROOT / "examples" / "layout" / "audio.csv"
MODEL = "keyword_spotting.tflite"
SWEEP = 'name = "words"\nmodel = "keyword_spotting.h5"\nprecisions = ["int8"]\ntargets = ["nucleo-l4r5zi"]\n'
PLAN = ("plan", MODEL, "--target", "rpi-pico")
CONVERT = ("convert", "keyword_spotting.h5", "--target", "rpi-pico", "--calibration", "calibration.npz")
ONNX = ("convert", "keyword_spotting.onnx", *CONVERT[2:], "--force")
VERIFY = ("verify", MODEL, "--samples", "1")
LAYOUT = ("layout", "audio.csv", "--strategy", "cp-sat")
PARETO = ("sweep", "pareto", "words.toml")
SWEEP_RUN = ("sweep", "run", "words.toml")
# Extra -> the commands that it must enable. `make demo` converts with the extra "convert"; a sweep converts as well.
COMMANDS = {
    "": (PLAN, ("fit", MODEL), ("layout", "audio.csv")),
    "verify": (VERIFY,),
    "cp-sat": (LAYOUT,),
    "fast": (PLAN, ("layout", "audio.csv")),
    "sweep": (("sweep", "run", "--help"), PLAN),
    "all": (ONNX, VERIFY, LAYOUT, SWEEP_RUN, PARETO),
}
# Without the extra: a command, the exit code of a missing one, and the extra that the message names.
MISSING = (
    (CONVERT, "edgetool[convert]"),
    (ONNX, "edgetool[onnx]"),
    (VERIFY, "edgetool[verify]"),
    (LAYOUT, "edgetool[cp-sat]"),
)
USAGE = 2


@pytest.fixture(scope="module")
def index() -> None:
    """Skip the file if pip reaches no package index."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", "/dev/null", "click==0"],
        capture_output=True,
        text=True,
    )
    if "from versions:" not in asked.stderr or "(from versions: none)" in asked.stderr:
        pytest.skip("pip reaches no package index")


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("extra", COMMANDS)
def test_an_extra_installs_and_its_commands_work(extra: str, wheel: Path, tmp_path: Path) -> None:
    program = _installed(wheel, extra, tmp_path)
    for command in COMMANDS[extra]:
        done = _run(program, tmp_path, *command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    if not extra:
        for command, name in MISSING:
            done = _run(program, tmp_path, *command)
            assert (done.returncode, name in done.stderr) == (USAGE, True), done.stderr


def _installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Install the wheel with the extra in a new environment, and return the program's path.

    With this environment's pip, and without compiling all of TensorFlow: the commands import a part of it.
    """
    python = folder / "environment" / "bin" / "python"
    venv.create(folder / "environment")
    requirement = f"{wheel}[{extra}]" if extra else str(wheel)
    options = "install -q --no-compile --disable-pip-version-check".split()
    pip = [sys.executable, "-m", "pip", "--python", python, *options]
    done = subprocess.run([*pip, requirement], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    for path in (*(KEYWORDS / name for name in (MODEL, "keyword_spotting.h5", "calibration.npz")), AUDIO, ONNX_MODEL):
        shutil.copy(path, folder)
    (folder / "words.toml").write_text(SWEEP, encoding="utf-8")
    return folder / "environment" / "bin" / "edgetool"


def _run(program: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=600)
