"""Models with classes and functions of the user's own, whose code is given beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgetool.child import ChildDiedError
from edgetool.convert.convert import convert_model
from edgetool.convert.load_keras import (
    LoadedKeras,
    checked_config,
    import_custom_code,
    import_libraries,
    load_keras_file,
)
from edgetool.convert.request import ConvertRequest
from edgetool.convert.source import read_model_file
from edgetool.errors import UnsupportedModelError, UsageError

CODE = """
import keras
import beside

class Own(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, inputs):
        return inputs * self.scale * beside.FACTOR

def wave(x):
    return keras.ops.sin(x)

@keras.saving.register_keras_serializable("pack")
class Registered(keras.layers.Layer):
    def call(self, inputs):
        return inputs + 1
"""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Forget what a module registered, and the module: here they share a process."""
    before, path, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    yield
    sys.path[:] = path
    sys.dont_write_bytecode = bytecode
    keras = import_libraries()[1]
    keras.saving.get_custom_objects().clear()
    for name in set(sys.modules) - before:
        if name.startswith(("own_", "beside")):
            del sys.modules[name]


def module(folder: Path, text: str, name: str = "own_layers.py") -> Path:
    (folder / "beside.py").write_text("FACTOR = 3.0\n", encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def load(path: Path, code: Path | None, *, trust: bool = True) -> LoadedKeras:
    keras = import_libraries()[1]
    keras.saving.get_custom_objects().clear()
    source = read_model_file(path)
    config, _ = checked_config(source, trust)
    assert config is not None
    return load_keras_file(keras, source, config, path.parent, trust_model_code=trust, custom_objects=code)


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_its_classes_and_functions_are_made_known(tmp_path: Path, suffix: str) -> None:
    keras = import_libraries()[1]
    path = module(tmp_path, CODE)
    own = import_custom_code(path).objects
    assert {"Own", "wave", "Registered"} <= set(own)
    layers = [keras.Input((4,)), own["Own"](), keras.layers.Dense(2, activation=own["wave"]), own["Registered"]()]
    made = keras.Sequential(layers)
    made.save(tmp_path / f"made.{suffix}")
    inputs = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    del sys.modules["own_layers"]
    loaded = load(tmp_path / f"made.{suffix}", path)
    np.testing.assert_allclose(loaded.model(inputs), made(inputs), rtol=0, atol=1e-6)
    assert not (tmp_path / "__pycache__").exists()
    with pytest.raises(UnsupportedModelError, match=r"--custom-objects module\.py"):
        load(tmp_path / f"made.{suffix}", None)
    with pytest.raises(UnsupportedModelError, match=r"--custom-objects module\.py and --trust-model-code"):
        load(tmp_path / f"made.{suffix}", None, trust=False)


def test_a_model_of_tf_keras_with_its_own_class_loads_with_tf_keras(tmp_path: Path) -> None:
    tf_keras = pytest.importorskip("tf_keras", reason="only tf_keras writes files of Keras 2")
    path = module(tmp_path, CODE.replace("import keras\n", "import keras\nimport tf_keras\n", 1))
    path.write_text(
        "import tf_keras\nclass Double(tf_keras.layers.Layer):\n    def call(self, x):\n        return x * 2\n"
    )
    own = import_custom_code(path).objects["Double"]
    made = tf_keras.Sequential([tf_keras.Input((4,)), own(), tf_keras.layers.Dense(2)])
    inputs = np.ones((1, 4), np.float32)
    for suffix in ("h5", "keras"):
        made.save(tmp_path / f"made.{suffix}")
        sys.modules.pop("own_layers")
        loaded = load(tmp_path / f"made.{suffix}", path)
        assert loaded.keras is tf_keras
        np.testing.assert_allclose(loaded.model(inputs), made(inputs), rtol=0, atol=1e-6)


def test_a_dictionary_says_what_is_made_known(tmp_path: Path) -> None:
    text = "class A: pass\nclass B: pass\nCUSTOM_OBJECTS = {'Package>A': A}\n"
    assert set(import_custom_code(module(tmp_path, text)).objects) == {"Package>A"}


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("x = 1 / 0", UnsupportedModelError, r"own_layers\.py:1: importing own_layers\.py failed: ZeroDivisionError"),
        ("def f(:", UnsupportedModelError, r"own_layers\.py:1: .*SyntaxError"),
        ("raise SystemExit(3)", UnsupportedModelError, "SystemExit: 3"),
        ("from keras.layers import Dense", UsageError, "does not define any class or function"),
        ("CUSTOM_OBJECTS = [3]", UsageError, "is not a dictionary"),
    ],
)
def test_what_is_wrong_with_the_module_is_reported(tmp_path: Path, text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        import_custom_code(module(tmp_path, text))


def test_the_path_must_be_a_module_of_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        import_custom_code(tmp_path / "none.py")
    with pytest.raises(UsageError, match="same name as the Python module random"):
        import_custom_code(module(tmp_path, "", "random.py"))
    with pytest.raises(UsageError, match="is not a Python file"):
        import_custom_code(module(tmp_path, "", "own_layers.txt"))


def test_code_that_fails_while_loading_is_reported_with_file_and_line(tmp_path: Path) -> None:
    keras = import_libraries()[1]
    path = module(tmp_path, CODE)
    own = import_custom_code(path).objects["Own"]
    keras.Sequential([keras.Input((4,)), own()]).save(tmp_path / "made.keras")
    path.write_text(CODE.replace("self.scale = ", "missing; self.scale = "), encoding="utf-8")
    del sys.modules["own_layers"]
    with pytest.raises(UnsupportedModelError, match=r"own_layers\.py:7: .*NameError: name 'missing'"):
        load(tmp_path / "made.keras", path)


def test_a_module_that_imports_what_is_not_there(tmp_path: Path) -> None:
    path = module(tmp_path, "import no_such_module\n")
    with pytest.raises(
        UnsupportedModelError, match=r"no_such_module.*install the modules that it imports.*own_layers.py"
    ):
        import_custom_code(path)


@pytest.mark.slow
def test_a_module_that_ends_the_process_is_named(tmp_path: Path) -> None:
    keras = import_libraries()[1]
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]).save(tmp_path / "made.keras")
    path = module(tmp_path, "import os\nos._exit(0)\n")
    (tmp_path / "work").mkdir()
    request = ConvertRequest(tmp_path / "made.keras", trust_model_code=True, custom_objects=path)
    with pytest.raises(ChildDiedError, match=r"own_layers.py: code in the model terminated the process.*os._exit"):
        convert_model(request, workdir=tmp_path / "work")
