"""Layers that prepare data, saved in front of the network that was trained on it."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.entry import BENCHMARK, collection
from benchmarks.zoo.samples import indices, pixels, signal

ENTRIES, zoo = collection("preprocessing")


def _classifier(keras: Any, *front: Any, size: tuple[int, int, int] = (16, 16, 3)) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(size),
            *front,
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )


@zoo("rescaling", samplers={"": pixels})
def rescaling(keras: Any) -> Any:
    """Pixels rescaled from [0, 255] to [-1, 1]."""
    return _classifier(keras, keras.layers.Rescaling(1 / 127.5, offset=-1.0))


@zoo("normalization", samplers={"": pixels})
def normalization(keras: Any) -> Any:
    """Per-channel mean and variance normalization."""
    layer = keras.layers.Normalization(mean=[110.0, 120.0, 130.0], variance=[2500.0, 2700.0, 3600.0])
    return _classifier(keras, layer)


@zoo("normalization-one-value", samplers={"": pixels}, runs=BENCHMARK)
def normalization_one_value(keras: Any) -> Any:
    """Normalization with one mean and one variance for all values."""
    return _classifier(keras, keras.layers.Normalization(axis=None, mean=120.0, variance=2600.0))


@zoo("resizing-crop")
def resizing(keras: Any) -> Any:
    """Resizing followed by a center crop."""
    return _classifier(keras, keras.layers.Resizing(20, 20), keras.layers.CenterCrop(14, 14), size=(30, 24, 3))


@zoo("augmentation", samplers={"": pixels})
def augmentation(keras: Any) -> Any:
    """Random geometric and brightness augmentation, inactive at inference."""
    layers = keras.layers
    return _classifier(
        keras,
        layers.RandomFlip(),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
        layers.RandomTranslation(0.1, 0.1),
        layers.RandomPerspective(),
        layers.RandomElasticTransform(),
        layers.RandomContrast(0.1),
        layers.RandomBrightness(0.1),
        layers.RandomHue(0.1),
        layers.RandomSaturation(0.1),
        layers.RandomSharpness(0.1),
        layers.RandomColorDegeneration(0.1),
        layers.RandomColorJitter(brightness_factor=0.1),
        layers.RandomGaussianBlur(),
        layers.RandomGrayscale(),
        layers.RandomInvert(),
        layers.RandomPosterization(4),
        layers.RandomErasing(),
        layers.Rescaling(1 / 255),
    )


@zoo("random-shear", refused="'shear'")
def random_shear(keras: Any) -> Any:
    """An augmentation layer that Keras 3.15 itself cannot load from a file."""
    return _classifier(keras, keras.layers.RandomShear(0.1, 0.1, name="shear"))


@zoo("augmentation-mixed", samplers={"": pixels})
def augmentation_mixed(keras: Any) -> Any:
    """Augmentation that mixes samples or picks random transformations."""
    layers = keras.layers
    return _classifier(
        keras,
        layers.RandAugment(),
        layers.AugMix(),
        layers.CutMix(),
        layers.MixUp(),
        layers.Pipeline([layers.RandomFlip(), layers.RandomBrightness(0.1)]),
        layers.Rescaling(1 / 255),
    )


@zoo("random-crop", refused="'crop' (RandomCrop)")
def random_crop(keras: Any) -> Any:
    """A random crop during training and a center crop at inference."""
    return _classifier(keras, keras.layers.RandomCrop(14, 14, name="crop"))


@zoo("solarization", samplers={"": pixels}, runs=BENCHMARK)
def solarization(keras: Any) -> Any:
    """Inversion of bright pixels, also active at inference."""
    return _classifier(
        keras, keras.layers.Solarization(threshold_factor=0.5, name="sun"), keras.layers.Rescaling(1 / 255)
    )


@zoo("auto-contrast", samplers={"": pixels}, runs=BENCHMARK)
def auto_contrast(keras: Any) -> Any:
    """Contrast stretching based on the darkest and brightest values of each image, also active at inference."""
    return _classifier(keras, keras.layers.AutoContrast(name="stretch"), keras.layers.Rescaling(1 / 255))


@zoo("equalization", refused="'equal'", samplers={"": pixels})
def equalization(keras: Any) -> Any:
    """Histogram equalization, for which TensorFlow Lite has no operator."""
    return _classifier(keras, keras.layers.Equalization(name="equal"), keras.layers.Rescaling(1 / 255))


@zoo("stft-spectrogram", samplers={"": signal}, options={"keep_float": ("spectra",)})
def stft(keras: Any) -> Any:
    """A spectrogram layer: magnitudes of the short-time Fourier transform of raw audio."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((256, 1)),
            layers.STFTSpectrogram(frame_length=32, frame_step=16, fft_length=32, name="spectra"),
            layers.Conv1D(8, 3, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(4),
        ]
    )


@zoo("mel-spectrogram", samplers={"": signal}, options={"keep_float": ("mel",)})
def mel(keras: Any) -> Any:
    """A mel spectrogram layer, in decibels, before the network."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((1024,)),
            layers.MelSpectrogram(fft_length=128, sequence_stride=64, sampling_rate=8000, num_mel_bins=16, name="mel"),
            layers.Flatten(),
            layers.Dense(4),
        ]
    )


@zoo("integer-lookup", refused="'table' (IntegerLookup)", samplers={"": indices(4)})
def integer_lookup(keras: Any) -> Any:
    """Integers mapped to indices by a lookup table."""
    layers = keras.layers
    table = layers.IntegerLookup(vocabulary=[1, 2, 3], name="table")
    return keras.Sequential(
        [keras.Input((3,), dtype="int64"), table, layers.Embedding(5, 3), layers.Flatten(), layers.Dense(2)]
    )
