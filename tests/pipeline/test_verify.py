"""verify: what it lets pass, and that it catches each thing that it promises to catch."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edgetool.errors import InvalidModelError, MissingExtraError, UnsupportedModelError, UsageError
from edgetool.execute.run import TESTED
from edgetool.memory.account import ArenaAccount, Peak, Unaccounted
from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, decode_plan, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import verify as verify_module
from edgetool.pipeline.verify import ComparedFiles, choose_files, host_platform, verify_model
from edgetool.report.document import CheckInfo, VerifyInfo
from edgetool.target.load import DEFAULT_RUNTIME, load_target
from tests.execute import tiny_models
from tests.model.builders import Builder, add_model, conv_model, dense_model, if_model, residual_model

pytest.importorskip("tflite_micro")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.usefixtures("forked_children")

CHECKS = ("planned-runs", "outputs-equal", "arena-used", "arena-sufficient", "arena-smallest")


def saved(folder: Path, model: Model | bytes, name: str = "model.tflite") -> Path:
    path = folder / name
    path.write_bytes(model if isinstance(model, bytes) else write_model(model))
    return path


def verified(path: Path, *, samples: int = 3, **options: object) -> VerifyInfo:
    report = verify_model(path, samples=samples, **options)  # type: ignore[arg-type]
    assert report.verify is not None
    unsafe = ("plan-safe",) if report.findings else ()
    assert tuple(check.check for check in report.verify.checks) == CHECKS + unsafe
    return report.verify


def results(info: VerifyInfo) -> dict[str, bool | None]:
    return {check.check: check.passed for check in info.checks}


def check(info: VerifyInfo, name: str) -> CheckInfo:
    return next(item for item in info.checks if item.check == name)


def with_offsets(model: Model, offsets: dict[tuple[int, int], int]) -> Model:
    return with_metadata(model, METADATA_NAME, encode_plan(model, offsets))


def stacked_plan(model: Model) -> dict[tuple[int, int], int]:
    """Every tensor in a place of its own."""
    offsets, top = {}, 0
    for buffer in layout_problem(model, timeline(model)).buffers:
        offsets[buffer.subgraph, buffer.tensor] = top
        top += buffer.aligned_bytes
    return offsets


ALL_PASS = dict.fromkeys(CHECKS, True)


@pytest.mark.slow
@pytest.mark.parametrize("make", [conv_model, dense_model, add_model, residual_model, if_model])
def test_a_model_with_our_plan_passes(make: Callable[[], Model], tmp_path: Path) -> None:
    model = make()
    info = verified(saved(tmp_path, model))
    assert (info.passed, results(info)) == (True, ALL_PASS), info.checks
    arena = info.arena
    assert arena.predicted_bytes >= arena.predicted_used_bytes == arena.used_bytes
    assert arena.predicted_used_bytes == arena.predicted_head_bytes + arena.predicted_tail_bytes
    assert (info.samples.random, info.samples.from_file) == (3, 0)
    assert info.planner in ("edgetool", "runtime")
    assert (info.original.sha256 == info.planned.sha256) == (info.planner == "runtime")
    (litert,) = info.runtimes
    assert litert.not_run is None
    assert len(litert.outputs) == len(model.main.outputs)


def test_a_plan_in_the_file_is_compared_with_the_file_without_it(tmp_path: Path) -> None:
    model = residual_model()
    path = saved(tmp_path, with_offsets(model, stacked_plan(model)))
    info = verified(path)
    assert (info.planner, results(info)) == ("file", ALL_PASS)
    assert info.planned.bytes == path.stat().st_size
    files = choose_files(path, None, original=None, run_unsafe_plan=False)
    assert decode_plan(files.original.model) is None
    assert files.original.model.subgraphs == model.subgraphs
    assert info.arena.head_bytes == sum(b.aligned_bytes for b in layout_problem(model, timeline(model)).buffers)


@pytest.mark.slow
def test_the_target_decides_the_plan(tmp_path: Path) -> None:
    path = saved(tmp_path, residual_model())
    for name in ("cortex-m7", "cortex-m55"):
        report = verify_model(path, load_target(name), samples=2)
        assert report.verify is not None
        assert results(report.verify) == ALL_PASS
        assert report.target is not None
        assert report.target.name == name
        assert report.verify.arena.abi == "x86-64"


def overlapping(model: Model) -> Model:
    """The model with a plan that lays one live tensor 16 bytes into another."""
    offsets = stacked_plan(model)
    buffers = layout_problem(model, timeline(model)).buffers
    for low, high in pairwise(buffers):
        if low.lifetime.overlaps(high.lifetime) and low.size_bytes >= 32:
            offsets[high.subgraph, high.tensor] -= 16
            return with_offsets(model, offsets)
    raise AssertionError("no two neighbours live at once")


@pytest.mark.slow
@pytest.mark.parametrize("make", [add_model, conv_model, residual_model])
def test_a_corrupted_plan_is_rejected_and_changes_outputs_when_forced(
    make: Callable[[], Model], tmp_path: Path
) -> None:
    path = saved(tmp_path, overlapping(make()))
    with pytest.raises(InvalidModelError, match="overlap") as caught:
        verify_model(path)
    assert caught.value.exit_code == 3
    assert "--run-unsafe-plan" in str(caught.value)
    report = verify_model(path, run_unsafe_plan=True)
    assert report.verify is not None
    assert not report.verify.passed
    outputs = check(report.verify, "outputs-equal")
    assert outputs.passed is False
    assert outputs.difference is not None
    assert "random sample 0" in outputs.message
    assert outputs.difference.original != outputs.difference.planned
    assert [(finding.rule, finding.level) for finding in report.findings] == [("unsafe-plan", "warning")]


def test_an_unsafe_plan_is_never_verified_even_where_no_damage_shows(tmp_path: Path) -> None:
    model = residual_model()
    offsets = {key: offset + 8 for key, offset in stacked_plan(model).items()}
    report = verify_model(saved(tmp_path, with_offsets(model, offsets)), run_unsafe_plan=True)
    assert report.verify is not None
    assert results(report.verify)["outputs-equal"] is True
    assert results(report.verify)["plan-safe"] is False
    assert not report.verify.passed


def variable_in_the_head(apart: bool) -> bytes:
    """SVDF whose state a plan moves to the head: under the input, or apart from everything."""
    model = read_model(tiny_models.last_three(4))
    state = next(tensor for tensor in model.main.tensors if tensor.is_variable)
    offsets = stacked_plan(model)
    offsets[0, state.index] = 1024 if apart else offsets[0, model.main.inputs[0]]
    return write_model(with_offsets(model, offsets))


def test_state_that_is_lost_shows_in_a_later_invoke(tmp_path: Path) -> None:
    path = saved(tmp_path, variable_in_the_head(apart=False))
    with pytest.raises(InvalidModelError, match="unsafe"):
        verify_model(path)
    info = verified(path, run_unsafe_plan=True)
    assert results(info)["outputs-equal"] is False
    difference = check(info, "outputs-equal").difference
    assert difference is not None
    assert 0 <= difference.sample < 3


@pytest.mark.slow
@pytest.mark.parametrize("blob", [tiny_models.last_three(), variable_in_the_head(apart=True)], ids=["tail", "head"])
def test_a_model_with_state_passes(blob: bytes, tmp_path: Path) -> None:
    assert results(verified(saved(tmp_path, blob), samples=5)) == ALL_PASS


@pytest.mark.slow
def test_an_original_of_another_order_may_be_named(tmp_path: Path) -> None:
    build = Builder(seed=8)
    x = build.activation([1, 8, 8, 4])
    sides = [build.conv(x, 4), build.depthwise(x)]
    model = build.model([x], [build.add(*sides)])
    main = model.main
    swapped = tuple(
        replace(op, index=i) for i, op in enumerate((main.operators[1], main.operators[0], *main.operators[2:]))
    )
    other = replace(model, subgraphs=(replace(main, operators=swapped),))
    original = saved(tmp_path, model, "original.tflite")
    info = verified(saved(tmp_path, other), original=original)
    assert (results(info), info.planner) == (ALL_PASS, "runtime")
    assert (info.original.name, info.planned.name) == ("original.tflite", "model.tflite")


@pytest.mark.slow
def test_a_different_original_is_detected(tmp_path: Path) -> None:
    model = dense_model()
    bias = model.main.tensors[2]
    assert bias.data is not None
    louder = (int.from_bytes(bias.data[:4], "little", signed=True) + 20_000).to_bytes(4, "little", signed=True)
    changed = louder + bias.data[4:]
    tensors = tuple(replace(t, data=changed) if t.index == bias.index else t for t in model.main.tensors)
    data = tuple(changed if i == bias.buffer else payload for i, payload in enumerate(model.data))
    other = replace(model, subgraphs=(replace(model.main, tensors=tensors),), data=data)
    info = verified(saved(tmp_path, model), original=saved(tmp_path, other, "other.tflite"))
    outputs = check(info, "outputs-equal")
    assert outputs.passed is False
    assert outputs.difference is not None
    assert (outputs.difference.output, outputs.difference.element) == ("output_0", (0, 0))
    assert "output 'output_0', element [0, 0]" in outputs.message
    with pytest.raises(UsageError, match=r"inputs are INT8 \[1, 8, 8, 3\]"):
        verify_model(saved(tmp_path, model), original=saved(tmp_path, conv_model(), "conv.tflite"))


def shifted(change: int) -> Callable[..., ComparedFiles]:
    """choose_files with an account whose tail and peak are wrong by so many bytes."""

    def choose(*args: object, **kwargs: object) -> ComparedFiles:
        files = choose_files(*args, **kwargs)  # type: ignore[arg-type]
        account: ArenaAccount = files.account
        peak: Peak = replace(account.peak, tail_bytes=account.peak.tail_bytes + change)
        return replace(files, account=replace(account, peak=peak, tail_bytes=account.tail_bytes + change))

    return choose


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "wrong", "message"),
    [(-16, "arena-sufficient", "does not run in the predicted"), (16, "arena-smallest", "not the smallest")],
)
def test_a_wrong_prediction_is_caught(
    change: int, wrong: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "choose_files", shifted(change))
    info = verified(saved(tmp_path, conv_model()))
    assert results(info) == {**ALL_PASS, "arena-used": False, wrong: False}
    assert message in check(info, wrong).message
    assert "were predicted" in check(info, "arena-used").message


def test_a_lower_bound_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(*args: object, **kwargs: object) -> ComparedFiles:
        files = choose_files(*args, **kwargs)  # type: ignore[arg-type]
        return replace(files, account=replace(files.account, unaccounted=(Unaccounted(0, 0, "MYSTERY"),)))

    monkeypatch.setattr(verify_module, "choose_files", choose)
    info = verified(saved(tmp_path, conv_model()))
    assert info.passed
    assert info.arena.is_lower_bound
    assert results(info) == {
        **ALL_PASS,
        "arena-used": None,
        "arena-sufficient": None,
        "arena-smallest": None,
    }
    assert "lower bound (MYSTERY)" in check(info, "arena-sufficient").message


def test_a_planned_file_that_does_not_run_fails(tmp_path: Path) -> None:
    model = conv_model()
    far = with_offsets(model, {(0, model.main.inputs[0]): 2**30, (0, model.main.outputs[0]): 0})
    info = verified(saved(tmp_path, far))
    assert results(info) == {"planned-runs": False, **dict.fromkeys(CHECKS[1:], None)}
    assert "does not run" in check(info, "planned-runs").message
    assert info.arena.used_bytes is None


def test_a_model_with_an_operator_that_tflm_lacks(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"model\.tflite: TensorFlow Lite Micro cannot prepare") as caught:
        verify_model(saved(tmp_path, tiny_models.gelu()))
    assert caught.value.exit_code == 3
    assert "GELU" in " ".join(caught.value.details)


def fake(folder: Path, package: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that takes the real one's place in the children."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


ABSENT = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"


def test_a_model_that_kills_tflm_is_unsupported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "fake", "tflite_micro", "import os\nos.kill(os.getpid(), 11)", monkeypatch)
    with pytest.raises(UnsupportedModelError, match="SIGSEGV"):
        verify_model(saved(tmp_path, conv_model()))


def test_tflm_must_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "fake", "tflite_micro", ABSENT, monkeypatch)
    with pytest.raises(MissingExtraError, match=r"edgetool\[verify\]"):
        verify_model(saved(tmp_path, conv_model()))


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["0.dev20261009205824", "0.dev20261023182760", "1.0"])
def test_an_arena_of_an_untested_tflm_fails_with_the_cause(
    installed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "installed_version", lambda: installed)
    monkeypatch.setattr(verify_module, "ARENA_STEP", -16)  # more than the prediction: the model runs in it
    report = verify_model(saved(tmp_path, conv_model()))
    assert report.provenance.versions["tflite-micro"] == installed
    assert report.verify is not None
    (failed,) = (check for check in report.verify.checks if check.passed is False)
    assert failed.check == "arena-smallest"
    assert failed.message.endswith(
        f"; tflite-micro {installed} is installed, and the prediction is for {TESTED[0]} to {TESTED[1]}: "
        "pip install 'edgetool[verify]'"
    )


@pytest.mark.slow
def test_a_tested_tflm_is_not_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "ARENA_STEP", -16)
    info = verified(saved(tmp_path, conv_model()))
    (failed,) = (check for check in info.checks if check.passed is False)
    assert "is installed" not in failed.message


def test_the_tested_versions_are_those_that_setup_cfg_installs() -> None:
    text = (Path(__file__).parents[2] / "setup.cfg").read_text(encoding="utf-8")
    assert f"tflite-micro>={TESTED[0]},<={TESTED[1]};" in text


@pytest.mark.slow
def test_a_failure_of_litert_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("ai_edge_litert", "tflite_runtime"):
        fake(tmp_path / "fake", package, ABSENT, monkeypatch)
    info = verified(saved(tmp_path, conv_model()))
    assert results(info) == ALL_PASS
    assert "ai_edge_litert" in (info.runtimes[0].not_run or "")
    assert info.runtimes[0].outputs == ()


@pytest.mark.slow
def test_litert_is_at_most_a_step_from_tflm_and_not_judged(tmp_path: Path) -> None:
    info = verified(saved(tmp_path, tiny_models.dense(16, 64, seed=1)), samples=50)
    assert info.passed
    (output,) = info.runtimes[0].outputs
    assert (output.unit, output.elements, output.max_difference) == ("lsb", 3200, 1)
    assert 0 < output.differing < 32  # TFLM rounds twice here, LiteRT once


@pytest.mark.slow
def test_samples_of_a_file_come_after_the_random_ones(tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, input_0=np.linspace(-1, 1, 4 * 16, dtype=np.float32).reshape(4, 16))
    info = verified(saved(tmp_path, dense_model()), inputs=data)
    assert (info.samples.random, info.samples.from_file) == (3, 4)
    assert "7 consecutive samples" in check(info, "outputs-equal").message
    assert info.runtimes[0].outputs[0].elements == 7 * 10
    np.savez(data, input_0=np.zeros((4, 15), np.float32))
    with pytest.raises(UsageError, match=r"samples of shape \[1, 16\]"):
        verify_model(saved(tmp_path, dense_model()), inputs=data)


@pytest.mark.parametrize("samples", [10**7, 10**30])
def test_more_random_samples_than_memory_holds_are_refused(samples: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="specify fewer"):
        verify_model(saved(tmp_path, residual_model()), samples=samples)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_report(tmp_path: Path) -> None:
    path = saved(tmp_path, overlapping(add_model()))
    one, again, other = (verified(path, seed=seed, run_unsafe_plan=True) for seed in (1, 1, 2))
    assert one == again
    assert check(one, "outputs-equal").difference != check(other, "outputs-equal").difference


def test_an_earlier_version_is_compared_on_the_newest(tmp_path: Path) -> None:
    """The wheel is of the newest version, whatever the firmware links; its kernels then count as untested."""
    path = saved(tmp_path, conv_model())
    for runtime, untested in (("tflm-2023-06", ("reference",)), (DEFAULT_RUNTIME, ())):
        target = load_target("cortex-m7").with_overrides(runtime=runtime, kernels="reference")
        report = verify_model(path, target, samples=1)
        assert report.verify is not None
        assert (report.verify.passed, report.verify.kernels_untested) == (True, untested)


def test_the_host_is_the_wheels_build() -> None:
    platform = host_platform()
    assert (platform.kernels, platform.mve, platform.dsp) == ("reference", False, False)
    assert platform.abi.pointer_bytes == 8


@pytest.mark.parametrize(
    "name",
    [
        "tflm/trained_lstm",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("tflm/keyword_scrambled", "mlperf/kws_ref_model", "made/inception_mimo")
        ),
    ],
)
def test_real_models_pass(name: str, shared: Path) -> None:
    info = verified(shared / f"data/models/{name}.tflite")
    assert results(info) == ALL_PASS, info.checks
