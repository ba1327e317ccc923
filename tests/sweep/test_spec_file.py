"""A sweep.toml: what each key gives, and that whatever is wrong is told with its file and key before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.errors import SettingsError, UsageError
from edgetool.gate.limits import Budget
from edgetool.sweep.search import grid
from edgetool.sweep.spec import FineTune, Pruning, Search, SweepLimits, SweepSpec, TargetSpec, read_spec
from edgetool.sweep.targets import resolved
from tests.sweep.spec_texts import BOARD, BUILT, LEAST, WHOLE, read

# What is read.


def test_the_least(folder: Path) -> None:
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
            budgets=(Budget("64KiB", 65536), Budget("256KiB", 262_144, "flash"), Budget("65536", 65536)),
            active_budget=Budget("64KiB", 65536, "ram"),
            reserve_bytes=16384,
            reserve_flash_bytes=1024,
            max_latency_ms=50.0,
            max_energy_uj=1200.0,
            min_accuracy=0.9,
            max_accuracy_loss=2.0,
        ),
        job_seconds=1800.0,
    )


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
