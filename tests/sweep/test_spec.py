"""A sweep.toml: what each key gives, and that whatever is wrong is reported with its file and key before anything runs.

A sweep.toml that is wrong: reported with its file and key before anything runs.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetool.errors import EdgetoolError, SettingsError, UsageError
from edgetool.gate.limits import MemoryBudget
from edgetool.structure import structured
from edgetool.sweep.jobs import resolved
from edgetool.sweep.search import grid
from edgetool.sweep.spec import MAX_GRID, FineTune, Pruning, Search, SweepLimits, SweepSpec, TargetSpec, read_spec
from edgetool.sweep.spec import size_bytes as read_size
from edgetool.target.quantity import format_size
from tests.sweep.spec_texts import BOARD, BUILT, LEAST, WHOLE, read, refused

# What is read.


def test_the_minimal_sweep(folder: Path) -> None:
    spec = read(folder, LEAST)
    assert spec == SweepSpec(
        name="sweep",
        model=folder / "m.h5",
        builder=None,
        precisions=("int8",),
        targets=(TargetSpec("cortex-m4", "cortex-m4"),),
    )


def test_everything(folder: Path) -> None:
    assert read(folder, WHOLE) == SweepSpec(
        name="keywords",
        model=folder / "m.h5",
        builder=None,
        precisions=("float32", "int8-dense-per-tensor"),
        targets=(
            TargetSpec("cortex-m0plus", "cortex-m0plus"),
            TargetSpec(
                "my-board",
                "sub/my-board.toml",
                BOARD,
                (("clock_hz", 80_000_000), ("sram_bytes", 131_072), ("kernels", "reference")),
            ),
        ),
        pruning=Pruning((0.0, 0.25, 0.5), "batch-norm", ("word", "head_*")),
        fine_tune=FineTune(folder / "t.npz", epochs=3, learning_rate=0.01, batch_size=8, loss="mse"),
        calibration=folder / "sub",
        evaluate=folder / "e.npz",
        mean=(127.5,),
        std=(1.0, 2.5),
        samples=50,
        seed=7,
        strategy="search",
        search=Search(trials=12, batch=3, objectives=("sqnr_db", "arena_bytes")),
        limits=SweepLimits(
            budgets=(
                MemoryBudget("64KiB", 65536),
                MemoryBudget("256KiB", 262_144, "flash"),
                MemoryBudget("65536", 65536),
            ),
            active_budget=MemoryBudget("64KiB", 65536, "ram"),
            reserve_bytes=16384,
            reserve_flash_bytes=1024,
            max_latency_ms=50.0,
            max_energy_uj=1200.0,
            min_accuracy=0.9,
            max_accuracy_loss=2.0,
        ),
        job_seconds=1800.0,
    )


def test_plans_vary(folder: Path) -> None:
    found = read(folder, 'model = "m.h5"\ntargets = ["cortex-m4"]\noptimize = [false, true]\nmax_extra_macs = [0, 2.5]')
    assert (found.optimize, found.max_extra_macs) == ((False, True), (0.0, 2.5))


def test_what_normalises_may_be_for_fine_tuning_alone(folder: Path) -> None:
    spec = read(folder, f'mean = 127.5\nstd = 2\n{LEAST}[fine_tune]\ndata = "t.npz"')
    assert (spec.mean, spec.std, spec.calibration, spec.evaluate) == ((127.5,), (2.0,), None, None)


def test_a_builder(folder: Path) -> None:
    spec = read(folder, f'builder_files = ["blocks.py"]\n{BUILT}', trust_model_code=True)
    assert spec.builder is not None
    assert (spec.builder.path, spec.builder.module, spec.builder.function) == (folder / "build.py", "build", "make")
    assert spec.builder.files == (folder / "blocks.py",)
    assert spec.builder.parameters == (("width", (0.5, 1)), ("name", ("a",)), ("flag", (True,)))
    assert [type(value) for _, values in spec.builder.parameters for value in values] == [float, int, str, bool]
    assert spec.trust_model_code
    assert len(grid(spec)) == 2


def test_a_builder_needs_trust(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"build\.py would be run.*--trust-model-code") as caught:
        read(folder, BUILT)
    assert str(caught.value.where).endswith("sweep.toml: builder")
    with pytest.raises(SettingsError) as asked:
        read(folder, f"trust_model_code = true\n{BUILT}")
    assert asked.value.fix == "pass --trust-model-code to 'edgetool sweep run'"


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub" / "s.toml").write_text('model = "../m.h5"\ntargets = ["my-board.toml", "./my-board.toml"]')
    monkeypatch.chdir(folder)
    with pytest.raises(SettingsError, match="'my-board' is listed twice"):
        read_spec(Path("sub/s.toml"))
    (folder / "sub" / "s.toml").write_text(f'model = "../m.h5"\ntargets = ["my-board.toml"]\nevaluate="{folder}/e.npz"')
    spec = read_spec(Path("sub/s.toml"))
    assert spec.model == Path("sub/../m.h5")
    assert spec.evaluate == folder / "e.npz"


def test_a_byte_order_mark_and_crlf_are_text(folder: Path) -> None:
    (folder / "sweep.toml").write_bytes(b"\xef\xbb\xbf" + LEAST.replace("\n", "\r\n").encode())
    assert read_spec(folder / "sweep.toml").precisions == ("int8",)


def test_levels_are_sorted_and_have_no_negative_zero(folder: Path) -> None:
    levels = read(folder, LEAST + "[pruning]\nlevels = [0.75, -0.0, 0.5]").pruning.levels
    assert [str(level) for level in levels] == ["0.0", "0.5", "0.75"]


@pytest.mark.parametrize(
    ("text", "value"), [('"90%"', 0.9), ("0.9", 0.9), ("1", 1.0), ("0", 0.0), ('"97.3 %"', 0.973), ('"100%"', 1.0)]
)
def test_accuracy_is_a_share_or_percent(folder: Path, text: str, value: float) -> None:
    assert read(folder, f"min_accuracy = {text}\n{LEAST}").limits.min_accuracy == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(("text", "seconds"), [('"1h"', 3600), ("90", 90), ("0.5", 0.5), ('"2 min"', 120)])
def test_a_job_has_its_time(folder: Path, text: str, seconds: float) -> None:
    assert read(folder, f"job_timeout = {text}\n{LEAST}").job_seconds == seconds


# Targets.


@pytest.mark.parametrize(
    ("targets", "labels"),
    [
        ('"cortex-m4", "CORTEX_M7"', ["cortex-m4", "cortex-m7"]),
        ('"cortex-m4", {name = "cortex-m4", clock = "80MHz"}', ["cortex-m4", "cortex-m4 80MHz"]),
        (
            '{name = "cortex-m4", clock = 80000000}, {name = "cortex-m4", clock = "80MHz", sram = "64KiB"}',
            ["cortex-m4 80000000 Hz", "cortex-m4 80MHz sram 64KiB"],
        ),
        ('{name = "cortex-m4", label = "slow", clock = "1MHz"}, "cortex-m4"', ["slow", "cortex-m4"]),
        (
            '"cortex-m4", {name = "cortex-m4", runtime = "native", row_input = true, incremental = 2}',
            ["cortex-m4", "cortex-m4 runtime native row_input incremental 2"],
        ),
        ('{name = "cortex-m4", kernels = "reference"}', ["cortex-m4"]),
        ('"nucleo-l4r5zi", "sub/my-board.toml"', ["nucleo-l4r5zi", "my-board"]),
    ],
)
def test_labels(folder: Path, targets: str, labels: list[str]) -> None:
    spec = read(folder, f'model = "m.h5"\ntargets = [{targets}]')
    assert [target.label for target in spec.targets] == labels


def test_targets_resolve_with_their_overrides(folder: Path) -> None:
    spec = read(
        folder,
        'model = "m.h5"\ntargets = ["sub/my-board.toml",'
        '{name = "nucleo-h743zi2", arena_region = "dtcm", clock = "2MHz"},'
        '{name = "cortex-m4", sram = "64KiB", flash = 1000000}]',
    )
    board, overridden, core = (resolved(target) for target in spec.targets)
    assert (board.name, board.clock_hz) == ("my-board", 60_000_000)
    assert (overridden.clock_hz, overridden.arena_region_name) == (2_000_000, "dtcm")
    assert (core.sram_bytes, core.flash_bytes) == (65536, 10**6)


def test_overrides_are_read_back_from_a_store(folder: Path) -> None:
    native = 'runtime = "native", scratch_budget = 0, row_input = true, row_output = true, max_extra_macs = 5'
    native += ', max_weights_per_row = "8KiB"'
    (target,) = read(folder, f'model = "m.h5"\ntargets = [{{name = "cortex-m4", {native}}}]').targets
    assert structured(asdict(target), TargetSpec) == target
    found = resolved(target)
    assert (found.runtime.name, found.scratch_budget_bytes) == ("native", 0)
    assert (found.row_input, found.row_output) == (True, True)
    assert found.max_extra_macs == 5
    assert found.max_weights_per_row_bytes == 8192
    streamed = 'targets = [{name = "cortex-m4", runtime = "native", incremental = 3}]'
    (target,) = read(folder, f'model = "m.h5"\n{streamed}').targets
    assert structured(asdict(target), TargetSpec) == target
    assert resolved(target).incremental == 3


@pytest.mark.parametrize(
    ("target", "key", "said"),
    [
        ('"cortex-m44"', "targets[0].name", "unknown target 'cortex-m44'"),
        ('"none.toml"', "targets[0].name", "none.toml: cannot be read"),
        ('"sub/"', "targets[0].name", "is a directory"),
        ('"x.csv/x.toml"', "targets[0].name", "cannot be read"),
        ('"bad.toml"', "targets[0].name", "bad.toml: clock:"),
        ("3", "targets[0]", "must be a name or a table"),
        ("{}", "targets[0].name", "is missing"),
        ("{name = 4}", "targets[0].name", "must be a string"),
        (
            '{name = "cortex-m4", runtime = "native", incremental = 0}',
            "targets[0].incremental",
            "0 is not a number of rows",
        ),
        ('{name = "cortex-m4", clok = "1MHz"}', "targets[0].clok", "unknown key"),
        ('{name = "cortex-m4", max_extra_macs = "5 %"}', "targets[0].max_extra_macs", "is not a percentage"),
        ('{name = "cortex-m4", clock = "80 MB"}', "targets[0].clock", "is not a clock"),
        ('{name = "cortex-m4", clock = "1Hz"}', "targets[0].clock", "is outside"),
        ('{name = "cortex-m4", clock = 1.5}', "targets[0].clock", "is not a clock"),
        ('{name = "cortex-m4", clock = true}', "targets[0].clock", "is not a clock"),
        ('{name = "cortex-m4", sram = "64K"}', "targets[0].sram", "ambiguous"),
        ('{name = "cortex-m4", sram = -1}', "targets[0].sram", "is not a size"),
        ('{name = "cortex-m4", sram = 0}', "targets[0].sram", "outside"),
        ('{name = "cortex-m4", kernels = "fast"}', "targets[0].kernels", "unknown kernels"),
        ('{name = "cortex-m4", runtime = "tflm-1"}', "targets[0].runtime", "unknown runtime"),
        ('{name = "nucleo-l4r5zi", arena_region = "SRAM9"}', "targets[0].arena_region", "SRAM9"),
        ('{name = "cortex-m4", label = ""}', "targets[0].label", "must be one line"),
        (f'{{name = "cortex-m4", label = "{"x" * 61}"}}', "targets[0].label", "longer than 60"),
    ],
)
def test_targets_refused(folder: Path, target: str, key: str, said: str) -> None:
    (folder / "bad.toml").write_text(BOARD.replace("60MHz", "60MB"))
    found = refused(folder, f'model = "m.h5"\ntargets = [{target}]')
    assert found[0][0] == key
    assert said in found[0][1]


@pytest.mark.parametrize(
    "targets",
    [
        '"cortex-m4", "cortex-m4"',
        '"cortex-m4", "Cortex_M4"',
        '{name = "cortex-m4", clock = "80MHz"}, {name = "cortex-m4", clock = "80MHz"}',
        '{name = "cortex-m4", label = "a"}, {name = "cortex-m7", label = "a"}',
        '"cortex-m7", {name = "cortex-m4", label = "cortex-m7"}',
    ],
)
def test_a_target_is_there_once(folder: Path, targets: str) -> None:
    found = refused(folder, f'model = "m.h5"\ntargets = [{targets}]')
    assert [(found[0][0], "is listed twice" in found[0][1])] == [("targets[1]", True)]


# What is refused.


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        ('modle = "m.h5"', "modle", "unknown key"),
        ('"active-memory-budget" = "1KiB"', "active-memory-budget", "unknown key"),
        ("[prunning]\nlevels = [0]", "prunning", "unknown key"),
        ("[pruning]\nlevel = [0]", "pruning.level", "unknown key"),
        ("[pruning]\nlevels = []", "pruning.levels", "is an empty list"),
        ("[pruning]\nlevels = 0.5", "pruning.levels", "must be a list, not 0.5"),
        ("[pruning]\nlevels = [1.0]", "pruning.levels[0]", "1.0 is not a level"),
        ("[pruning]\nlevels = [0, -0.1]", "pruning.levels[1]", "-0.1 is not a level"),
        ("[pruning]\nlevels = [50]", "pruning.levels[0]", "50 is not a level"),
        ('[pruning]\nlevels = ["50%"]', "pruning.levels[0]", "'50%' is not a level"),
        ("[pruning]\nlevels = [true]", "pruning.levels[0]", "true is not a level"),
        ("[pruning]\nlevels = [false]", "pruning.levels[0]", "false is not a level"),
        ("[pruning]\nlevels = [nan]", "pruning.levels[0]", "nan is not a level"),
        ("[pruning]\nlevels = [-inf]", "pruning.levels[0]", "-inf is not a level"),
        (f"[pruning]\nlevels = [{'9' * 400}]", "pruning.levels[0]", "is not a level"),
        ("[pruning]\nlevels = [0.5, 0.50]", "pruning.levels[1]", "0.5 is listed twice"),
        ("[pruning]\nlevels = [0, 0.0]", "pruning.levels[1]", "0.0 is listed twice"),
        ('[pruning]\nmethod = "l2"', "pruning.method", "'l2' is not one of l1, batch-norm"),
        ("[pruning]\nmethod = 1", "pruning.method", "1 is not one of"),
        ('[pruning]\nexclude = "head"', "pruning.exclude", "must be a list"),
        ("[pruning]\nexclude = [1]", "pruning.exclude[0]", "1 is not a string"),
        ("pruning = 1", "pruning", "must be a table"),
        ("precisions = []", "precisions", "is an empty list"),
        ('precisions = ["int4"]', "precisions[0]", "'int4' is not one of float32"),
        ('precisions = ["int8", "int8"]', "precisions[1]", "listed twice"),
        ('precisions = "int8"', "precisions", "must be a list"),
        ("precisions = [8]", "precisions[0]", "8 is not one of"),
        ('strategy = "random"', "strategy", "'random' is not one of grid, search"),
        ('[search]\nobjectives = ["speed"]', "search.objectives[0]", "'speed' is not one of accuracy"),
        ("[search]\nobjectives = []", "search.objectives", "is an empty list"),
        ('[search]\nobjectives = ["macs", "macs"]', "search.objectives[1]", "listed twice"),
        ("[search]\ntrials = 0", "search.trials", "0 is not an integer from 1"),
        ("[search]\nbatch = 1.5", "search.batch", "1.5 is not an integer"),
        ("[search]\ntrials = true", "search.trials", "true is not an integer"),
        ('calibration = "none.npz"', "calibration", "cannot be read: No such file"),
        ('calibration = ""', "calibration", "is not a path"),
        ("calibration = 1", "calibration", "is not a path"),
        ('calibration = "a\\u0000b"', "calibration", "is not a path"),
        ('calibration = "x.csv/y"', "calibration", "cannot be read"),
        ('evaluate = "x.csv"', "evaluate", "is not an .npz file"),
        ('evaluate = "sub"', "evaluate", "is not an .npz file"),
        ('mean = "1"', "mean", "is not a number"),
        ('calibration = "x.csv"\nmean = []', "mean", "is not a number"),
        ('calibration = "x.csv"\nmean = [nan]', "mean", "is not a number"),
        ('calibration = "x.csv"\nmean = [true]', "mean", "is not a number"),
        ('calibration = "x.csv"\nscale = 0', "scale", "0 would set all data to the same value"),
        ('calibration = "x.csv"\nstd = -1', "std", "is not a valid standard deviation"),
        ('calibration = "x.csv"\nstd = 1\nscale = 1', "std", "mean/std and scale/offset are mutually exclusive"),
        ("mean = 1", "mean", "but none was specified"),
        ("samples = 0", "samples", "0 is not an integer from 1"),
        ("samples = 10.0", "samples", "is not an integer"),
        ("seed = -1", "seed", "-1 is not an integer from 0"),
        ('memory_budgets = "64KiB"', "memory_budgets", "must be a list"),
        ('memory_budgets = ["64K"]', "memory_budgets[0]", "ambiguous"),
        ('memory_budgets = ["64KiB:rom"]', "memory_budgets[0]", "not to 'rom'"),
        ("memory_budgets = [{of = 'ram'}]", "memory_budgets[0]", "the key 'size' is missing"),
        ("memory_budgets = [1.5]", "memory_budgets[0]", "'1.5' is not a budget"),
        ('memory_budgets = ["64KiB", "64KiB"]', "memory_budgets[1]", "listed twice"),
        ("active_memory_budget = true", "active_memory_budget", "is not a budget"),
        ('reserve = "16"\nreserve_flash = "x"', "reserve_flash", "is not a size"),
        ("reserve = -1", "reserve", "is not a size"),
        ("max_latency = 50", "max_latency", "50 is not a time with a unit"),
        ('max_latency = "50"', "max_latency", "is not a time with a unit"),
        ('max_latency = "0ms"', "max_latency", "is too small"),
        ("max_energy = 1.5", "max_energy", "1.5 is not an energy"),
        ('max_energy = "1 kWh"', "max_energy", "is not an energy"),
        ("min_accuracy = 90", "min_accuracy", '90 is not an accuracy such as 0.9 or "90%"'),
        ('min_accuracy = "101%"', "min_accuracy", "is not an accuracy"),
        ('min_accuracy = "0.9"', "min_accuracy", "is not percent"),
        ("min_accuracy = nan", "min_accuracy", "is not an accuracy"),
        ("min_accuracy = true", "min_accuracy", "is not an accuracy"),
        ("max_accuracy_loss = 0.02", "max_accuracy_loss", "0.02 is not percentage points"),
        ('job_timeout = "1 day"', "job_timeout", "is not a time"),
        ("job_timeout = 0", "job_timeout", "is not a number of seconds"),
        ("job_timeout = inf", "job_timeout", "is not a number of seconds"),
        ('name = ""', "name", "must be one line"),
        ('name = "a\\nb"', "name", "must be one line"),
        ("name = 2020-01-01", "name", "must be a string, not a date"),
        ("[fine_tune]\nepochs = 2", "fine_tune.data", "is missing"),
        ('[fine_tune]\ndata = "t.npz"\nepochs = 0', "fine_tune.epochs", "is not an integer from 1"),
        ('[fine_tune]\ndata = "t.npz"\nlearning_rate = 0', "fine_tune.learning_rate", "is not a number from"),
        ('[fine_tune]\ndata = "t.npz"\nlearning_rate = nan', "fine_tune.learning_rate", "is not a number from"),
        ('[fine_tune]\ndata = "t.npz"\nrate = 1', "fine_tune.rate", "unknown key"),
        ('[fine_tune]\ndata = "x.csv"', "fine_tune.data", "is not an .npz file"),
        ("[parameters]\nwidth = [1]", "parameters", "requires a builder, but none is specified"),
        ('builder_files = ["blocks.py"]', "builder_files", "requires a builder"),
        ('builder = "build:make"', "model", "both a model and a builder are specified"),
        ("jobs = 4", "jobs", "cannot be set in the file"),
        ("optimize = true", "optimize", "must be a list"),
        ("optimize = [1]", "optimize[0]", "1 is not true or false"),
        ("max_extra_macs = [-1]", "max_extra_macs[0]", "-1 is not a number from 0 to 400"),
        ("max_extra_macs = [5, 5.0]", "max_extra_macs[1]", "listed twice"),
    ],
)
def test_keys_refused(folder: Path, change: str, key: str, said: str) -> None:
    text = f"{change}\n{LEAST}" if not change.startswith("[") else f"{LEAST}{change}"
    key_found, what, _ = refused(folder, text)[0]
    assert (key_found, said in what) == (key, True), what


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        ("width = 1", "parameters.width", "must be a list, not 1"),
        ("width = []", "parameters.width", "is an empty list"),
        ("width = [nan]", "parameters.width[0]", "nan is not a finite number"),
        ("width = [[1]]", "parameters.width[0]", "is not a finite number"),
        ("width = [07:30:00]", "parameters.width[0]", "is not a finite number"),
        ("width = [1, 1.0]", "parameters.width[1]", "1.0 is listed twice: it equals 1"),
        ("width = [2, 1, true]", "parameters.width[2]", "true is listed twice: it equals 1"),
        ("flag = [false, 0]", "parameters.flag[1]", "0 is listed twice: it equals false"),
        ('"two words" = [1]', "parameters.two words", "is not a valid Python parameter name"),
        ("lambda = [1]", "parameters.lambda", "is not a valid Python parameter name"),
        (f'width = ["{"x" * 1001}"]', "parameters.width[0]", "more than 1000 characters"),
    ],
)
def test_parameters_refused(folder: Path, change: str, key: str, said: str) -> None:
    text = f'builder = "build:make"\ntargets = ["cortex-m4"]\n[parameters]\n{change}'
    key_found, what, _ = refused(folder, text)[0]
    assert (key_found, said in what) == (key, True), what


@pytest.mark.parametrize(
    "builder", ["build", "build:", ":make", "a.b:make", "build.py:make", "build:make()", "../b:m", " "]
)
def test_builders_refused(folder: Path, builder: str) -> None:
    key, what, _ = refused(folder, f'builder = "{builder}"\ntargets = ["cortex-m4"]')[0]
    assert key == "builder"
    assert 'a builder such as "module:function"' in what


def test_a_builder_must_be_there(folder: Path) -> None:
    found = refused(folder, 'builder = "absent:make"\nbuilder_files = ["x.csv"]\ntargets = ["cortex-m4"]')
    assert {key: what for key, what, _ in found}["builder"].find("no absent.py beside") >= 0
    assert any(key == "builder_files[0]" and "is not an .py file" in what for key, what, _ in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targets = ["cortex-m4"]', "neither a model nor a builder"),
        ('model = "none.h5"\ntargets = ["cortex-m4"]', "'none.h5' cannot be read: No such file"),
        ('model = "none.h5"\nbuilder = "build:make"\ntargets = ["cortex-m4"]', "'none.h5' cannot be read"),
        ('model = "m.tflite"\ntargets = ["cortex-m4"]', "is already converted"),
    ],
)
def test_models_refused(folder: Path, text: str, said: str) -> None:
    key, what, _ = refused(folder, text)[0]
    assert (key, said in what) == ("model", True), what


def test_a_saved_model_cannot_be_pruned(folder: Path) -> None:
    text = LEAST.replace("m.h5", "saved")
    assert read(folder, f"{text}[pruning]\nlevels = [0]").model == folder / "saved"
    assert refused(folder, f"{text}[pruning]\nlevels = [0, 0.5]")[0][0] == "pruning.levels"


@pytest.mark.parametrize(
    ("targets", "said"), [("", "is missing"), ("targets = []", "must be a non-empty list of targets")]
)
def test_targets_are_needed(folder: Path, targets: str, said: str) -> None:
    key, what, fix = refused(folder, f'model = "m.h5"\n{targets}')[0]
    assert (key, said in what) == ("targets", True)
    assert fix is not None
    assert "cortex-m4" in fix


def test_a_wrong_key_is_reported_with_the_right_one(folder: Path) -> None:
    assert refused(folder, f'presicions = ["int8"]\n{LEAST}')[0][2] == "did you mean 'precisions'?"
    assert refused(folder, f'precisions = ["int-16x8"]\n{LEAST}')[0][2] == "did you mean 'int16x8'?"


def test_every_problem_is_reported(folder: Path) -> None:
    lines = 'samples = 0\nmax_latency = "1"\nnonsense = 1\nprecisions = ["int3", "int8", "int9"]\n'
    text = f"{lines}{LEAST}[pruning]\nlevels=[2]"
    keys = {key for key, _, _ in refused(folder, text)}
    assert keys == {"samples", "max_latency", "nonsense", "precisions[0]", "precisions[2]", "pruning.levels[0]"}


def test_a_grid_that_is_too_large_is_searched(folder: Path) -> None:
    values = ", ".join(map(str, range(1000)))
    lists = f"width = [\n{values}]\ndepth = {list(range(MAX_GRID // 1000 + 1))}\n"
    text = f'builder = "build:make"\ntargets = ["cortex-m4"]\n[parameters]\n{lists}'
    key, what, fix = refused(folder, text)[0]
    assert (key, "101,000 variants" in what) == ("strategy", True)
    assert fix is not None
    assert 'strategy = "search"' in fix
    assert read(folder, f'strategy = "search"\n{text}', trust_model_code=True).strategy == "search"


# Files that are none.


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = \n", r"is not valid TOML: .*line 1"),
        (b'name = "a"\nname = "b"\n', r"is not valid TOML: .*line 2"),
        (b"\xff\xfe[\x00", "is not a UTF-8 text file"),
        (b"a = " + b"[" * 3000, "is not valid TOML: nested too deeply"),
        (b"a" + b".a" * 4000 + b" = 1", "is not valid TOML: nested too deeply"),
        (b"# \n" * 2**19, "is larger than 1,048,576 bytes"),
        (b"", "neither a model nor a builder"),
    ],
)
def test_files_refused(folder: Path, content: bytes, said: str) -> None:
    path = folder / "sweep.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        read_spec(path)
    assert str(path) in str(caught.value.where)
    assert caught.value.fix


def test_paths_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        read_spec(folder)
    with pytest.raises(UsageError, match=r"No such file.*a sweep\.toml"):
        read_spec(folder / "none.toml")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")
        with pytest.raises(UsageError, match="is a pipe"):
            read_spec(folder / "pipe")
        assert "is a pipe" in refused(folder, LEAST.replace("m.h5", "pipe"))[0][1]


TOML_VALUES = st.sampled_from(
    'true|-1|0|1e400|nan|"x"|""|"1%"|"64KiB"|[]|[[]]|{}|{name = "cortex-m4"}|["m.h5"]|[1, "a"]|1979-05-27'.split("|")
)
KEYS = st.sampled_from(
    """
    name model builder builder_files precisions targets calibration evaluate mean std scale offset samples seed
    strategy memory_budgets active_memory_budget reserve reserve_flash max_latency max_energy min_accuracy
    max_accuracy_loss job_timeout pruning fine_tune parameters search odd pruning.levels pruning.method
    pruning.exclude fine_tune.data fine_tune.epochs fine_tune.loss search.trials search.objectives parameters.width
    """.split()
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, TOML_VALUES, max_size=6))
def test_any_values_are_read_or_reported(folder: Path, values: dict[str, str]) -> None:
    path = folder / "sweep.toml"
    path.write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
    try:
        spec: SweepSpec | EdgetoolError = read_spec(path, trust_model_code=True)
    except EdgetoolError as error:
        spec = error
    if isinstance(spec, EdgetoolError):
        assert (spec.exit_code, "sweep.toml" in str(spec.where)) == (2, True)
    else:
        assert spec.targets


@given(st.integers(0, 2**40))
def test_displayed_reserves_can_be_parsed(size_bytes: int) -> None:
    assert read_size(format_size(size_bytes)) == read_size(size_bytes) == size_bytes
