"""Read calibration and evaluation data: .npy, .npz, .csv with a flattened sample per row, and directories of files."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetool.convert.numpy_files import load_npy, load_npz, open_data, size_bytes
from edgetool.convert.samples import Array, InputSpec, SampleSet
from edgetool.errors import CalibrationError, MissingExtraError

MAX_FILE_BYTES = 2**28


def read_csv(path: Path, spec: InputSpec) -> SampleSet:
    """Read the samples of one input. A first row without any number is a header.

    Values are separated by commas, or by semicolons or tabs if the first row has no comma.
    """
    width = math.prod(spec.shape)
    rows: list[Array] = []
    lines: list[int] = []
    try:
        with open_data(path) as stream:
            if size_bytes(stream) > MAX_FILE_BYTES:
                raise CalibrationError(
                    f"is larger than {MAX_FILE_BYTES:,} bytes", where=str(path), fix="save the samples with numpy.save"
                )
            text = stream.read().decode("utf-8-sig")
            for position, (number, cells) in enumerate(_rows(text, path)):
                where = f"{path} row {number}"
                row = [_number(cell) for cell in cells]
                numbers = [value for value in row if value is not None]
                if position == 0 and not numbers:
                    continue
                if len(numbers) != len(row):
                    bad = cells[row.index(None)]
                    raise CalibrationError(
                        f"has {bad[:40]!r}, which is not a number",
                        where=where,
                        fix="write numbers with a decimal point; a header row must not contain numbers",
                    )
                if len(row) != width:
                    raise CalibrationError(
                        f"has {len(row)} values, but input {spec.name!r} of shape {spec.original_shape} requires "
                        f"{width}",
                        where=where,
                        fix="write one flattened sample per row, with values separated by commas",
                    )
                rows.append(np.array(numbers).reshape(spec.original_shape))
                lines.append(number)
    except UnicodeDecodeError as error:
        raise CalibrationError("is not UTF-8 text", where=str(path), fix="save it as UTF-8") from error
    except csv.Error as error:
        raise CalibrationError(f"cannot be read as CSV ({error})", where=str(path), fix="repair it") from error
    return SampleSet(
        len(rows),
        lambda index: [rows[index]],
        lambda index: f"{path} row {lines[index]}" if lines else str(path),
    )


def _rows(text: str, path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield every row that is not blank, with its number from 1."""
    lines = text.splitlines(keepends=True)
    first = next((line for line in lines if line.strip()), "")
    if "," in first and ";" in first:
        raise CalibrationError(
            "mixes commas and semicolons in its first row",
            where=str(path),
            fix="separate values with commas and use a decimal point",
        )
    separator = next((mark for mark in ",;\t" if mark in first), ",")
    for number, cells in enumerate(csv.reader(lines, delimiter=separator), start=1):
        if any(cell.strip() for cell in cells):
            yield number, cells


def _number(cell: str) -> float | None:
    if "_" in cell:  # Python accepts it between digits
        return None
    try:
        return float(cell)
    except ValueError:
        return None


# The formats that Pillow may read, whatever the file name: others start programs (EPS) or contain other files.
IMAGE_FORMATS = ("PNG", "JPEG", "BMP")
IMAGE_SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp"])
# Number of channels -> Pillow's mode.
IMAGE_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
IMAGE_LIMIT_PIXELS = 64 * 2**20
LABELS = "y"
KINDS = "use .npy, .npz or .csv, or a directory of images (.png, .jpg, .bmp) or .npy files"


def read_samples(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    """Read the samples in `path` for a model with these inputs. Raises CalibrationError if they are invalid."""
    if path.is_dir():
        return _from_directory(path, specs)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CalibrationError(f"unknown file type {path.suffix!r} for calibration data", where=str(path), fix=KINDS)
    return reader(path, specs)


@dataclass(frozen=True, slots=True)
class LabelledSamples:
    """Samples with labels, (N,) or (N, classes), of one output. output: its index in the model's order."""

    samples: SampleSet
    labels: Array
    output: int


def read_evaluation(path: Path, specs: Sequence[InputSpec], outputs: Sequence[str]) -> LabelledSamples:
    """Read an .npz file: x (or one array per input name), and labels y of the first output or y_NAME of output NAME.

    Raises CalibrationError if the data is invalid.
    """
    if path.suffix.lower() != ".npz":
        raise CalibrationError(
            "evaluation data must be an .npz file with x and y", where=str(path), fix="use numpy.savez"
        )
    arrays = load_npz(path)
    array = find_labels(path, arrays, specs, outputs)
    if array is None:
        raise CalibrationError(
            f"has no labels: there is no array named {LABELS!r}",
            where=str(path),
            fix="save it with numpy.savez(x=, y=); labels for a single output may be named "
            + _listed([f"{LABELS}_{output}" for output in outputs]),
        )
    name, output = array
    labels = arrays.pop(name)
    samples = from_arrays(path, arrays, specs)
    if labels.dtype.kind not in "fiub" or labels.ndim not in (1, 2) or len(labels) != samples.count:
        raise CalibrationError(
            f"has labels {name} of shape {labels.shape} and type {labels.dtype} for {samples.count} samples",
            where=str(path),
            fix=f"{name} must contain one integer or one row of class probabilities per sample",
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise CalibrationError("has labels that are NaN or infinite", where=str(path), fix=f"correct {name}")
    return LabelledSamples(samples, labels, output)


def find_labels(
    path: Path, arrays: Mapping[str, Array], specs: Sequence[InputSpec], outputs: Sequence[str]
) -> tuple[str, int] | None:
    """Return the name of the array with labels, and the index of their output; None if there is none."""
    inputs = {spec.name for spec in specs}
    outputs_by_array = {f"{LABELS}_{output}": index for index, output in enumerate(outputs)}
    names = [name for name in arrays if name in outputs_by_array and name not in inputs]
    if len(names) > 1:
        raise CalibrationError(
            f"has labels for {len(names)} outputs ({', '.join(names)})",
            where=str(path),
            fix="provide labels for one output only",
        )
    if names:
        return names[0], outputs_by_array[names[0]]
    return (LABELS, 0) if LABELS in arrays else None


def _from_npy(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    _only_input(path, specs)
    return from_arrays(path, {specs[0].name: load_npy(path)}, specs)


def _from_npz(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    arrays = load_npz(path)
    inputs = {spec.name for spec in specs}
    labels = [name for name in arrays if name not in inputs and (name == LABELS or name.startswith(f"{LABELS}_"))]
    if len(arrays) == len(specs) + len(labels):
        arrays = {name: array for name, array in arrays.items() if name not in labels}
    return from_arrays(path, arrays, specs)


def from_arrays(path: Path, arrays: Mapping[str, Array], specs: Sequence[InputSpec]) -> SampleSet:
    """Return samples from one array per input, matched by name; by position only if no array has an input's name.

    Raises CalibrationError if names, shapes or counts do not match.
    """
    inputs = [spec.name for spec in specs]
    if set(arrays) & set(inputs) and set(arrays) != set(inputs):
        raise CalibrationError(
            f"contains {_listed(list(arrays))}, but the model's inputs are {_listed(inputs)}",
            where=str(path),
            fix="name each array after its input",
        )
    if len(arrays) != len(specs):
        raise CalibrationError(
            f"contains {len(arrays)} arrays ({', '.join(arrays)}) for {len(specs)} inputs",
            where=str(path),
            fix=f"provide one array for each of {_listed(inputs)}",
        )
    notes: tuple[str, ...] = ()
    names = inputs if set(arrays) == set(inputs) else list(arrays)
    if names != inputs and len(specs) > 1:
        pairs = _listed([f"{name} for {spec.name}" for name, spec in zip(names, specs, strict=True)])
        notes = (f"{path.name}: arrays were matched to inputs in order ({pairs})",)
    columns = [arrays[name] for name in names]
    for array, spec, name in zip(columns, specs, names, strict=True):
        if array.ndim != len(spec.shape) + 1 or not spec.accepts(array.shape[1:]):
            name_text = f" ({name})" if len(specs) > 1 else ""
            raise CalibrationError(
                f"has shape {array.shape}{name_text}, but input {spec.name!r} takes samples of shape {spec.shape_text}",
                where=str(path),
                fix=f"save an array of shape {_with_count(spec.original_shape)}",
            )
    counts = [len(array) for array in columns]
    if len(set(counts)) > 1:
        raise CalibrationError(
            f"has different numbers of samples per input: {', '.join(map(str, counts))}",
            where=str(path),
            fix="provide the same number of samples for every input",
        )
    return SampleSet(
        counts[0],
        lambda index: [column[index] for column in columns],
        lambda index: f"{path} sample {index}" if counts[0] else str(path),
        notes,
    )


def _from_csv(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    _only_input(path, specs)
    return read_csv(path, specs[0])


def _from_directory(path: Path, specs: Sequence[InputSpec]) -> SampleSet:
    """Return a sample for each image or .npy file in the directory and below, sorted by path."""
    _only_input(path, specs)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    images = [file for file in files if file.suffix.lower() in IMAGE_SUFFIXES]
    arrays = [file for file in files if file.suffix.lower() == ".npy"]
    if images and arrays:
        raise CalibrationError("contains both images and .npy files", where=str(path), fix="use only one of the two")
    if not images and not arrays:
        raise CalibrationError("contains no images and no .npy files", where=str(path), fix=KINDS)
    if arrays:
        return SampleSet(len(arrays), lambda index: [load_npy(arrays[index])], lambda index: str(arrays[index]))
    return _images(images, path, specs[0])


def _images(files: Sequence[Path], path: Path, spec: InputSpec) -> SampleSet:
    if len(spec.shape) not in (2, 3) or (len(spec.shape) == 3 and spec.shape[-1] not in IMAGE_MODES):
        raise CalibrationError(
            f"input {spec.name!r} of shape {spec.shape} does not accept images",
            where=str(path),
            fix="images require shape (height, width, channels) with 1, 3 or 4 channels; save other data as .npy",
        )
    notes = (f"{path.name}: images were resized to {spec.shape[1]}x{spec.shape[0]}, pixel values 0 to 255",)
    return SampleSet(len(files), lambda index: [_image(files[index], spec)], lambda index: str(files[index]), notes)


def _image(file: Path, spec: InputSpec) -> Array:
    """Return pixels 0 to 255 as uint8 in the shape of the input; resized bilinearly, not cropped."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("Pillow is not installed", fix="pip install 'edgetool[convert]'") from error
    height, width = spec.shape[:2]
    try:
        with open_data(file) as stream, Image.open(stream, formats=IMAGE_FORMATS) as image:
            if image.width * image.height > IMAGE_LIMIT_PIXELS:
                raise CalibrationError(
                    f"has {image.width}x{image.height} pixels, more than {IMAGE_LIMIT_PIXELS}",
                    where=str(file),
                )
            if image.mode.startswith(("I", "F")):
                raise CalibrationError(
                    f"has more than 8 bits per channel (mode {image.mode})",
                    where=str(file),
                    fix="save it with 8 bits per channel",
                )
            pixels = image.convert(IMAGE_MODES[spec.shape[2] if len(spec.shape) == 3 else 1])
            if pixels.size != (width, height):
                pixels = pixels.resize((width, height), Image.Resampling.BILINEAR)
            values = np.asarray(pixels, dtype=np.uint8).reshape(spec.shape)
            return values if spec.axes is None else values.transpose(np.argsort(spec.axes))
    except CalibrationError:
        raise
    except UnidentifiedImageError as error:
        raise CalibrationError(
            f"is not a {', '.join(IMAGE_FORMATS[:-1])} or {IMAGE_FORMATS[-1]} image",
            where=str(file),
            fix="save it in one of these formats",
        ) from error
    except Exception as error:  # Pillow's decoders raise many kinds of exceptions for damaged files
        raise CalibrationError(
            f"cannot be read as an image ({_short(error)})", where=str(file), fix="repair or remove it"
        ) from error


def _only_input(path: Path, specs: Sequence[InputSpec]) -> None:
    if len(specs) != 1:
        raise CalibrationError(
            f"the model has {len(specs)} inputs",
            where=str(path),
            fix=f"provide an .npz file with arrays named {_listed([spec.name for spec in specs])}",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _with_count(shape: Sequence[int]) -> str:
    return f"(N, {', '.join(map(str, shape))})" if shape else "(N,)"


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


_READERS: dict[str, Callable[[Path, Sequence[InputSpec]], SampleSet]] = {
    ".npy": _from_npy,
    ".npz": _from_npz,
    ".csv": _from_csv,
}
