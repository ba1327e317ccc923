"""Sweeps that are killed at random, and what the next run makes of them."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetool.sweep.run import run_sweep
from edgetool.sweep.spec import SweepSpec, TargetSpec
from edgetool.sweep.store import open_store
from edgetool.sweep.table import rows, rows_json
from tests.sweep import fake_work
from tests.sweep.fake_work import lines, spec_of, until

ROOT = Path(__file__).resolve().parents[2]
KEYWORD = ROOT / "examples" / "keyword_spotting"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children die with their parent on Linux")


def started(*arguments: str, temporary: Path) -> subprocess.Popen[bytes]:
    """A sweep in a process of its own, with its temporary files in a folder by which its children are known."""
    temporary.mkdir(exist_ok=True)
    path = os.pathsep.join([str(ROOT), str(ROOT / "toolchain")])
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=environment)


def descendants(temporary: Path) -> list[str]:
    """The processes that work in that folder, however they came to."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:  # it has just ended
            continue
        if str(temporary).encode() in command:
            found.append(command.decode().replace("\0", " "))
    return found


def killed(process: subprocess.Popen[bytes], when: Callable[[], bool]) -> None:
    """SIGKILL once it holds; the process must not have ended by itself."""
    until(when, 120)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def table(store: Path) -> str:
    """The table as `sweep show --json` prints it."""
    with open_store(store) as opened:
        return json.dumps(rows_json(opened.sweep(), rows(opened)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_sweep_killed_three_times_gives_the_table_of_an_uninterrupted_one(tmp_path: Path, seed: int) -> None:
    spec, log, store = spec_of(tmp_path), tmp_path / "log", tmp_path / "killed.sqlite"
    moments = sorted(random.Random(seed).sample(range(1, 50), 3))
    for begun in moments:
        process = started("-m", "tests.sweep.fake_work", str(tmp_path), store.name, temporary=tmp_path / "tmp")
        killed(process, lambda begun=begun: len(lines(log)) >= begun)  # type: ignore[misc]
    with open_store(store) as opened:
        kept = set(opened.outcomes())
    begun_before = lines(log)
    process = started("-m", "tests.sweep.fake_work", str(tmp_path), store.name, temporary=tmp_path / "tmp")
    assert process.wait(120) == 0
    run_sweep(spec, tmp_path / "whole.sqlite", jobs=2, run=fake_work.do)
    assert table(store) == table(tmp_path / "whole.sqlite")
    begun = Counter(key for key, _, _ in lines(log))
    assert len(begun) == 52
    # What was begun again is what ran at a kill, or had just ended: two at a time.
    assert sum(begun.values()) - 52 <= 2 * 2 * 3
    assert not kept & {key for key, _, _ in lines(log)[len(begun_before) :]}
    assert run_sweep(spec, store, jobs=2, run=fake_work.do).computed == 0


def keyword_spec() -> SweepSpec:
    return SweepSpec(
        name="keyword",
        model=KEYWORD / "keyword_spotting.h5",
        builder=None,
        precisions=("int8",),
        targets=(TargetSpec("m0", "cortex-m0plus"), TargetSpec("m4", "cortex-m4")),
        calibration=KEYWORD / "calibration.npz",
    )


REAL = """
import sys
from pathlib import Path
from edgetool.sweep.run import run_sweep
from tests.sweep.test_kill import keyword_spec
run_sweep(keyword_spec(), Path(sys.argv[1]), jobs=2)
"""


@pytest.mark.slow
def test_real_jobs_killed_with_their_sweep_give_what_a_cluster_gives(tmp_path: Path) -> None:
    for package in ("tensorflow", "keras", "ai_edge_litert"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package} (the extra 'convert')")
    distributed = pytest.importorskip("distributed")
    store, temporary = tmp_path / "killed.sqlite", tmp_path / "tmp"
    # While the float original runs, its TensorFlow too: nobody may outlive the sweep.
    process = started("-c", REAL, str(store), temporary=temporary)
    killed(process, lambda: len(descendants(temporary)) >= 2)
    until(lambda: not descendants(temporary), 10)
    process = started("-c", REAL, str(store), temporary=temporary)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        result = run_sweep(keyword_spec(), tmp_path / "cluster.sqlite", scheduler=cluster.scheduler_address)
    assert (result.computed, result.failed) == (4, 0)
    assert process.wait(120) == 0
    assert table(store) == table(tmp_path / "cluster.sqlite")
    with open_store(store) as opened, open_store(tmp_path / "cluster.sqlite") as other:
        assert [row.status for row in rows(opened)] == ["done", "done"]
        for entry in opened.entries():
            key = dict(entry.keys)["convert"]
            assert opened.blob(key, "model.tflite") == other.blob(key, "model.tflite")
    assert descendants(temporary) == []
