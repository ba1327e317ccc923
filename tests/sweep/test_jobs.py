"""The queue of jobs, the jobs of variants, and their keys."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import TargetError
from edgetool.gate.limits import MemoryBudget
from edgetool.sweep.jobs import PACKAGES, InputFile, Job, JobOutput, JobQueue, Outcome, VariantJobs, resolved
from edgetool.sweep.metrics import PRECISIONS, Variant
from edgetool.sweep.spec import Builder, FineTune, Pruning, Search, SweepLimits, SweepSpec, TargetSpec

DONE, FAILED = Outcome(), Outcome(reason="it failed")


def job(key: int, needs: set[int]) -> Job:
    return Job(str(key), "convert", {}, {f"{need}": JobOutput(str(need), "blob") for need in sorted(needs)})


@st.composite
def graphs(draw: st.DrawFn) -> list[Job]:
    """Jobs that need earlier ones, in any shape."""
    count = draw(st.integers(1, 15))
    return [job(key, draw(st.sets(st.integers(0, key - 1), max_size=3)) if key else set()) for key in range(count)]


def fated(jobs: list[Job], failing: set[str], known: set[str]) -> set[str]:
    """What cannot be done, computed another way: whoever reaches a failing job over needs that are not known."""
    by_key = {item.key: item for item in jobs}

    def reaches(key: str) -> bool:
        return key not in known and any(need in failing or reaches(need) for need in by_key[key].needs)

    return {key for key in by_key if reaches(key)}


@given(graphs(), st.data())
def test_all_that_can_be_done_is_done_once_and_after_what_it_needs(jobs: list[Job], data: st.DataObject) -> None:
    keys = [item.key for item in jobs]
    failing = data.draw(st.sets(st.sampled_from(keys), max_size=3))
    known_keys = data.draw(st.sets(st.sampled_from(keys), max_size=5))
    known = {key: FAILED if key in failing else DONE for key in known_keys}
    capacity = data.draw(st.integers(1, 4))
    queue = JobQueue(known)
    parts = data.draw(st.integers(0, len(jobs)))
    queue.add(jobs[:parts])
    queue.add([*jobs, *jobs[:parts]])  # those that are here already are passed over
    assert len(queue) == len(jobs)
    assert queue.reused == len(known)
    left_out = fated(jobs, failing, known_keys)
    running: list[str] = []
    ran: list[str] = []
    ended = set(known)
    while not queue.is_finished:
        while len(running) < capacity and (taken := queue.take()) is not None:
            assert set(taken.needs) <= ended
            assert not set(taken.needs) & failing
            running.append(taken.key)
            ran.append(taken.key)
        assert running, "nothing runs and nothing may begin"
        key = running.pop(data.draw(st.integers(0, len(running) - 1)))
        queue.finish(key, FAILED if key in failing else DONE)
        ended.add(key)
        assert queue.kinds["convert"] == len(jobs)
    assert sorted(ran) == sorted(set(keys) - known_keys - left_out)
    assert queue.states["skipped"] == len(left_out)
    assert queue.states["failed"] == len(failing & (set(ran) | known_keys))
    assert sum(queue.states.values()) == len(jobs)
    assert queue.waiting_kinds["convert"] == 0


@given(graphs())
def test_among_those_that_may_begin_the_first_added_does(jobs: list[Job]) -> None:
    queue = JobQueue({})
    queue.add(jobs)
    order = []
    while (taken := queue.take()) is not None:
        order.append(int(taken.key))
        queue.finish(taken.key, DONE)
    assert order == list(range(len(jobs)))


VERSIONS = {
    "edgetool": "1",
    "tensorflow": "2",
    "keras": "3",
    "numpy": "4",
    "ai-edge-litert": "5",
    "ortools": "6",
}
PROFILE = """name = "our-board"
extends = "nucleo-l4r5zi"
"""
FILES = {
    "model": InputFile("m.h5", "a" * 64, Path("/copies/m.h5")),
    "calibration": InputFile("c.npz", "b" * 64, Path("/copies/c.npz")),
    "evaluate": InputFile("e.npz", "c" * 64, Path("/copies/e.npz")),
    "fine_tune": InputFile("t.npz", "d" * 64, Path("/copies/t.npz")),
}
SPEC = SweepSpec(
    name="s",
    model=Path("m.h5"),
    builder=None,
    precisions=("int8", "float32"),
    targets=(TargetSpec("one", "cortex-m4"), TargetSpec("two", "cortex-m7")),
    pruning=Pruning((0.0, 0.5), exclude=("head", "word_*")),
    fine_tune=FineTune(Path("t.npz")),
    calibration=Path("c.npz"),
    evaluate=Path("e.npz"),
)
BUILDER = Builder(Path("model.py"), "model", "build", (Path("blocks.py"),), (("width", (1, 2)),))
BUILT = replace(SPEC, model=None, builder=BUILDER, trust_model_code=True)
BUILT_FILES = {
    "builder": InputFile("model.py", "e" * 64, Path("/copies/model.py")),
    "builder_file:blocks.py": InputFile("blocks.py", "f" * 64, Path("/copies/blocks.py")),
    **{role: file for role, file in FILES.items() if role != "model"},
}
VARIANT = Variant((), 0.5, "int8", "one")
BUILT_VARIANT = replace(VARIANT, parameters=(("width", 1),))
BEHIND_PRUNE = {"prune", "convert", "analyse"}
BEHIND_REFERENCE = {"reference", "convert", "analyse"}
ALL = BEHIND_PRUNE | BEHIND_REFERENCE


def chain(
    spec: SweepSpec = SPEC,
    variant: Variant = VARIANT,
    files: dict[str, InputFile] = FILES,
    versions: dict[str, str] = VERSIONS,
) -> tuple[Job, ...]:
    return VariantJobs(spec, files, versions).of(variant)


def keys(*args: Any, **kwargs: Any) -> dict[str, str]:
    return {job.kind: job.key for job in chain(*args, **kwargs)}


@cache
def usual_keys() -> dict[str, str]:
    return keys()


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    assert list(before) == list(after)
    return {kind for kind in before if before[kind] != after[kind]}


def other_file(file: InputFile) -> InputFile:
    return replace(file, sha256="0" * 64)


# Every field of the specification, how it is changed, and the kinds of job that are then other ones. A field of files
# is its path: what is in them has a table of its own.
FIELDS: dict[str, list[tuple[Callable[[SweepSpec], SweepSpec], set[str]]]] = {
    "name": [(lambda spec: replace(spec, name="another"), set())],
    "model": [(lambda spec: replace(spec, model=Path("elsewhere/m.h5")), set())],
    "builder": [],  # below
    "precisions": [(lambda spec: replace(spec, precisions=("int8",)), set())],
    "targets": [
        (lambda spec: replace(spec, targets=spec.targets[:1]), set()),
        (lambda spec: replace(spec, targets=(TargetSpec("one", "cortex-m3"),)), {"analyse"}),
        (lambda spec: replace(spec, targets=(TargetSpec("one", "Cortex_M4"),)), set()),
        (
            lambda spec: replace(spec, targets=(TargetSpec("one", "cortex-m4", overrides=(("clock_hz", 10**6),)),)),
            {"analyse"},
        ),
    ],
    "pruning": [
        (lambda spec: replace(spec, pruning=replace(spec.pruning, levels=(0.5,))), set()),
        (lambda spec: replace(spec, pruning=replace(spec.pruning, method="batch-norm")), BEHIND_PRUNE),
        (lambda spec: replace(spec, pruning=replace(spec.pruning, exclude=("head",))), BEHIND_PRUNE),
        (lambda spec: replace(spec, pruning=replace(spec.pruning, exclude=("word_*", "head", "head"))), set()),
    ],
    "fine_tune": [
        (lambda spec: replace(spec, fine_tune=None), BEHIND_PRUNE),
        (lambda spec: replace(spec, fine_tune=FineTune(Path("elsewhere.npz"))), set()),
        (lambda spec: replace(spec, fine_tune=FineTune(Path("t.npz"), epochs=2)), BEHIND_PRUNE),
        (lambda spec: replace(spec, fine_tune=FineTune(Path("t.npz"), learning_rate=0.1)), BEHIND_PRUNE),
        (lambda spec: replace(spec, fine_tune=FineTune(Path("t.npz"), batch_size=8)), BEHIND_PRUNE),
        (lambda spec: replace(spec, fine_tune=FineTune(Path("t.npz"), loss="mse")), BEHIND_PRUNE),
    ],
    "calibration": [(lambda spec: replace(spec, calibration=Path("elsewhere/c.npz")), set())],
    "evaluate": [(lambda spec: replace(spec, evaluate=Path("elsewhere/e.npz")), set())],
    "mean": [(lambda spec: replace(spec, mean=(1.0,)), ALL), (lambda spec: replace(spec, mean=None), set())],
    "std": [(lambda spec: replace(spec, std=(2.0,)), ALL)],
    "scale": [(lambda spec: replace(spec, scale=(2.0, 3.0)), ALL)],
    "offset": [(lambda spec: replace(spec, offset=(1.0,)), ALL)],
    "samples": [(lambda spec: replace(spec, samples=7), set())],  # there is calibration data
    "seed": [(lambda spec: replace(spec, seed=7), BEHIND_PRUNE)],
    "strategy": [(lambda spec: replace(spec, strategy="search"), set())],
    "search": [(lambda spec: replace(spec, search=Search(trials=3)), set())],
    "limits": [
        (lambda spec: replace(spec, limits=SweepLimits((MemoryBudget("1KiB", 1024),), max_latency_ms=1.0)), set())
    ],
    "trust_model_code": [(lambda spec: replace(spec, trust_model_code=True), ALL)],
    "job_seconds": [(lambda spec: replace(spec, job_seconds=1.0), set())],
    "optimize": [(lambda spec: replace(spec, optimize=(False, True)), set())],
    "max_extra_macs": [(lambda spec: replace(spec, max_extra_macs=(0.0, 5.0)), set())],
}


def test_the_table_has_every_field() -> None:
    assert set(FIELDS) == {item.name for item in fields(SweepSpec)}


@pytest.mark.parametrize(
    ("change", "expected"),
    [pytest.param(*row, id=f"{name} {number}") for name, rows in FIELDS.items() for number, row in enumerate(rows)],
)
def test_a_field_changes_the_keys_of_what_it_decides(
    change: Callable[[SweepSpec], SweepSpec], expected: set[str]
) -> None:
    spec = change(SPEC)
    files = {role: file for role, file in FILES.items() if role != "fine_tune" or spec.fine_tune is not None}
    assert changed(usual_keys(), keys(spec, files=files)) == expected


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("model", ALL),
        ("calibration", BEHIND_REFERENCE),
        ("evaluate", BEHIND_REFERENCE),
        ("fine_tune", BEHIND_PRUNE),
    ],
)
def test_the_content_of_a_file_counts_and_its_place_and_name_do_not(role: str, expected: set[str]) -> None:
    file = FILES[role]
    assert changed(usual_keys(), keys(files={**FILES, role: other_file(file)})) == expected
    assert changed(usual_keys(), keys(files={**FILES, role: replace(file, path=Path("/other"))})) == set()
    renamed = replace(file, name=f"other{Path(file.name).suffix.upper()}")
    assert changed(usual_keys(), keys(files={**FILES, role: renamed})) == set()
    assert changed(usual_keys(), keys(files={**FILES, role: replace(file, name="x.keras")})) == expected


@pytest.mark.parametrize("role", ["calibration", "evaluate"])
def test_data_left_out_is_another_job(role: str) -> None:
    files = {name: file for name, file in FILES.items() if name != role}
    assert changed(usual_keys(), keys(replace(SPEC, **{role: None}), files=files)) == BEHIND_REFERENCE


def test_without_calibration_data_the_samples_are_made_from_number_and_seed() -> None:
    files = {role: file for role, file in FILES.items() if role not in ("calibration", "evaluate", "fine_tune")}
    spec = replace(SPEC, calibration=None, evaluate=None, fine_tune=None)
    before = keys(spec, files=files)
    assert changed(before, keys(replace(spec, samples=7), files=files)) == BEHIND_REFERENCE
    assert changed(before, keys(replace(spec, seed=7), files=files)) == BEHIND_REFERENCE
    # ... to which no mean applies, as there is nothing else it could apply to.
    assert changed(before, keys(replace(spec, mean=(1.0,)), files=files)) == set()


def test_level_0_is_the_users_file_itself_and_knows_nothing_of_pruning() -> None:
    plain = replace(VARIANT, level=0.0)
    jobs = chain(variant=plain)
    assert [job.kind for job in jobs] == ["reference", "convert", "analyse"]
    assert jobs[0].inputs["model"] == jobs[1].inputs["model"] == FILES["model"]
    spec = replace(SPEC, fine_tune=None, pruning=Pruning((0.0,), "batch-norm"))
    assert changed(keys(variant=plain), keys(spec, plain)) == set()


def test_variants_share_what_they_have_in_common() -> None:
    base = keys()
    assert changed(base, keys(variant=replace(VARIANT, target="two"))) == {"analyse"}
    assert changed(base, keys(variant=replace(VARIANT, precision="float32"))) == {"convert", "analyse"}
    assert changed(base, keys(variant=replace(VARIANT, level=0.25))) == BEHIND_PRUNE
    assert changed(base, keys(variant=replace(VARIANT, precision="int8-dense-per-tensor"))) == {"convert", "analyse"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda builder: replace(builder, function="other"), {"build"} | ALL),
        (lambda builder: replace(builder, module="other"), {"build"} | ALL),
        (lambda builder: replace(builder, path=Path("elsewhere/model.py"), files=(Path("x/blocks.py"),)), set()),
        (lambda builder: replace(builder, parameters=(("width", (1, 2, 3)),)), set()),
    ],
)
def test_a_builder_is_known_by_what_is_called(change: Callable[[Builder], Builder], expected: set[str]) -> None:
    before = keys(BUILT, BUILT_VARIANT, BUILT_FILES)
    assert list(before) == ["build", "prune", "reference", "convert", "analyse"]
    assert changed(before, keys(replace(BUILT, builder=change(BUILDER)), BUILT_VARIANT, BUILT_FILES)) == expected


def test_a_builder_is_known_by_its_files_parameters_and_seed() -> None:
    before = keys(BUILT, BUILT_VARIANT, BUILT_FILES)
    for role in ("builder", "builder_file:blocks.py"):
        files = {**BUILT_FILES, role: other_file(BUILT_FILES[role])}
        assert changed(before, keys(BUILT, BUILT_VARIANT, files)) == {"build"} | ALL
    for value in (2, 1.0, True, "1"):
        variant = replace(BUILT_VARIANT, parameters=(("width", value),))
        assert changed(before, keys(BUILT, variant, BUILT_FILES)) == {"build"} | ALL, value
    assert changed(before, keys(replace(BUILT, seed=1), BUILT_VARIANT, BUILT_FILES)) == {"build"} | ALL


@pytest.mark.parametrize("package", VERSIONS)
def test_another_version_changes_the_jobs_that_depend_on_it(package: str) -> None:
    before = keys(BUILT, BUILT_VARIANT, BUILT_FILES)
    after = keys(BUILT, BUILT_VARIANT, BUILT_FILES, {**VERSIONS, package: "7"})
    users = {kind for kind, packages in PACKAGES.items() if package in packages}
    assert users <= changed(before, after)
    first = next(kind for kind in before if kind in users)
    assert changed(before, after) - users <= set(list(before)[list(before).index(first) :])
    job = chain(BUILT, BUILT_VARIANT, BUILT_FILES)[0]
    assert job.request["versions"] == {name: VERSIONS[name] for name in PACKAGES["build"]}


def test_a_missing_package_has_no_version() -> None:
    without = {name: version for name, version in VERSIONS.items() if name != "ortools"}
    assert changed(usual_keys(), keys(versions=without)) == {"analyse"}


def test_a_target_is_known_by_what_it_is() -> None:
    def analysis(*targets: TargetSpec) -> list[str]:
        chains = VariantJobs(replace(SPEC, targets=targets), FILES, VERSIONS)
        return [chains.of(replace(VARIANT, target=target.label))[-1].key for target in targets]

    named, copied = analysis(TargetSpec("one", "cortex-m4"), TargetSpec("two", "cortex-m4"))
    assert named == copied
    own = TargetSpec("own", "a.toml", PROFILE)
    commented = TargetSpec("commented", "elsewhere/b.toml", f"# a comment\n{PROFILE}")
    renamed = TargetSpec("renamed", "a.toml", PROFILE.replace("our-board", "their-board"))
    smaller = replace(own, label="smaller", overrides=(("sram_bytes", 65536),))
    found = analysis(own, commented, renamed, smaller)
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert resolved(smaller).sram_bytes == 65536


def test_an_unknown_target_is_reported_before_anything_runs() -> None:
    with pytest.raises(TargetError, match="unknown target"):
        VariantJobs(replace(SPEC, targets=(TargetSpec("x", "no-such-board"),)), FILES, VERSIONS)


@pytest.mark.slow
@given(
    st.sampled_from([0.0, 0.25, 0.5]),
    st.sampled_from(sorted(PRECISIONS)),
    st.sampled_from(["one", "two"]),
    st.booleans(),
)
def test_a_job_comes_after_what_it_needs(level: float, precision: str, target: str, built: bool) -> None:
    spec, files = (BUILT, BUILT_FILES) if built else (SPEC, FILES)
    jobs = VariantJobs(spec, files, VERSIONS).of(Variant((("width", 1),) if built else (), level, precision, target))
    done: set[str] = set()
    for job in jobs:
        assert set(job.needs) <= done
        done.add(job.key)
    assert len(done) == len(jobs)
    assert jobs[-1].kind == "analyse"


def test_variants_that_are_planned_in_another_way_share_all_but_the_analysis() -> None:
    jobs = VariantJobs(SPEC, FILES, VERSIONS)
    planned = [
        replace(VARIANT, optimize=False),
        replace(VARIANT, max_extra_macs=0.0),
        replace(VARIANT, max_extra_macs=5.0),
    ]
    chains = [[job.key for job in jobs.of(variant)] for variant in (VARIANT, *planned)]
    assert len({tuple(keys[:-1]) for keys in chains}) == 1
    assert len({keys[-1] for keys in chains}) == len(chains)
    assert not {"optimize", "max_extra_macs"} & {*jobs.of(VARIANT)[-1].request}


def test_keys_stay_as_they_are() -> None:
    # Another key here makes every store's results unknown: change it with a reason, and tell it in CHANGELOG.md.
    assert [job.key[:16] for job in chain()[:3]] == ["10768b752076ddc7", "0fad2176c7735997", "da1286d042c36c50"]


@pytest.mark.slow
def test_keys_are_those_of_every_process() -> None:
    call = "t.chain(t.BUILT, t.BUILT_VARIANT, t.BUILT_FILES)"
    code = f"from tests.sweep import test_jobs as t; print([job.key for job in {call}])"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{[job.key for job in chain(BUILT, BUILT_VARIANT, BUILT_FILES)]}\n"}
