"""Sums in a batch of one are those of a larger batch.

Weights of layers for CuDNN against tf_keras' own conversion, and where weights of .keras files go.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.load_keras import convert_groups, copy_tree, fix_broadcast_sums

keras = pytest.importorskip("keras")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((8, 8), (8, 1)),
        ((50, 4), (50, 1)),
        ((50, 1), (50, 1)),
        ((4, 4, 3), (4, 1, 1)),
        ((6, 5), (1, 5)),
        ((6, 5), (6, 5)),
    ],
)
def test_a_batch_of_one_adds_up_like_two(first: tuple[int, ...], second: tuple[int, ...], request: Any) -> None:
    import tensorflow as tf
    from keras.src.backend.tensorflow import numpy as backend

    original = backend.add
    request.addfinalizer(lambda: setattr(backend, "add", original))
    fix_broadcast_sums(tf, keras)
    inputs = [keras.Input(shape) for shape in (first, second)]
    model = keras.Model(inputs, keras.layers.Add()(inputs))
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(1, *shape)).astype(np.float32) for shape in (first, second)]
    np.testing.assert_allclose(model(values), values[0] + values[1], rtol=1e-6)


def test_applying_the_fix_twice_has_no_further_effect(request: Any) -> None:
    import tensorflow as tf
    from keras.src.backend.tensorflow import numpy as backend

    original = backend.add
    request.addfinalizer(lambda: setattr(backend, "add", original))
    fix_broadcast_sums(tf, keras)
    once = backend.add
    fix_broadcast_sums(tf, keras)
    assert backend.add is once


h5py = pytest.importorskip("h5py")


def node(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


@pytest.mark.parametrize(("kind", "gates"), [("CuDNNLSTM", 4), ("CuDNNGRU", 3)])
@pytest.mark.parametrize("place", ["rnn", "wrapped/forward_rnn"])
def test_cudnn_weights_are_laid_out_as_tf_keras_does(kind: str, gates: int, place: str, tmp_path: Path) -> None:
    pytest.importorskip("tf_keras")
    theirs = importlib.import_module("tf_keras.src.saving.legacy.hdf5_format")
    random = np.random.default_rng(0)
    weights = [random.normal(size=shape) for shape in ((5, 3 * gates), (3, 3 * gates), (6 * gates,))]
    plain = type(kind.removeprefix("CuDNN"), (), {})()
    plain.reset_after = True
    wanted = theirs._convert_rnn_weights(plain, [weight.copy() for weight in weights])
    names = [f"{place}/{name}:0" for name in ("kernel", "recurrent_kernel", "bias")]
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.attrs["layer_names"] = [b"rnn"]
        group = file.create_group("rnn")
        group.attrs["weight_names"] = [name.encode() for name in names]
        for name, weight in zip(names, weights, strict=True):
            group[name] = weight
        convert_groups(file, node("Sequential", "all", layers=[node(kind, "rnn")]))
        for name, want in zip(names, wanted, strict=True):
            np.testing.assert_array_equal(group[name][()], want)


@given(st.lists(st.sampled_from(["Dense", "ReLU", "Conv2D", "LSTM"]), min_size=1, max_size=12), st.booleans())
def test_each_layer_finds_its_own_weights_however_they_were_counted(classes: list[str], twice: bool) -> None:
    """Releases 2.12 to 2.14 counted a layer with weights once more for that."""
    snake = {"Dense": "dense", "ReLU": "re_lu", "Conv2D": "conv2d", "LSTM": "lstm"}
    layers = [node(name, f"layer_{index}") for index, name in enumerate(classes)]
    config = node("Sequential", "all", layers=[node("InputLayer", "in"), *layers])
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        source, made = file.create_group("given"), file.create_group("made")
        counted: dict[str, int] = {}
        for index, name in enumerate(classes):
            number = counted.get(name, 0)
            counted[name] = number + (2 if twice and name != "ReLU" else 1)
            path = f"{snake[name]}_{number}" if number else snake[name]
            source[f"_layer_checkpoint_dependencies/{path}/vars/0"] = index
        copy_tree(source, made, config, config)
        seen: dict[str, int] = {}
        for index, name in enumerate(classes):
            number = seen.get(name, 0)
            seen[name] = number + 1
            path = f"{snake[name]}_{number}" if number else snake[name]
            assert made[f"layers/{path}/vars/0"][()] == index


def test_a_pruned_layer_keeps_its_masked_weights(tmp_path: Path) -> None:
    inner = node("Dense", "dense")
    before = node("Sequential", "all", layers=[node("PruneLowMagnitude", "p", layer=inner), node("Dense", "other")])
    after = node("Sequential", "all", layers=[inner, node("Dense", "other")])
    kernel, mask = np.arange(6.0).reshape(2, 3), np.array([[1, 0, 1], [0, 1, 0]])
    with h5py.File(tmp_path / "w.h5", "w") as file:
        source, made = file.create_group("given"), file.create_group("made")
        source["layers/prune_low_magnitude/layer/vars/0"] = kernel
        source["layers/prune_low_magnitude/vars/0"] = mask.astype(np.float32)
        source["layers/prune_low_magnitude/vars/1"] = 7
        source["layers/dense/vars/0"] = kernel + 1
        copy_tree(source, made, before, after)
        np.testing.assert_array_equal(made["layers/dense/vars/0"][()], kernel * mask)
        np.testing.assert_array_equal(made["layers/dense_1/vars/0"][()], kernel + 1)


def test_pruned_weights_of_hdf5_files_are_masked_and_the_rest_goes(tmp_path: Path) -> None:
    name = "prune_low_magnitude_dense"
    config = node("Sequential", "all", layers=[node("PruneLowMagnitude", name, layer=node("Dense", "dense"))])
    weights = {"dense/kernel:0": np.ones((2, 2)), "dense/bias:0": np.ones(2)}
    added = {f"{name}/mask:0": np.eye(2), f"{name}/threshold:0": 0.5, f"{name}/pruning_step:0": 3}
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.attrs["layer_names"] = [name.encode()]
        group = file.create_group(name)
        group.attrs["weight_names"] = [key.encode() for key in (weights | added)]
        for key, value in (weights | added).items():
            group[key] = value
        convert_groups(file, config)
        assert [key.decode() for key in group.attrs["weight_names"]] == list(weights)
        np.testing.assert_array_equal(group["dense/kernel:0"][()], np.eye(2))
