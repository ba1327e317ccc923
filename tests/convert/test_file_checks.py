"""Zip archives in the .keras format that are made to harm whoever unpacks them, and configurations with code."""

from __future__ import annotations

import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from edgetool.convert import file_checks
from edgetool.convert.file_checks import CARRIES_CODE, UNSUPPORTED, check_config, check_entries, escapes_folder
from edgetool.convert.source import read_model_file
from edgetool.errors import InvalidModelError, UnsupportedModelError


def archive(path: Path, *more: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    """A .keras file's entries, its weights by name alone, and more."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as made:
        warnings.simplefilter("ignore")  # of entries of the same name
        made.writestr("config.json", "{}")
        made.writestr("model.weights.h5", b"")
        for entry, content in more:
            made.writestr(entry, content)
    return path


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("../outside", r"entry '\.\./outside' points outside the archive"),
        ("assets/../../outside", "points outside the archive"),
        ("/etc/passwd", "points outside the archive"),
        ("C:/windows", "points outside the archive"),
        ("assets\\..\\outside", "points outside the archive"),
        ("config.json", "entry 'config.json' occurs twice"),
        ("model.weights.h5", "occurs twice"),
    ],
)
def test_an_entry_that_leads_outside_is_rejected(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        read_model_file(archive(tmp_path / "a.keras", (entry, b"/etc/passwd")))
    assert caught.value.where == str(tmp_path / "a.keras")


def test_an_entry_with_a_suspicious_compression_ratio_is_rejected(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("assets/bomb")
    entry.file_size, entry.compress_size, entry.compress_type = 2**30, 2**19, zipfile.ZIP_DEFLATED
    with pytest.raises(
        UnsupportedModelError, match="entry 'assets/bomb' declares 1073741824 bytes but occupies only 524288"
    ):
        check_entries([entry], tmp_path)
    entry.compress_size = 2**20
    check_entries([entry], tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(UnsupportedModelError, match="uses a compression method other than deflate"):
        read_model_file(archive(tmp_path / "a.keras", method=method))


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.keras")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=r"entry 'config\.json' is encrypted"):
        read_model_file(path)


def test_sizes_that_are_too_much_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_checks, "TOTAL_LIMIT_BYTES", 100)
    with pytest.raises(UnsupportedModelError, match="its files declare a total of 102 bytes"):
        read_model_file(archive(tmp_path / "a.keras", ("assets/a", bytes(50)), ("assets/b", bytes(50))))


def test_an_entry_never_unpacks_to_more_than_its_declared_size(tmp_path: Path) -> None:
    """An archive that unpacks to more than it says: zipfile stops at the checked size and it is reported as damaged."""
    path = tmp_path / "a.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("config.json", b"[" * 10_000_000)
        made.writestr("model.weights.h5", b"")
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 2)
    struct.pack_into("<I", content, 22, 2)
    path.write_bytes(content)
    with pytest.raises(InvalidModelError, match="damaged"):
        read_model_file(path)


@pytest.mark.parametrize("name", ["assets/words.txt", "a/..b/c", "...", "ü/ö"])
def test_ordinary_names_are_accepted(name: str) -> None:
    assert not escapes_folder(name)


def layer(class_name: str, name: str = "it", **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "module": "keras.layers", "config": {"name": name, **config}}


def model(*layers: dict[str, Any]) -> dict[str, Any]:
    return layer("Functional", "whole", layers=list(layers)) | {"module": "keras.src.models.functional"}


STOCK = model(
    layer("InputLayer", "in"),
    layer("Dense", "one", activation="relu", kernel_initializer={"class_name": "Zeros", "config": {}}),
    layer("Dense", "two", activation=layer("LeakyReLU", "leaky")),
    layer("TimeDistributed", "three", layer=layer("Dense", "inner")),
    {"class_name": "GetItem", "module": "keras.src.ops.numpy", "config": {"name": "cut"}},
)
FUNCTION = {"class_name": "function", "module": "builtins", "config": "wave", "registered_name": "function"}


def test_stock_models_pass() -> None:
    assert check_config(STOCK, "keras") == ()


def test_layers_of_keras_own_applications_pass() -> None:
    own = layer("LayerScale", "scale") | {"module": "keras.src.applications.convnext", "registered_name": "LayerScale"}
    assert check_config(model(own), "keras") == ()


@pytest.mark.parametrize("class_name", sorted(CARRIES_CODE))
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_code_is_refused_at_any_depth_by_name_and_reason(class_name: str, depth: int) -> None:
    config = layer(class_name, "hidden")
    for level in range(depth):
        config = model(layer("TimeDistributed", f"wrapper_{level}", layer=config))
    with pytest.raises(UnsupportedModelError, match="--trust-model-code") as caught:
        check_config(config, "keras")
    assert "'hidden'" in caught.value.what
    assert CARRIES_CODE[class_name] in caught.value.what
    assert caught.value.exit_code == 3
    assert len(check_config(config, "keras", trust_model_code=True)) == 1


@pytest.mark.parametrize(
    "config",
    [
        layer("Mine", "hidden"),
        layer("Package>Dense", "hidden"),
        layer("Dense", "hidden") | {"module": "os"},
        layer("Dense", "hidden") | {"module": "keras_evil.layers"},
        layer("Dense", "hidden") | {"module": 3},
        layer("LayerScale", "hidden"),
        layer("LayerScale", "hidden") | {"module": "mine"},
        layer("LayerScale", "hidden") | {"module": None},
        layer("Dense", "hidden", activation="wave"),
        layer("Dense", "hidden", activation=FUNCTION),
        layer("LSTM", "hidden", recurrent_activation="wave"),
        layer("Dense", "hidden", activation=FUNCTION | {"config": "relu", "module": "evil"}),
        layer("Dense", "hidden", kernel_regularizer={"class_name": "Own", "config": {}}),
        layer("Dense", "hidden", activation={"class_name": "__lambda__", "config": {"value": "x"}}),
        layer("Dense", "hidden", nested={"deep": [{"class_name": "Lambda", "config": {}}]}),
    ],
)
def test_what_stock_keras_lacks_is_refused_with_its_layer(config: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModelError, match="'hidden'"):
        check_config(model(layer("Dense", "before"), config), "h5")


@pytest.mark.parametrize("class_name", sorted(UNSUPPORTED))
def test_what_keras_3_cannot_rebuild_is_refused_even_on_trust(class_name: str) -> None:
    config = model(layer(class_name, "old", function="math.sin"))
    with pytest.raises(UnsupportedModelError, match=f"'old' \\({class_name}\\)") as caught:
        check_config(config, "h5", trust_model_code=True)
    reason, instead = UNSUPPORTED[class_name]
    assert reason in caught.value.what
    assert caught.value.fix == instead


def test_the_raw_tensorflow_call_is_named() -> None:
    with pytest.raises(UnsupportedModelError, match=r"tf\.math\.sin"):
        check_config(model(layer("TFOpLambda", "sin", function="math.sin")), "h5")


def test_operations_outside_layers_need_the_keras_format() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'cut' \(GetItem\).*\.keras"):
        check_config(STOCK, "h5")


def test_the_optimizer_of_the_model_is_not_checked() -> None:
    compiled = STOCK | {"compile_config": {"loss": {"class_name": "MyLoss", "module": "mine", "config": {}}}}
    assert check_config(compiled, "keras") == ()
    with pytest.raises(UnsupportedModelError, match="MyLoss"):  # none belongs there
        check_config(compiled | {"config": {"name": "whole", "layers": []}}, "h5")


@pytest.mark.parametrize("value", [3, ["Lambda"], {"class_name": "Lambda"}])
def test_class_names_that_are_no_strings_are_refused(value: Any) -> None:
    with pytest.raises(UnsupportedModelError):
        check_config(model({"class_name": value, "config": {"name": "odd"}}), "keras")


def test_bottomless_nesting_is_refused() -> None:
    config: Any = {}
    for _ in range(300):
        config = [config]
    with pytest.raises(UnsupportedModelError, match="deep"):
        check_config({"config": config}, "keras")


RAW = {"name": "call", "trainable": True, "dtype": "float32"}


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize(
    ("class_name", "bad", "good"),
    [
        ("TFOpLambda", {"function": "io.write_file"}, {"function": "math.sin"}),
        ("TFOpLambda", {"function": "py_function"}, {"function": "nn.relu"}),
        ("TFOpLambda", {"function": "raw_ops.ReadFile"}, {"function": "concat"}),
        ("TFOpLambda", {"function": "saved_model.load"}, {"function": "image.resize"}),
        ("TFOpLambda", {"function": ["math.sin"]}, {"function": "linalg.matmul"}),
        ("SlicingOpLambda", {"function": "load_library"}, {"function": "__operators__.getitem"}),
        ("TensorFlowOpLayer", {"node_def": {"op": "ReadFile"}}, {"node_def": {"op": "AddV2"}}),
        ("TensorFlowOpLayer", {"node_def": "\n\x04AddV2"}, {"node_def": {"op": "Reshape"}}),
    ],
)
def test_tf_keras_gets_only_calls_that_compute(
    class_name: str, bad: dict[str, Any], good: dict[str, Any], depth: int
) -> None:
    def nested(inner: dict[str, Any]) -> dict[str, Any]:
        config = {"class_name": class_name, "config": RAW | inner}
        for level in range(depth):
            config = model(layer("TimeDistributed", f"wrapper_{level}", layer=config))
        return config

    assert check_config(nested(good), "h5", tf_keras=True) == ()
    for trust in (False, True):  # there is no flag for what is not in the list
        with pytest.raises(UnsupportedModelError, match="not on the list of side-effect-free"):
            check_config(nested(bad), "h5", tf_keras=True, trust_model_code=trust)


@pytest.mark.parametrize("class_name", sorted(CARRIES_CODE))
def test_code_is_refused_for_tf_keras_too(class_name: str) -> None:
    wrapped = layer("QuantizeWrapperV2", "outside", layer=layer(class_name, "hidden"))
    with pytest.raises(UnsupportedModelError, match="--trust-model-code"):
        check_config(model(wrapped), "h5", tf_keras=True)


@pytest.mark.parametrize("name", ["TFOpLambda", "QuantizeWrapperV2", "LocallyConnected1D"])
def test_an_allowed_name_from_elsewhere_is_refused(name: str) -> None:
    config = layer(name, "odd", function="math.sin") | {"module": "evil.module"}
    with pytest.raises(UnsupportedModelError, match=r"evil\.module"):
        check_config(model(config), "keras", tf_keras=True, trust_model_code=True)
