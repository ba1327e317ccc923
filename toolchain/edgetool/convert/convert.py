"""Convert a model in a child process: check the request, run the child, and collect its files."""

from __future__ import annotations

import platform
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetool import child
from edgetool.convert.request import (
    CALIBRATION_INPUTS,
    CALIBRATION_OUTPUTS,
    EVALUATION_INPUTS,
    EVALUATION_OUTPUTS,
    LABELS_FILE,
    READING_STEP,
    TFLITE_FILE,
    Conversion,
    ConvertRequest,
    Evaluation,
    array_files,
)
from edgetool.errors import CalibrationError, InvalidModelError, UsageError

if TYPE_CHECKING:
    from edgetool.convert.request import Array

# A crash ends a process with a signal; an exit status means that some code called an exit function.
_EXITED = re.compile(r"crashed with exit status \d+")


def check_exists(path: Path, kind: type[UsageError], fix: str) -> None:
    """Raise `kind` if the path is not an accessible file or directory."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise kind((error.strerror or "cannot be read").lower(), where=str(path), fix=fix) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a pipe or a device may never end
        raise kind("is neither a file nor a directory", where=str(path), fix=fix)


def run_on_model(
    module: str,
    message: Mapping[str, Any],
    path: Path,
    *,
    workdir: Path,
    limits: child.ProcessLimits,
    doing: str,
    advice: str,
    progress: child.Progress | None,
) -> dict[str, Any]:
    """Run child.run on a request about the model at `path`, confined unless its code is trusted.

    A note in the result names the access that the system could not block. Raises the errors of child.run, which name
    the trusted code if it terminated the process, and InvalidModelError if the child crashes while it reads the file.
    """
    step = ""

    def follow(text: str) -> None:
        nonlocal step
        step = text
        if progress is not None:
            progress(text)

    trusted = bool(message.get("trust_model_code"))
    try:
        result = child.run(
            module,
            message,
            workdir=workdir,
            limits=limits,
            doing=doing,
            advice=advice,
            progress=follow,
            trusted=trusted,
        )
    except child.ChildDiedError as error:
        if _EXITED.search(error.what) and message.get("trust_model_code"):
            code = message.get("custom_objects")
            raise child.ChildDiedError(
                f"code in the model terminated the process {doing}" + (f" while {step}" if step else ""),
                where=code or str(path),
                fix="remove the code that exits Python (os._exit), or run that code separately to find it",
                details=error.details,
            ) from error
        if step != READING_STEP:
            raise
        raise InvalidModelError(
            "the file is so badly damaged that reading it crashed or never finished",
            where=str(path),
            fix="copy or save it again",
            details=error.details,
        ) from error
    return {**result, "notes": [*result["notes"], *_unconfined(result.get(child.UNCONFINED, ()))]}


def _unconfined(missing: Sequence[str]) -> tuple[str, ...]:
    """Return a note for the user if the system could not confine the child."""
    if not missing:
        return ()
    return (
        f"the model was read in a process with access to {' and '.join(missing)}, because "
        f"this system ({platform.system()}, {platform.machine()}) cannot block it",
    )


WORKER = "edgetool.convert.worker"
ADVICE = "try another --quantize, a smaller model or fewer samples, or raise the limits"


def convert_model(request: ConvertRequest, *, workdir: Path, progress: child.Progress | None = None) -> Conversion:
    """Convert in a child process. `workdir` is an empty directory that outlives the use of the arrays.

    Raises UsageError (missing file), CalibrationError, MissingExtraError, InvalidModelError,
    UnsupportedModelError, or ConversionError if the converter rejects the model or the process dies.
    """
    check_exists(request.path, UsageError, "check the path of the model")
    for data in (request.calibration, request.evaluate):
        if data is not None:
            check_exists(data, CalibrationError, "check the path of the data")
    if request.custom_objects is not None:
        check_exists(request.custom_objects, UsageError, "check the path of the module")
    result = run_on_model(
        WORKER,
        _message(request),
        request.path,
        workdir=workdir,
        limits=request.limits,
        doing="converting the model",
        advice=ADVICE,
        progress=progress,
    )
    inputs, outputs = result["inputs"], result["outputs"]
    evaluation = None
    if request.evaluate is not None:
        evaluation = Evaluation(
            inputs=_arrays(workdir, EVALUATION_INPUTS, inputs),
            labels=_array(workdir / LABELS_FILE),
            float_outputs=_arrays(workdir, EVALUATION_OUTPUTS, outputs),
            output=outputs.index(result["labelled_output"]),
        )
    return Conversion(
        tflite=(workdir / TFLITE_FILE).read_bytes(),
        calibrated=request.calibration is not None,
        samples=result["samples"],
        inputs=_arrays(workdir, CALIBRATION_INPUTS, inputs),
        float_outputs=_arrays(workdir, CALIBRATION_OUTPUTS, outputs) if request.compare else (),
        input_names=tuple(result["input_names"]),
        output_names=tuple(result["output_names"]),
        evaluation=evaluation,
        versions=result["versions"],
        notes=(*result["notes"], *_notes(request)),
        layers=result["layers"],
        output_layers=tuple(result["output_layers"]),
        fused=tuple(result["fused"]),
        debug=result["debug"],
        layout_notes=tuple(result["layout_notes"]),
    )


def _message(request: ConvertRequest) -> dict[str, Any]:
    """Return the request as JSON, with paths as given: the child has the same working directory."""
    return {
        "path": str(request.path),
        "quantize": request.scheme,
        "io_type": request.io_type,
        "dense_per_tensor": _dense_per_tensor(request),
        "calibration": _text(request.calibration),
        "evaluate": _text(request.evaluate),
        "mean": request.mean,
        "std": request.std,
        "scale": request.scale,
        "offset": request.offset,
        "samples": request.samples,
        "seed": request.seed,
        "trust_model_code": request.trust_model_code,
        "compare": request.compare,
        "rnn": request.rnn,
        "allow_approximation": request.allow_approximation,
        "signature": request.signature,
        "custom_objects": _text(request.custom_objects),
        "input_shapes": request.input_shapes,
        "keep_float": request.keep_float,
        "debug_quantization": request.debug_quantization,
        "keep_layout": request.keep_layout,
    }


def _dense_per_tensor(request: ConvertRequest) -> bool:
    return request.dense_per_tensor or request.scheme == "int16x8"


def _notes(request: ConvertRequest) -> tuple[str, ...]:
    notes = []
    if _dense_per_tensor(request) and not request.dense_per_tensor:
        notes.append(
            "dense weights have one scale per tensor: CMSIS-NN supports only per-tensor scales with int16 activations"
        )
    return tuple(notes)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _arrays(workdir: Path, role: str, order: list[int]) -> tuple[Array, ...]:
    """Return the arrays of a role in the order of the .tflite."""
    paths = array_files(workdir, role, len(order))
    return tuple(_array(paths[index]) for index in order)


def _array(path: Path) -> Array:
    import numpy as np

    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
