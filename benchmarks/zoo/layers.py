"""The other layers of keras.layers: dense, shapes, normalization, merging, regularization, attention."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.entry import collection
from benchmarks.zoo.samples import indices

ENTRIES, zoo = collection("other layers")


@zoo("shapes")
def shapes(keras: Any) -> Any:
    """Flatten, Reshape, Permute, EinsumDense and Identity."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((6, 4, 3)),
            layers.EinsumDense("abcd,de->abce", output_shape=(None, 4, 5), bias_axes="e"),
            layers.Permute((2, 1, 3)),
            layers.Reshape((12, 10)),
            layers.Identity(),
            layers.Flatten(),
            layers.Dense(7),
        ]
    )


@zoo("normalizations")
def normalizations(keras: Any) -> Any:
    """Batch, layer, group, root-mean-square, unit and spectral normalization."""
    layers = keras.layers
    source = keras.Input((6, 6, 8), name="image")
    heads = {
        "batch": layers.BatchNormalization(),
        "layer": layers.LayerNormalization(),
        "group": layers.GroupNormalization(groups=4),
        "rms": layers.RMSNormalization(),
        "unit": layers.UnitNormalization(),
        "spectral": layers.SpectralNormalization(layers.Conv2D(4, 3)),
    }
    return keras.Model(source, {name: head(layers.Conv2D(8, 1)(source)) for name, head in heads.items()})


@zoo("merges")
def merges(keras: Any) -> Any:
    """Two branches merged by each type of merge layer; the branches are not shared."""
    layers = keras.layers
    source = keras.Input((8, 8, 3), name="image")
    names = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
    pairs = {name: [layers.Conv2D(4, 3, activation=kind)(source) for kind in ("relu", None)] for name in names}
    return keras.Model(source, {name.lower(): getattr(layers, name)()(pair) for name, pair in pairs.items()})


@zoo("merges-shared")
def merges_shared(keras: Any) -> Any:
    """The same two branches feeding a minimum and a sum."""
    layers = keras.layers
    source = keras.Input((8, 8, 3), name="image")
    pair = [layers.Conv2D(4, 3, activation=kind)(source) for kind in ("relu", None)]
    return keras.Model(source, {"smaller": layers.Minimum()(pair), "sum": layers.Add()(pair)})


@zoo("merge-fixed-scale")
def merge_fixed_scale(keras: Any) -> Any:
    """A tanh, whose scale is fixed, feeding two operators that require equal input scales."""
    layers = keras.layers
    source = keras.Input((8, 8, 3), name="image")
    left, right = (layers.Conv2D(4, 3, activation=kind)(source) for kind in ("relu", "tanh"))
    return keras.Model(source, {"larger": layers.Maximum()([left, right]), "both": layers.Concatenate()([left, right])})


@zoo("merge-dot")
def merge_dot(keras: Any) -> Any:
    """Dot products of two branches, plain and normalized."""
    layers = keras.layers
    source = keras.Input((10,), name="features")
    left, right = layers.Dense(6)(source), layers.Dense(6)(source)
    return keras.Model(
        source, {"plain": layers.Dot(1)([left, right]), "cosine": layers.Dot(1, normalize=True)([left, right])}
    )


@zoo("concatenate-12")
def concatenate_many(keras: Any) -> Any:
    """A concatenation of twelve branches."""
    layers = keras.layers
    source = keras.Input((8, 8, 3))
    return keras.Model(
        source, layers.Concatenate(name="join")([layers.Conv2D(2, 1, activation="relu")(source) for _ in range(12)])
    )


@zoo("regularizers")
def regularizers(keras: Any) -> Any:
    """Dropout, noise and penalties, none of which is active at inference."""
    layers = keras.layers
    volume = keras.Input((4, 4, 4, 3), name="volume")
    x = layers.SpatialDropout3D(0.2)(layers.Dense(4, activation="relu")(volume))
    x = layers.SpatialDropout2D(0.2)(layers.Reshape((8, 8, 4))(x))
    x = layers.SpatialDropout1D(0.2)(layers.Reshape((16, 16))(x))
    x = layers.GaussianNoise(0.1)(layers.GaussianDropout(0.1)(layers.Dropout(0.3)(x)))
    x = layers.ActivityRegularization(0.01)(layers.AlphaDropout(0.1)(x))
    return keras.Model(volume, layers.Dense(5)(x))


@zoo("attention")
def attention(keras: Any) -> Any:
    """Dot-product and additive attention between a layer's output and the input."""
    layers = keras.layers
    source = keras.Input((6, 8), name="sequence")
    query = layers.Dense(8)(source)
    return keras.Model(
        source,
        {
            "product": layers.Attention(use_scale=True)([query, source]),
            "sum": layers.AdditiveAttention()([query, source]),
        },
    )


@zoo("multi-head-attention")
def multi_head(keras: Any) -> Any:
    """Self-attention with two heads."""
    source = keras.Input((6, 8))
    return keras.Model(source, keras.layers.MultiHeadAttention(2, 4)(source, source))


@zoo("group-query-attention")
def group_query(keras: Any) -> Any:
    """Four query heads that share two key/value heads."""
    source = keras.Input((6, 8))
    return keras.Model(source, keras.layers.GroupQueryAttention(4, 4, 2)(source, source))


@zoo("embedding", samplers={"": indices(20)})
def embedding(keras: Any) -> Any:
    """Indices embedded as vectors, which are then averaged."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((7,), dtype="int32"),
            layers.Embedding(20, 6),
            layers.GlobalAveragePooling1D(),
            layers.Dense(3, activation="softmax"),
        ]
    )


@zoo("reversible-embedding", samplers={"": indices(12)})
def reversible_embedding(keras: Any) -> Any:
    """An embedding that also maps vectors back to scores."""
    layers = keras.layers
    source = keras.Input((5,), dtype="int32")
    table = layers.ReversibleEmbedding(12, 8)
    return keras.Model(source, table(layers.Dense(8, activation="relu")(table(source)), reverse=True))


@zoo("category-encoding", samplers={"": indices(5)})
def category_encoding(keras: Any) -> Any:
    """One-hot encoding of a category."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((1,), dtype="int32"),
            layers.CategoryEncoding(5, output_mode="one_hot", name="encode"),
            layers.Dense(3),
        ]
    )


@zoo("category-encoding-multi", samplers={"": indices(6)})
def category_encoding_multi(keras: Any) -> Any:
    """Multi-hot encoding of six categories."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.CategoryEncoding(6, output_mode="multi_hot", name="encode"),
            layers.Dense(3),
        ]
    )


@zoo("discretization")
def discretization(keras: Any) -> Any:
    """Values mapped to bin indices, which are then embedded."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Discretization(bin_boundaries=[-0.5, 0.0, 0.5], name="bins"),
            layers.Embedding(4, 3),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


@zoo("masking")
def masking(keras: Any) -> Any:
    """Missing frames masked before an average over time."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((8, 4)), layers.Masking(name="mask"), layers.GlobalAveragePooling1D(), layers.Dense(3)]
    )
