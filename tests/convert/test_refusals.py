"""What is refused, by name and before the work, and what becomes of a child that dies, hangs or is abandoned.

No refusal where one form of the recurrent layers works.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgetool.child import ProcessLimits
from edgetool.convert import worker
from edgetool.convert.quantizer import LayerMap
from edgetool.convert.tflite import ConverterOptions, Order
from edgetool.convert.worker import ConvertedModel, convert_loaded
from edgetool.errors import (
    CalibrationError,
    ConversionError,
    EdgetoolError,
    InvalidModelError,
    MissingExtraError,
    UnsupportedModelError,
    UsageError,
)
from tests.convert.conftest import Convert

process_tree = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(),  # kernels may be built without it
    reason="reads the process tree from /proc",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("lambda.keras", UnsupportedModelError, r"layer 'doubler' \(Lambda\).*--trust-model-code"),
        ("lambda.h5", UnsupportedModelError, r"layer 'doubler' \(Lambda\).*--trust-model-code"),
        ("own_class.keras", UnsupportedModelError, r"layer 'mine' \(Own\).*not part of Keras"),
        ("own_class.h5", UnsupportedModelError, r"layer 'mine' \(Own\).*not part of Keras"),
        ("own_function.keras", UnsupportedModelError, r"layer 'wavy'.*'wave'"),
        ("operators.h5", UnsupportedModelError, r"GetItem.*save the model as \.keras"),
        ("small.weights.h5", InvalidModelError, "only weights"),
    ],
)
def test_refusals_come_before_anything_heavy_is_loaded(
    models: Path, convert: Convert, name: str, kind: type[EdgetoolError], said: str
) -> None:
    steps: list[str] = []
    with pytest.raises(kind, match=said) as caught:
        convert(models / name, progress=steps.append, fresh=True)
    assert steps == ["reading the model"]
    assert caught.value.exit_code == 3
    assert str(models / name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dynamic.keras", r"input 'series'.*\(None, 3\).*--input-shape series=SIZE,3"),
        ("batch_of_eight", "input 'features' is fixed to a batch of 8"),
        ("looping", r"looping: the graph contains a loop \('.*while.*'\).*--quantize float32"),
        ("writer", r"WriteFile.*--trust-model-code"),
        ("no_signature", "has no signature.*model.export"),
    ],
)
def test_unsupported_models_are_reported(models: Path, convert: Convert, name: str, said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said):
        convert(models / name)
    assert not Path("written-by-the-model").exists()


def test_a_raw_tensorflow_call_is_loaded_by_tf_keras_and_told(models: Path, convert: Convert) -> None:
    if not (models / "legacy_raw_call.h5").exists():
        pytest.skip("needs tf_keras to write the file")
    made = convert(models / "legacy_raw_call.h5")
    assert any("tf_keras" in note and "tf.math.sin" in note for note in made.notes)


@pytest.mark.slow
def test_trust_does_not_bring_a_missing_class(models: Path, convert: Convert) -> None:
    with pytest.raises(UnsupportedModelError, match=r"layer 'mine'.*'Own'"):
        convert(models / "own_class.keras", trust_model_code=True)


@pytest.mark.slow
def test_an_operator_without_counterpart_is_named(models: Path, convert: Convert) -> None:
    with pytest.raises(ConversionError, match="no built-in operator for Erfinv") as caught:
        convert(models / "without_counterpart.keras", fresh=True)  # only a child has a log
    assert caught.value.details
    assert caught.value.exit_code == 4


def test_damaged_weights_are_reported(models: Path, convert: Convert, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "small.h5"
    path.write_bytes((models / "small.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        del file["model_weights/scores"]
    with pytest.raises(UnsupportedModelError, match="cannot load"):
        convert(path)


def test_missing_files_are_wrong_usage(models: Path, convert: Convert, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        convert(tmp_path / "none.h5")
    with pytest.raises(CalibrationError, match="no such file"):
        convert(models / "small.keras", calibration=tmp_path / "none.npy")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_data_that_would_kill_the_converter_is_refused_first(
    models: Path, convert: Convert, tmp_path: Path, value: float
) -> None:
    pictures = np.zeros((5, 8, 8, 3), np.float32)
    pictures[3, 1, 2, 0] = value
    np.save(tmp_path / "x.npy", pictures)
    with pytest.raises(CalibrationError, match=r"x\.npy sample 3.*\(1, 2, 0\)") as caught:
        convert(models / "small.keras", calibration=tmp_path / "x.npy")
    assert caught.value.exit_code == 2


@pytest.mark.slow
def test_mistakes_in_evaluation_data_are_reported_before_the_work(
    models: Path, convert: Convert, tmp_path: Path
) -> None:
    np.savez(tmp_path / "test.npz", x=np.zeros((4, 9, 8, 3)), y=np.zeros(4))
    steps: list[str] = []
    with pytest.raises(CalibrationError, match=r"\(N, 8, 8, 3\)"):
        convert(models / "small.keras", evaluate=tmp_path / "test.npz", progress=steps.append)
    assert "converting" not in steps


@pytest.mark.slow
def test_labels_beyond_the_classes_are_reported_before_the_work(models: Path, convert: Convert, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(6, 8, 8, 3))
    np.savez(tmp_path / "test.npz", x=x, y=np.arange(6))
    steps: list[str] = []
    with pytest.raises(CalibrationError, match="y has labels outside the range 0 to 4") as caught:
        convert(models / "small.keras", evaluate=tmp_path / "test.npz", progress=steps.append)
    assert caught.value.where == str(tmp_path / "test.npz")
    assert "converting" not in steps


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
def test_data_of_one_value_is_refused_and_told_by_input(
    models: Path, convert: Convert, tmp_path: Path, value: float, quantize: str
) -> None:
    np.save(tmp_path / "x.npy", np.full((5, 8, 8, 3), value))
    with pytest.raises(CalibrationError, match=f"x.npy: input 'picture' is {value:g} in all samples.*real inputs"):
        convert(models / "small.keras", calibration=tmp_path / "x.npy", quantize=quantize)


def test_constant_data_is_accepted_for_a_float_model(models: Path, convert: Convert, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 8, 8, 3)))
    assert convert(models / "small.keras", calibration=tmp_path / "x.npy", quantize="float32").samples == 5


def test_messages_name_paths_as_they_were_given(
    models: Path, convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((5, 8, 8, 2)))
    Path("model.keras").symlink_to(models / "lambda.keras")
    with pytest.raises(CalibrationError) as caught:
        convert(models / "small.keras", calibration=Path("x.npy"))
    assert caught.value.where == "x.npy"
    with pytest.raises(UnsupportedModelError) as refused:
        convert(Path("model.keras"))
    assert refused.value.where == "model.keras"


def test_a_path_that_leads_nowhere_is_wrong_usage(models: Path, convert: Convert, tmp_path: Path) -> None:
    loop = tmp_path / "loop.keras"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="symbolic link"):
        convert(loop)


# ---- a child that dies, hangs or is abandoned


def test_a_dead_child_is_a_conversion_error(models: Path, convert: Convert, tmp_path: Path) -> None:
    def kill(step: str) -> None:
        if step == "loading TensorFlow":
            pid = child_of(os.getpid())
            os.kill(pid, signal.SIGSEGV)

    with pytest.raises(ConversionError, match="SIGSEGV while loading TensorFlow") as caught:
        convert(models / "small.keras", progress=kill, fresh=True)
    assert caught.value.exit_code == 4


def test_a_file_that_crashes_its_reader_is_an_invalid_model(models: Path, convert: Convert) -> None:
    def kill(step: str) -> None:
        if step == "reading the model":
            os.kill(child_of(os.getpid()), signal.SIGSEGV)

    with pytest.raises(InvalidModelError, match="so badly damaged") as caught:
        convert(models / "small.h5", progress=kill, fresh=True)
    assert caught.value.exit_code == 3


@pytest.mark.slow
def test_a_file_on_which_the_reader_hangs_is_rejected() -> None:
    script = (
        "import time\n"
        "from edgetool.convert.source import time_limit\n"
        "with time_limit(1): pass\n"
        "try:\n"
        "    with time_limit(1): raise ValueError\n"
        "except ValueError: time.sleep(1.5)\n"
        "print('alive', flush=True)\n"
        "with time_limit(1):\n"
        "    while True: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=30, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, "alive\n")


def test_the_time_limit_ends_the_child(models: Path, convert: Convert) -> None:
    start = time.monotonic()
    with pytest.raises(ConversionError, match=r"more than 0\.5 s"):
        convert(models / "small.keras", limits=ProcessLimits(seconds=0.5))
    assert time.monotonic() - start < 10
    assert children_of(os.getpid()) == []


def test_the_memory_limit_ends_the_work(models: Path, convert: Convert) -> None:
    with pytest.raises(ConversionError, match=r"cannot be imported.*memory limit|memory limit|crashed with SIG"):
        convert(models / "small.keras", limits=ProcessLimits(memory_bytes=60 * 2**20))


def test_a_missing_library_is_an_extra_to_install(
    models: Path, convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = "raise ModuleNotFoundError('none', name='tensorflow')"
    (tmp_path / "tensorflow.py").write_text(fake, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(MissingExtraError, match=r"tensorflow is not installed; pip install 'edgetool\[convert\]'"):
        convert(models / "small.keras", fresh=True)


@process_tree
def test_ctrl_c_leaves_no_child(models: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from edgetool.convert.convert import convert_model\n"
        "from edgetool.convert.request import ConvertRequest\n"
        "convert_model(ConvertRequest(Path(sys.argv[1])), workdir=Path(sys.argv[2]),\n"
        "              progress=lambda step: print(step, flush=True))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(models / "small.keras"), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    while "loading TensorFlow" not in parent.stdout.readline():
        assert parent.poll() is None
    pid = child_of(parent.pid)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert not is_running(pid)


@process_tree
def test_a_killed_parent_leaves_no_child(models: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from edgetool.convert.convert import convert_model\n"
        "from edgetool.convert.request import ConvertRequest\n"
        "convert_model(ConvertRequest(Path(sys.argv[1])), workdir=Path(sys.argv[2]),\n"
        "              progress=lambda step: print(step, flush=True))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(models / "small.keras"), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    while "loading TensorFlow" not in parent.stdout.readline():
        assert parent.poll() is None
    pid = child_of(parent.pid)
    parent.kill()
    parent.communicate(timeout=20)
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} outlived its parent")


def children_of(pid: int) -> list[int]:
    """Return the running children that edgetool has started; other tests leave servers that fork processes."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return [child for child in found if is_running(child) and "edgetool.child" in command_of(child)]


def command_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return []


def child_of(pid: int) -> int:
    (child,) = children_of(pid)
    return child


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def test_the_parent_imports_nothing_heavy() -> None:
    script = (
        "import sys, edgetool.convert.convert, edgetool.convert.request; "
        "print(sorted({'numpy', 'h5py', 'tensorflow', 'keras', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FUSED, UNROLLED = ConversionError("layer 'lstm' (LSTM) fails"), ConversionError("too many steps")


def converted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: dict[str, Exception],
    *,
    lstms: bool = True,
    rnn: str = "auto",
) -> ConvertedModel:
    """The conversion of a model whose forms fail as given."""

    def form(name: str) -> Any:
        return SimpleNamespace(name=name, lowering=SimpleNamespace(cuts=SimpleNamespace(lstms=lstms)), unrolled=None)

    def once(_: Any, loaded: Any, *rest: Any) -> ConvertedModel:
        if loaded.name in failing:
            raise failing[loaded.name]
        return ConvertedModel(loaded.name.encode(), loaded, Order((), ()), LayerMap({}), (), None, ("own",))

    monkeypatch.setattr(worker, "_convert_form", once)
    loaded = form(rnn)
    if rnn == "auto":
        loaded.unrolled = lambda: form("unrolled")
    return convert_loaded(None, loaded, [], ConverterOptions("int8", "int8", False), tmp_path, lambda step: None)


def test_unrolled_if_fused_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = converted(tmp_path, monkeypatch, {"auto": FUSED})
    assert found.content == b"unrolled"
    reported, own = found.notes
    assert FUSED.what in reported
    assert own == "own"


def test_the_first_error_if_both_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConversionError, match="fails"):
        converted(tmp_path, monkeypatch, {"auto": FUSED, "unrolled": UNROLLED})


@pytest.mark.parametrize(("lstms", "rnn"), [(False, "auto"), (True, "fused")])
def test_no_second_try_without_a_choice(lstms: bool, rnn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConversionError, match="fails"):
        converted(tmp_path, monkeypatch, {rnn: FUSED}, lstms=lstms, rnn=rnn)
