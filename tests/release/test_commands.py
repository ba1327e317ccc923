"""Every command does its main job from an unpacked wheel, and from the wheel that the sdist builds."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from edgetool import __version__
from edgetool.cli.main import cli
from tests.release import artifacts

EXAMPLES = artifacts.ROOT / "examples"
KEYWORDS = EXAMPLES / "keyword_spotting"
FILES = (
    KEYWORDS / "keyword_spotting.h5",
    KEYWORDS / "keyword_spotting.tflite",
    KEYWORDS / "calibration.npz",
    EXAMPLES / "layout" / "audio.csv",
)
MODEL = "keyword_spotting.tflite"
BOARD = ("--target", "nucleo-l4r5zi")

# What a child of edgetool imports, by a module that edgetool.child runs as it runs its own.
IMPORTS = """
import sys
import edgetool
from edgetool import child
def work(request, workdir, progress):
    return {"file": edgetool.__file__, "path": sys.path, "finders": [type(each).__module__ for each in sys.meta_path]}
if __name__ == "__main__":
    child.serve(work)
"""
ASK = """
import json, pathlib, tempfile
from edgetool import child
with tempfile.TemporaryDirectory() as folder:
    limits = child.ProcessLimits(seconds=60)
    print(json.dumps(child.run("imports", {}, workdir=pathlib.Path(folder), limits=limits, doing="importing")))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """edgetool of an unpacked wheel, in a folder that holds the example files."""

    installed: artifacts.Installed
    folder: Path

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run a command that must end with this exit code, and return what it printed."""
        done = self.installed.run("-m", "edgetool", *arguments, cwd=self.folder)
        assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def document(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


def convert(edgetool: Program) -> None:
    pytest.importorskip("tensorflow", reason="needs the extra 'convert'")
    arguments = ("keyword_spotting.h5", *BOARD, "--calibration", "calibration.npz")
    assert edgetool.document("convert", *arguments)["arena"]["bytes"] == 18_688
    written = {path.name for path in (edgetool.folder / "keyword_spotting-firmware").iterdir()}
    assert {MODEL, "keyword_spotting.h", "keyword_spotting_model.c", "keyword_spotting_runner.cc"} <= written


def inspect(edgetool: Program) -> None:
    assert "DEPTHWISE_CONV_2D" in edgetool("inspect", MODEL)


def plan(edgetool: Program) -> None:
    assert edgetool.document("plan", MODEL, *BOARD, "-o", "planned.tflite")["arena"]["bytes"] == 18_688
    assert b"OfflineMemoryAllocation" in (edgetool.folder / "planned.tflite").read_bytes()


def estimate(edgetool: Program) -> None:
    assert 40 < edgetool.document("estimate", MODEL, *BOARD)["estimate"]["latency_ms"]["value"] < 80


def check(edgetool: Program) -> None:
    edgetool("check", MODEL, *BOARD, "--update")
    edgetool("check", MODEL, *BOARD, "--locked")
    assert "max-arena" in edgetool("check", MODEL, *BOARD, "--max-arena", "1KiB", code=1)


def calibrate(edgetool: Program) -> None:
    edgetool("calibrate", *BOARD, "--measured", f"{MODEL}=70ms", "-o", "measured.toml")
    latency = edgetool.document("estimate", MODEL, "--target", "measured.toml")["estimate"]["latency_ms"]
    assert latency["value"] == pytest.approx(70, rel=1e-3)


def emit(edgetool: Program) -> None:
    edgetool("emit", MODEL, *BOARD, "--project", "cmake", "-o", "emitted")
    assert {"CMakeLists.txt", "main.cc", "keyword_spotting.h"} <= {
        p.name for p in (edgetool.folder / "emitted").iterdir()
    }


def verify(edgetool: Program) -> None:
    pytest.importorskip("tflite_micro", reason="needs the extra 'verify'")
    assert edgetool.document("verify", MODEL, "--samples", "1")["verify"]["passed"] is True


def native(edgetool: Program) -> None:
    """Native code is written with its kernels, and compiled and compared by the installed program."""
    edgetool("emit", MODEL, *BOARD, "--runtime", "native", "-o", "native")
    assert {"keyword_spotting.h", "edgetool_conv2d_tiled_s8.c"} <= {
        p.name for p in (edgetool.folder / "native").iterdir()
    }
    pytest.importorskip("tflite_micro", reason="needs the extra 'verify'")
    command = ("verify", MODEL, *BOARD, "--runtime", "native", "--samples", "1")
    assert edgetool.document(*command)["verify"]["passed"] is True


def compare(edgetool: Program) -> None:
    shutil.copy(EXAMPLES / "person_detection" / "person_detection.tflite", edgetool.folder)
    assert "person_detection" in edgetool("compare", MODEL, "person_detection.tflite", *BOARD)


def report(edgetool: Program) -> None:
    edgetool("report", MODEL, *BOARD)
    assert "<!doctype html>" in (edgetool.folder / "report.html").read_text(encoding="utf-8")


def layout(edgetool: Program) -> None:
    assert "optimal" in edgetool("layout", "audio.csv")


def sweep(edgetool: Program) -> None:
    pytest.importorskip("tensorflow", reason="needs the extra 'convert'")
    spec = 'name = "words"\nmodel = "keyword_spotting.h5"\nprecisions = ["int8"]\ntargets = ["nucleo-l4r5zi"]\n'
    (edgetool.folder / "words.toml").write_text(spec, encoding="utf-8")
    edgetool("sweep", "run", "words.toml")
    with sqlite3.connect(edgetool.folder / "words.sqlite") as store:
        assert store.execute("select count(*) from sqlite_master").fetchone() > (0,)
    for command in ("show", "pareto", "best"):
        assert "int8" in edgetool("sweep", command, "words.toml")


def fit(edgetool: Program) -> None:
    boards = edgetool.document("fit", MODEL)["fit"]["boards"]
    assert {"nucleo-l4r5zi", "rpi-pico"} <= {board["target"]["name"] for board in boards if board["fits"]}


def init(edgetool: Program) -> None:
    edgetool("init", MODEL, *BOARD)
    edgetool("check", "--update")
    assert (edgetool.folder / "edgetool.toml").is_file()
    assert (edgetool.folder / ".github" / "workflows" / "edgetool.yml").is_file()


def targets(edgetool: Program) -> None:
    assert "nucleo-l4r5zi" in edgetool("targets", "list")
    assert "cortex-m4" in edgetool("targets", "show", "nucleo-l4r5zi")
    (edgetool.folder / "own.toml").write_text(
        'name = "own"\nextends = "rpi-pico"\nboard = "My Pico"\n', encoding="utf-8"
    )
    assert "valid" in edgetool("targets", "validate", "own.toml")


JOBS: dict[Callable[[Program], None], tuple[str, ...]] = {
    job: (job.__name__,)
    for job in (convert, inspect, plan, estimate, check, calibrate, emit, verify, compare, report, layout, fit, init)
} | {
    sweep: ("sweep run", "sweep show", "sweep pareto", "sweep best"),
    targets: ("targets list", "targets show", "targets validate"),
    native: (),
}


def commands(group: click.Group, before: str = "") -> list[str]:
    """The commands of a group that are no groups themselves, each with the names that lead to it."""
    found: list[str] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found += commands(command, f"{before}{name} ") if isinstance(command, click.Group) else [before + name]
    return found


def test_every_command_has_a_job_here() -> None:
    assert sorted(commands(cli)) == sorted(name for names in JOBS.values() for name in names)


WHEELS = ("wheel", "wheel_of_sdist")
# Jobs that take seconds are slow tests, and so is the second wheel, which does only the short ones and convert:
# test_artifacts.py compares the files of both wheels, byte by byte.
SHORT_JOBS = {emit, inspect, layout, plan, targets}
CASES = [
    pytest.param(
        wheel,
        job,
        id=f"{wheel}-{job.__name__}",
        marks=() if wheel == "wheel" and job in SHORT_JOBS else pytest.mark.slow,
    )
    for wheel in WHEELS
    for job in JOBS
    if wheel == "wheel" or job in SHORT_JOBS or job is convert
]


@pytest.fixture(scope="module", params=WHEELS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> artifacts.Installed:
    return artifacts.installed(request.getfixturevalue(request.param), tmp_path_factory.mktemp(request.param))


@pytest.fixture
def program(installed: artifacts.Installed, tmp_path: Path) -> Program:
    for path in FILES:
        shutil.copy(path, tmp_path)
    return Program(installed, tmp_path)


@pytest.mark.parametrize(("installed", "job"), CASES, indirect=["installed"])
def test_a_command_works_from_the_wheel(program: Program, job: Callable[[Program], None]) -> None:
    job(program)


def test_nothing_but_the_wheel_can_be_imported(installed: artifacts.Installed, tmp_path: Path) -> None:
    (installed.site / "imports.py").write_text(IMPORTS, encoding="utf-8")
    done = installed.run("-c", ASK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    child = json.loads(done.stdout)
    assert Path(child["file"]) == installed.site / "edgetool" / "__init__.py"
    assert [entry for entry in child["path"] if (Path(entry) / "edgetool").exists()] == [str(installed.site)]
    assert not any("editable" in module for module in child["finders"])


def test_the_program_itself(program: Program) -> None:
    assert __version__ in program("--version")
    folder = Path(program("--cmake-dir").strip())
    assert folder == program.installed.site / "edgetool" / "cmake"
    assert {path.name for path in folder.iterdir()} == {"edgetoolConfig.cmake", "edgetoolConfigVersion.cmake"}
    (script,) = (
        entry
        for distribution in importlib.metadata.distributions(name="edgetool", path=[str(program.installed.site)])
        for entry in distribution.entry_points
    )
    assert (script.group, script.name, script.value) == ("console_scripts", "edgetool", "edgetool.__main__:main")
