"""What the float original says to the samples: all variants of it are compared with that."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.convert.quality import accuracy
from edgetool.convert.request import Conversion
from edgetool.errors import ConversionError, InternalError

Array = npt.NDArray[Any]
CHUNK_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class Reference:
    """The outputs of the float original, by name, and the hashes of the inputs that they are for, by name.

    outputs: for the calibration (or synthetic) samples, (N, ...) each. evaluated: for the evaluation samples, as many
    arrays, or none without them. float_accuracy: the share of right answers to those, None without them.
    """

    input_names: tuple[str, ...]
    input_hashes: tuple[str, ...]
    output_names: tuple[str, ...]
    outputs: tuple[Array, ...]
    evaluated: tuple[Array, ...] = ()
    evaluated_hashes: tuple[str, ...] = ()
    float_accuracy: float | None = None


def reference_of(conversion: Conversion) -> Reference:
    """The reference of a conversion of the original.

    Raises ConversionError when an output is not finite: nothing can be compared with that; CalibrationError when the
    labels do not fit the outputs.
    """
    evaluation = conversion.evaluation
    _check_finite(
        conversion.output_names, conversion.float_outputs, "calibration" if conversion.calibrated else "synthetic"
    )
    if evaluation is not None:
        _check_finite(conversion.output_names, evaluation.float_outputs, "evaluation")
    return Reference(
        input_names=conversion.input_names,
        input_hashes=tuple(map(_hash, conversion.inputs)),
        output_names=conversion.output_names,
        outputs=conversion.float_outputs,
        evaluated=evaluation.float_outputs if evaluation is not None else (),
        evaluated_hashes=tuple(map(_hash, evaluation.inputs)) if evaluation is not None else (),
        float_accuracy=(
            accuracy(evaluation.float_outputs[evaluation.output], evaluation.labels) if evaluation is not None else None
        ),
    )


def outputs_for(conversion: Conversion, reference: Reference) -> tuple[int, ...]:
    """The position in the reference of each output of the conversion, which may have them in another order.

    Raises InternalError unless both have the same outputs and were made from the same samples.
    """
    inputs = _positions(conversion.input_names, reference.input_names, "inputs")
    evaluation = conversion.evaluation
    for arrays, hashes in (
        (conversion.inputs, reference.input_hashes),
        (evaluation.inputs if evaluation is not None else (), reference.evaluated_hashes),
    ):
        if list(map(_hash, arrays)) != [hashes[index] for index in inputs if hashes]:
            raise InternalError("the variant and its original were run on different samples", fix="please report this")
    return _positions(conversion.output_names, reference.output_names, "outputs")


def write_reference(reference: Reference, path: Path) -> None:
    """Write it as an .npz."""
    arrays: dict[str, Array] = {
        "input_names": np.array(reference.input_names),
        "input_hashes": np.array(reference.input_hashes),
        "evaluated_hashes": np.array(reference.evaluated_hashes, dtype="U64"),
        "output_names": np.array(reference.output_names),
        "float_accuracy": np.array([] if reference.float_accuracy is None else [reference.float_accuracy]),
        **{f"output_{index}": np.asarray(array) for index, array in enumerate(reference.outputs)},
        **{f"evaluated_{index}": np.asarray(array) for index, array in enumerate(reference.evaluated)},
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_reference(path: Path) -> Reference:
    """What write_reference wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        names = tuple(map(str, arrays["output_names"]))
        evaluated = range(len(names)) if len(arrays["evaluated_hashes"]) else ()
        return Reference(
            input_names=tuple(map(str, arrays["input_names"])),
            input_hashes=tuple(map(str, arrays["input_hashes"])),
            output_names=names,
            outputs=tuple(arrays[f"output_{index}"] for index in range(len(names))),
            evaluated=tuple(arrays[f"evaluated_{index}"] for index in evaluated),
            evaluated_hashes=tuple(map(str, arrays["evaluated_hashes"])),
            float_accuracy=next(map(float, arrays["float_accuracy"]), None),
        )


def _positions(names: Sequence[str], original: Sequence[str], what: str) -> tuple[int, ...]:
    """Where each of the names is in the original's; a single one is the same, whatever it is called."""
    if len(names) == len(original) == 1:
        return (0,)
    if sorted(names) != sorted(original):
        raise InternalError(
            f"the {what} of the variant are {', '.join(names)}, those of its original {', '.join(original)}",
            fix="please report this and attach the model",
        )
    return tuple(original.index(name) for name in names)


def _check_finite(names: Sequence[str], outputs: Sequence[Any], of: str) -> None:
    for name, array in zip(names, outputs, strict=True):
        for start in range(0, len(array), CHUNK_SAMPLES):
            finite = np.isfinite(array[start : start + CHUNK_SAMPLES]).reshape(-1)
            if not finite.all():
                raise ConversionError(
                    f"the float model's output {name!r} is NaN or infinite on the {of} samples",
                    fix="fix the model, or use samples like those it was trained on",
                )


def _hash(array: Any) -> str:
    """The hash of type, shape and values; a part of a mapped file at a time."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    for start in range(0, len(array), CHUNK_SAMPLES):
        digest.update(np.ascontiguousarray(array[start : start + CHUNK_SAMPLES]).tobytes())
    return digest.hexdigest()
