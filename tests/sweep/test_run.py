"""Runs of a sweep, and the copies of files that they work on."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edgetool.errors import CalibrationError, OutputError, UsageError
from edgetool.sweep.executor import SweepProgress
from edgetool.sweep.jobs import Outcome, PreparedJob
from edgetool.sweep.run import RunResult, run_sweep, snapshot
from edgetool.sweep.spec import Builder, FineTune, Pruning, Search, SweepSpec
from edgetool.sweep.store import open_store
from edgetool.sweep.table import rows
from tests.sweep import fake_work
from tests.sweep.fake_work import lines, spec_of

KINDS = {"prune": 3, "reference": 1, "convert": 12, "analyse": 36}


def run(spec: SweepSpec, store: Path, *, jobs: int = 2, **options: object) -> RunResult:
    """Do it with the fake work; what it does not know is for run_sweep."""
    ours = {name: options.pop(name) for name in ("seconds", "failing", "refusing") if name in options}
    do = partial(fake_work.do, log=store.with_name("log"), **ours)  # type: ignore[arg-type]
    return run_sweep(spec, store, jobs=jobs, run=do, **options)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "sweep.sqlite"


def statuses(store: Path) -> Counter[str]:
    with open_store(store) as opened:
        return Counter(row.status for row in rows(opened))


def test_every_job_is_done_once_and_never_again(tmp_path: Path, store: Path) -> None:
    first = run(spec_of(tmp_path), store)
    assert (first.computed, first.reused, first.failed) == (52, 0, 0)
    begun = lines(tmp_path / "log")
    assert Counter(kind for _, kind, _ in begun) == KINDS
    assert len({key for key, _, _ in begun}) == 52
    assert statuses(store) == {"done": 36}
    again = run(spec_of(tmp_path), store)
    assert (again.computed, again.reused, again.failed) == (0, 52, 0)
    assert lines(tmp_path / "log") == begun


def test_one_job_at_a_time_follows_the_order_of_the_variants(tmp_path: Path, store: Path) -> None:
    run(spec_of(tmp_path), store, jobs=1)
    order: list[str] = []
    with open_store(store) as opened:
        for entry in opened.entries():
            order += [key for _, key in entry.keys if key not in order]
    assert [key for key, _, _ in lines(tmp_path / "log")] == order


@pytest.mark.slow
def test_the_number_of_jobs_changes_nothing_in_the_table(tmp_path: Path) -> None:
    tables = []
    for jobs in (1, 7):
        path = tmp_path / f"{jobs}.sqlite"
        run(spec_of(tmp_path), path, jobs=jobs)
        with open_store(path) as opened:
            tables.append(rows(opened))
    assert tables[0] == tables[1]


def test_a_sweep_that_grows_or_shrinks_reuses_what_it_has(tmp_path: Path, store: Path) -> None:
    small = spec_of(tmp_path, pruning=Pruning(levels=(0.0, 0.5)))
    assert run(small, store).computed == 1 + 1 + 6 + 18
    grown = run(spec_of(tmp_path), store)
    assert (grown.computed, grown.reused) == (26, 26)
    shrunk = run(small, store)
    assert (shrunk.computed, shrunk.reused) == (0, 26)
    with open_store(store) as opened:
        assert len(opened.entries()) == 18
        assert len(opened.outcomes()) == 52


def test_a_file_that_changes_is_another_sweep(tmp_path: Path, store: Path) -> None:
    spec = spec_of(tmp_path)
    run(spec, store)
    (tmp_path / "model.h5").write_bytes(b"another model")
    assert run(spec, store).computed == 52


def test_a_failure_leaves_out_those_that_need_it_and_no_others(tmp_path: Path, store: Path) -> None:
    result = run(spec_of(tmp_path), store, failing="prune")
    assert (result.computed, result.failed) == (3 + 1 + 3 + 9, 3)
    assert statuses(store) == {"done": 9, "failed": 27}
    with open_store(store) as opened:
        assert {row.reason for row in rows(opened) if row.status == "failed"} == {"pruning: it failed"}


def test_failures_are_kept_unless_they_are_to_be_tried_again(tmp_path: Path, store: Path) -> None:
    run(spec_of(tmp_path), store, failing="prune")
    kept = run(spec_of(tmp_path), store)
    assert (kept.computed, kept.failed) == (0, 3)
    tried = run(spec_of(tmp_path), store, retry_failed=True)
    assert (tried.computed, tried.reused, tried.failed) == (3 + 9 + 27, 13, 0)
    assert statuses(store) == {"done": 36}


def test_when_every_variant_fails_the_sweep_still_ends(tmp_path: Path, store: Path) -> None:
    result = run(spec_of(tmp_path), store, failing="reference")
    assert result.failed == 1
    assert statuses(store) == {"failed": 36}


def test_an_error_that_no_variant_causes_ends_the_sweep_and_keeps_results(tmp_path: Path, store: Path) -> None:
    with pytest.raises(CalibrationError, match="has no samples"):
        run(spec_of(tmp_path), store, refusing="analyse", jobs=1)
    begun = [key for key, kind, _ in lines(tmp_path / "log") if kind != "analyse"]
    with open_store(store) as opened:
        assert list(opened.outcomes()) == begun != []
    assert run(spec_of(tmp_path), store).computed == 52 - len(begun)


def test_progress_counts_up_to_the_end(tmp_path: Path, store: Path) -> None:
    reported: list[SweepProgress] = []
    run(spec_of(tmp_path), store, progress=reported.append, jobs=3)
    done = [advance.done for advance in reported]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 52)
    assert {advance.total for advance in reported} == {52}
    assert reported[-1].running == ()
    assert reported[-1].seconds_left == 0
    assert max(len(advance.running) for advance in reported) == 3
    seen = {words for advance in reported for words in advance.running}
    assert {"reference", "prune level 0.25", "convert level 0, int8", "analyse level 0.5, int16x8, cortex-m4"} <= seen
    reported.clear()
    run(spec_of(tmp_path), store, progress=reported.append)
    assert reported == [SweepProgress(52, 52, 0, (), None)]


def test_progress_counts_what_is_left_out(tmp_path: Path, store: Path) -> None:
    reported: list[SweepProgress] = []
    run(spec_of(tmp_path), store, failing="reference", progress=reported.append)
    assert (reported[-1].done, reported[-1].total, reported[-1].failed) == (52, 52, 1)


def test_an_interrupt_keeps_what_was_done_and_leaves_nothing(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def interrupt(advance: SweepProgress) -> None:
        if advance.done >= 20:
            time.sleep(1)  # what runs now has ended by then, and nobody has recorded it
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec_of(tmp_path), store, progress=interrupt)
    assert list(temporary.iterdir()) == []
    rest = run(spec_of(tmp_path), store)
    assert rest.computed + rest.reused == 52
    assert rest.reused > 20


def test_jobs_end_before_their_directory_is_removed(tmp_path: Path, store: Path) -> None:
    folders: list[bool] = []

    def work(prepared: PreparedJob, *, on_start: Callable[[Callable[[], None]], None]) -> Outcome:
        assert prepared.folder is not None
        killed = threading.Event()
        on_start(killed.set)
        assert killed.wait(60)
        folders.append(prepared.folder.exists())
        return Outcome()

    def interrupt(progress: SweepProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec_of(tmp_path), store, jobs=2, progress=interrupt, run=work)
    assert folders == [True] * 2


def test_two_sweeps_do_not_share_a_store(tmp_path: Path, store: Path) -> None:
    run(spec_of(tmp_path), store)
    with (
        open_store(store, create=True) as opened,
        opened.exclusive(),
        pytest.raises(UsageError, match="another sweep is running"),
    ):
        run(spec_of(tmp_path, precisions=("int8",)), store)
    assert statuses(store) == {"done": 36}  # the list is still the first one's


def test_impossible_ways_to_run_are_refused(tmp_path: Path, store: Path) -> None:
    with pytest.raises(UsageError, match="jobs and scheduler cannot be combined"):
        run_sweep(spec_of(tmp_path), store, jobs=2, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(UsageError, match="0 is not a valid number of jobs"):
        run(spec_of(tmp_path), store, jobs=0)
    with pytest.raises(UsageError, match=r"missing\.h5"):
        run(spec_of(tmp_path, model=tmp_path / "missing.h5"), store)


def test_a_search_runs_its_trials_and_continues_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    spec = spec_of(tmp_path, strategy="search", search=Search(trials=6, batch=2))
    whole, parts = tmp_path / "whole.sqlite", tmp_path / "parts.sqlite"
    reported: list[SweepProgress] = []
    result = run(spec, whole, progress=reported.append)
    assert reported[-1].done == reported[-1].total == result.computed
    assert all(advance.total >= result.computed / 3 for advance in reported)

    def interrupt(advance: SweepProgress) -> None:
        if advance.done >= result.computed // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, parts, progress=interrupt)
    rest = run(spec, parts)
    assert rest.computed + rest.reused == result.computed
    with open_store(whole) as first, open_store(parts) as second:
        assert rows(first) == rows(second)
        assert len(rows(first)) == 18


def spec_of_files(folder: Path) -> SweepSpec:
    for name in ("m.h5", "c.npz", "e.npz", "t.npz"):
        (folder / name).write_bytes(name.encode())
    return SweepSpec(
        "s",
        folder / "m.h5",
        None,
        ("int8",),
        (),
        fine_tune=FineTune(folder / "t.npz"),
        calibration=folder / "c.npz",
        evaluate=folder / "e.npz",
    )


def built(folder: Path, *files: str) -> SweepSpec:
    folder.mkdir()
    for name in ("model.py", *files):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"# {name}")
    builder = Builder(folder / "model.py", "model", "build", tuple(folder / name for name in files))
    return SweepSpec("s", None, builder, ("int8",), ())


def test_copies_have_name_and_content_and_do_not_change(tmp_path: Path) -> None:
    spec = spec_of_files(tmp_path)
    files = snapshot(spec, tmp_path / "copies")
    assert {role: file.name for role, file in files.items()} == {
        "model": "m.h5",
        "calibration": "c.npz",
        "evaluate": "e.npz",
        "fine_tune": "t.npz",
    }
    (tmp_path / "m.h5").write_bytes(b"edited")
    for file in files.values():
        assert file.path.name == file.name
        assert file.path.read_bytes() == file.name.encode()
        assert file.sha256 == hashlib.sha256(file.name.encode()).hexdigest()
    assert snapshot(spec, tmp_path / "again")["model"].sha256 != files["model"].sha256


def test_a_directory_is_known_by_names_and_contents(tmp_path: Path) -> None:
    spec = spec_of_files(tmp_path)
    images = tmp_path / "images"
    (images / "deeper").mkdir(parents=True)
    (images / "deeper" / "1.png").write_bytes(b"1")
    spec = replace(spec, calibration=images)
    first = snapshot(spec, tmp_path / "1")["calibration"]
    assert (first.path / "deeper" / "1.png").read_bytes() == b"1"
    (images / "deeper" / "1.png").rename(images / "deeper" / "2.png")
    assert snapshot(spec, tmp_path / "2")["calibration"].sha256 != first.sha256
    (images / "deeper" / "2.png").rename(images / "deeper" / "1.png")
    assert snapshot(spec, tmp_path / "3")["calibration"].sha256 == first.sha256


def test_a_builders_files_have_roles_of_their_names(tmp_path: Path) -> None:
    files = snapshot(built(tmp_path / "b", "blocks.py", "model.py"), tmp_path / "copies")
    assert list(files) == ["builder", "builder_file:blocks.py"]
    assert files["builder"].path.read_text() == "# model.py"


@pytest.mark.parametrize("names", [("a/blocks.py", "b/blocks.py"), ("a/model.py",)])
def test_two_builder_files_of_one_name_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="two builder files are named"):
        snapshot(built(tmp_path / "b", *names), tmp_path / "copies")


def test_missing_files_are_named(tmp_path: Path) -> None:
    spec = replace(spec_of_files(tmp_path), evaluate=tmp_path / "none.npz")
    with pytest.raises(UsageError, match=r"none\.npz: cannot be read"):
        snapshot(spec, tmp_path / "copies")


def test_copies_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    spec = spec_of_files(tmp_path)
    (tmp_path / "copies").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be copied"):
        snapshot(spec, tmp_path / "copies")
