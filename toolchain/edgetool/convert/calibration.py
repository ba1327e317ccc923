"""Reads calibration and evaluation data: .npy, .npz, CSV, and directories of images or .npy files."""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetool.convert.samples import Array, InputSpec, SampleSet
from edgetool.errors import CalibrationError, MissingExtraError

IMAGE_SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp"])
# Number of channels -> Pillow's mode.
IMAGE_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
IMAGE_LIMIT_PIXELS = 64 * 2**20
LABELS = "y"
KINDS = "give .npy, .npz, .csv, or a directory of images (.png, .jpg, .bmp) or .npy files"


def read_samples(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    """The samples in `path` for a model with these inputs. CalibrationError says what is wrong and where."""
    if path.is_dir():
        return _from_directory(path, specs)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CalibrationError(f"unknown kind of calibration data {path.suffix!r}", where=str(path), fix=KINDS)
    return reader(path, specs)


def read_evaluation(path: Path, specs: Sequence[InputSpec]) -> tuple[SampleSet, Array]:
    """The labelled samples of an .npz: x (or one array per input name), and the labels y, (N,) or (N, classes)."""
    if path.suffix.lower() != ".npz":
        raise CalibrationError("evaluation data is an .npz file with x and y", where=str(path), fix="use numpy.savez")
    arrays = _load_npz(path)
    labels = arrays.pop(LABELS, None)
    if labels is None:
        raise CalibrationError("has no labels: no array 'y'", where=str(path), fix="save it with numpy.savez(x=, y=)")
    samples = _from_arrays(path, arrays, specs)
    if labels.dtype.kind not in "fiub" or labels.ndim not in (1, 2) or len(labels) != samples.count:
        raise CalibrationError(
            f"has labels of shape {labels.shape} and type {labels.dtype} for {samples.count} samples",
            where=str(path),
            fix="give y one integer or one row of class probabilities per sample",
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise CalibrationError("has labels that are NaN or infinity", where=str(path), fix="repair y")
    return samples, labels


def _from_npy(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    _only_input(path, specs)
    return _from_arrays(path, {specs[0].name: _load_npy(path)}, specs)


def _from_npz(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    arrays = _load_npz(path)
    if len(arrays) == len(specs) + 1 and LABELS in arrays and LABELS not in {spec.name for spec in specs}:
        del arrays[LABELS]
    return _from_arrays(path, arrays, specs)


def _from_arrays(path: Path, arrays: dict[str, Array], specs: Sequence[InputSpec]) -> SampleSet:
    """One array per input, matched by name, or else by order."""
    if len(arrays) != len(specs):
        raise CalibrationError(
            f"holds {len(arrays)} arrays ({', '.join(arrays)}) for {len(specs)} inputs",
            where=str(path),
            fix=f"give one array each for {', '.join(spec.name for spec in specs)}",
        )
    notes: tuple[str, ...] = ()
    if set(arrays) == {spec.name for spec in specs}:
        columns = [arrays[spec.name] for spec in specs]
    else:
        columns = list(arrays.values())
        if len(specs) > 1:
            pairs = ", ".join(f"{name} for {spec.name}" for name, spec in zip(arrays, specs, strict=True))
            notes = (f"{path.name}: arrays were matched to inputs by their order ({pairs})",)
    names = [f" ({name})" if len(specs) > 1 else "" for name in arrays]
    for array, spec, name in zip(columns, specs, names, strict=True):
        if array.ndim != len(spec.shape) + 1 or array.shape[1:] != spec.shape:
            raise CalibrationError(
                f"has shape {array.shape}{name}, but input {spec.name!r} takes samples of shape {spec.shape}",
                where=str(path),
                fix=f"save an array of shape {_with_count(spec.shape)}",
            )
    counts = [len(array) for array in columns]
    if len(set(counts)) > 1:
        raise CalibrationError(
            f"has different numbers of samples per input: {', '.join(map(str, counts))}",
            where=str(path),
            fix="give every input as many samples",
        )
    return SampleSet(
        counts[0],
        lambda index: [column[index] for column in columns],
        lambda index: f"{path} sample {index}" if counts[0] else str(path),
        notes,
    )


def _load_npy(path: Path) -> Array:
    try:
        loaded: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError) as error:
        raise CalibrationError(f"cannot be read as .npy ({_short(error)})", where=str(path)) from error
    if not isinstance(loaded, np.ndarray):
        raise CalibrationError("is not a single array", where=str(path), fix="save it with numpy.save")
    return loaded


def _load_npz(path: Path) -> dict[str, Array]:
    """Every array of the file in its order."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if isinstance(archive, np.ndarray):
                raise CalibrationError("is a single array", where=str(path), fix="name it .npy")
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, SyntaxError, zipfile.BadZipFile, AttributeError) as error:
        raise CalibrationError(f"cannot be read as .npz ({_short(error)})", where=str(path)) from error


def _from_csv(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    """One sample per row, flattened; a first row that is not all numbers is a header."""
    _only_input(path, specs)
    width = math.prod(specs[0].shape)
    rows: list[Array] = []
    lines: list[int] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            for number, cells in enumerate(reader, start=1):
                if not any(cell.strip() for cell in cells):
                    continue
                row = _numbers(cells)
                if row is None and not rows and number == 1:
                    continue
                if row is None:
                    raise CalibrationError("is not all numbers", where=f"{path} row {number}", fix="repair it")
                if len(row) != width:
                    raise CalibrationError(
                        f"has {len(row)} values, but input {specs[0].name!r} of shape {specs[0].shape} takes {width}",
                        where=f"{path} row {number}",
                        fix="give one flattened sample per row, separated by commas",
                    )
                rows.append(row.reshape(specs[0].shape))
                lines.append(number)
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise CalibrationError(f"cannot be read as CSV ({_short(error)})", where=str(path)) from error
    return SampleSet(
        len(rows),
        lambda index: [rows[index]],
        lambda index: f"{path} row {lines[index]}" if lines else str(path),
    )


def _numbers(cells: Sequence[str]) -> Array | None:
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return None


def _from_directory(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    """Every image or every .npy file in the directory and below, sorted by path."""
    _only_input(path, specs)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    images = [file for file in files if file.suffix.lower() in IMAGE_SUFFIXES]
    arrays = [file for file in files if file.suffix.lower() == ".npy"]
    if images and arrays:
        raise CalibrationError("holds images and .npy files", where=str(path), fix="keep one kind")
    if not images and not arrays:
        raise CalibrationError("holds no images and no .npy files", where=str(path), fix=KINDS)
    if arrays:
        return SampleSet(len(arrays), lambda index: [_load_npy(arrays[index])], lambda index: str(arrays[index]))
    return _images(images, path, specs[0])


def _images(files: Sequence[Path], path: Path, spec: InputSpec) -> SampleSet:
    if len(spec.shape) not in (2, 3) or (len(spec.shape) == 3 and spec.shape[-1] not in IMAGE_MODES):
        raise CalibrationError(
            f"input {spec.name!r} of shape {spec.shape} takes no images",
            where=str(path),
            fix="images need (height, width, 1, 3 or 4 channels); give other data as .npy",
        )
    notes = (f"{path.name}: images were resized to {spec.shape[1]}x{spec.shape[0]}, pixel values 0 to 255",)
    return SampleSet(len(files), lambda index: [_image(files[index], spec)], lambda index: str(files[index]), notes)


def _image(file: Path, spec: InputSpec) -> Array:
    """Pixels 0 to 255 as uint8 in the input's shape; resized bilinearly, not cropped."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Pillow is not installed", fix="pip install 'edgetool[convert]'") from error
    height, width = spec.shape[:2]
    try:
        with Image.open(file) as image:
            if image.width * image.height > IMAGE_LIMIT_PIXELS:
                raise CalibrationError(
                    f"has {image.width}x{image.height} pixels, more than {IMAGE_LIMIT_PIXELS}",
                    where=str(file),
                )
            if image.mode.startswith(("I", "F")):
                raise CalibrationError(
                    f"has pixels of more than 8 bits (mode {image.mode})",
                    where=str(file),
                    fix="save it with 8 bits",
                )
            pixels = image.convert(IMAGE_MODES[spec.shape[2] if len(spec.shape) == 3 else 1])
            if pixels.size != (width, height):
                pixels = pixels.resize((width, height), Image.Resampling.BILINEAR)
            return np.asarray(pixels, dtype=np.uint8).reshape(spec.shape)
    except CalibrationError:
        raise
    except Exception as error:  # Pillow's decoders raise many kinds on damaged files
        raise CalibrationError(
            f"cannot be read as an image ({_short(error)})", where=str(file), fix="repair or remove it"
        ) from error


def _only_input(path: Path, specs: Sequence[InputSpec]) -> None:
    if len(specs) != 1:
        raise CalibrationError(
            f"the model has {len(specs)} inputs",
            where=str(path),
            fix=f"give an .npz with arrays named {', '.join(spec.name for spec in specs)}",
        )


def _with_count(shape: Sequence[int]) -> str:
    return f"(N, {', '.join(map(str, shape))})" if shape else "(N,)"


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


_READERS: dict[str, Callable[[Path, Sequence[InputSpec]], SampleSet]] = {
    ".npy": _from_npy,
    ".npz": _from_npz,
    ".csv": _from_csv,
}
