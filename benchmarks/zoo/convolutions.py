"""Convolutions, pooling, padding and resizing layers in one, two and three dimensions."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.entry import collection

ENTRIES, zoo = collection("convolution layers")


@zoo("conv2d")
def conv2d(keras: Any) -> Any:
    """Plain, dilated, grouped, strided, depthwise, separable and transposed convolutions."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, activation="relu", padding="same"),
            layers.Conv2D(8, 3, dilation_rate=2, activation="relu"),
            layers.Conv2D(8, 3, groups=4, activation="relu"),
            layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same", activation="relu6"),
            layers.SeparableConv2D(8, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
        ]
    )


@zoo("conv1d")
def conv1d(keras: Any) -> Any:
    """Causal, dilated, depthwise, separable and transposed convolutions."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((24, 4)),
            layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu"),
            layers.Conv1D(8, 5, padding="same", dilation_rate=3, activation="relu"),
            layers.DepthwiseConv1D(3, activation="relu"),
            layers.SeparableConv1D(8, 3, strides=2, activation="relu"),
            layers.Conv1DTranspose(4, 3, strides=2),
        ]
    )


@zoo("conv3d")
def conv3d(keras: Any) -> Any:
    """Two 3-D convolutions on a volume with eight slices."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((6, 8, 8, 2)),
            layers.Conv3D(4, 3, activation="relu", name="volume"),
            layers.Conv3D(3, 2, padding="same", name="second"),
        ]
    )


@zoo("conv3d-transpose", refused="'grow' (Conv3DTranspose)")
def conv3d_transpose(keras: Any) -> Any:
    """A transposed 3-D convolution."""
    return keras.Sequential([keras.Input((3, 4, 4, 2)), keras.layers.Conv3DTranspose(2, 3, strides=2, name="grow")])


@zoo("pool2d")
def pool2d(keras: Any) -> Any:
    """Max and average pooling, windowed and global."""
    layers = keras.layers
    source = keras.Input((12, 12, 4), name="image")
    x = layers.Conv2D(6, 3, padding="same", activation="relu")(source)
    small = layers.AveragePooling2D(2)(layers.MaxPooling2D(3, strides=1, padding="same")(x))
    return keras.Model(
        source,
        {"windows": small, "mean": layers.GlobalAveragePooling2D()(x), "largest": layers.GlobalMaxPooling2D()(x)},
    )


@zoo("pool2d-adaptive")
def pool2d_adaptive(keras: Any) -> Any:
    """Pooling to a given size, even if the input size is not a multiple of it."""
    layers = keras.layers
    source = keras.Input((9, 10, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same")(source)
    return keras.Model(
        source, {"mean": layers.AdaptiveAveragePooling2D((2, 3))(x), "largest": layers.AdaptiveMaxPooling2D(3)(x)}
    )


@zoo("pool1d")
def pool1d(keras: Any) -> Any:
    """Max and average pooling over time, windowed and global."""
    layers = keras.layers
    source = keras.Input((24, 4), name="signal")
    x = layers.Conv1D(6, 3, padding="same", activation="relu")(source)
    small = layers.AveragePooling1D(2)(layers.MaxPooling1D(2)(x))
    return keras.Model(
        source,
        {"windows": small, "mean": layers.GlobalAveragePooling1D()(x), "largest": layers.GlobalMaxPooling1D()(x)},
    )


@zoo("pool1d-adaptive")
def pool1d_adaptive(keras: Any) -> Any:
    """Pooling over time to a given length."""
    layers = keras.layers
    source = keras.Input((14, 4), name="signal")
    x = layers.Conv1D(6, 3, padding="same")(source)
    return keras.Model(
        source, {"mean": layers.AdaptiveAveragePooling1D(3)(x), "largest": layers.AdaptiveMaxPooling1D(4)(x)}
    )


@zoo("pool3d")
def pool3d(keras: Any) -> Any:
    """Max and average pooling of volumes."""
    layers = keras.layers
    source = keras.Input((4, 8, 8, 2), name="volume")
    x = layers.Dense(3)(source)
    return keras.Model(
        source,
        {
            "largest": layers.MaxPooling3D(2)(x),
            "mean": layers.AveragePooling3D(2)(x),
            "all_mean": layers.GlobalAveragePooling3D()(x),
            "all_largest": layers.GlobalMaxPooling3D()(x),
        },
    )


@zoo("pool3d-adaptive")
def pool3d_adaptive(keras: Any) -> Any:
    """Pooling of volumes to a given size."""
    layers = keras.layers
    source = keras.Input((4, 6, 6, 2), name="volume")
    x = layers.Dense(3)(source)
    return keras.Model(
        source, {"mean": layers.AdaptiveAveragePooling3D(2)(x), "largest": layers.AdaptiveMaxPooling3D(2)(x)}
    )


@zoo("resize2d")
def resize2d(keras: Any) -> Any:
    """Nearest-neighbour and bilinear upsampling, padding, cropping."""
    layers = keras.layers
    source = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", activation="relu")(source)
    return keras.Model(
        source,
        {
            "nearest": layers.UpSampling2D(2)(x),
            "bilinear": layers.UpSampling2D((2, 3), interpolation="bilinear")(x),
            "padded": layers.ZeroPadding2D(((1, 0), (2, 1)))(x),
            "cropped": layers.Cropping2D(((1, 2), (0, 1)))(x),
        },
    )


@zoo("resize2d-bicubic")
def bicubic(keras: Any) -> Any:
    """Upsampling with cubic interpolation."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, padding="same"),
            layers.UpSampling2D(2, interpolation="bicubic", name="cubic"),
        ]
    )


@zoo("resize1d")
def resize1d(keras: Any) -> Any:
    """Repetition, padding and cropping over time."""
    layers = keras.layers
    source = keras.Input((12, 3), name="signal")
    x = layers.Conv1D(4, 3, padding="same", activation="relu")(source)
    return keras.Model(
        source,
        {
            "repeated": layers.UpSampling1D(3)(x),
            "padded": layers.ZeroPadding1D((2, 1))(x),
            "cropped": layers.Cropping1D((1, 2))(x),
            "vector": layers.RepeatVector(5)(layers.GlobalAveragePooling1D()(x)),
        },
    )


@zoo("resize3d")
def resize3d(keras: Any) -> Any:
    """Repetition, padding and cropping of volumes."""
    layers = keras.layers
    source = keras.Input((3, 6, 6, 2), name="volume")
    x = layers.Dense(3, activation="relu")(source)
    return keras.Model(
        source,
        {
            "repeated": layers.UpSampling3D((1, 2, 2))(x),
            "padded": layers.ZeroPadding3D((1, 1, 0))(x),
            "cropped": layers.Cropping3D(1)(x),
        },
    )
