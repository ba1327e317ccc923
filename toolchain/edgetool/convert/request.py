"""The request for a conversion, its result, and the files in which the child process leaves its arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgetool.child import ProcessLimits
from edgetool.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

QuantizeScheme = Literal["int8", "int16x8", "float32", "float16"]
IoType = Literal["int8", "int16", "uint8", "float32"]
# How recurrent layers become operators: "fused" is one operator per layer, "unrolled" copies it for each time step.
RnnForm = Literal["auto", "fused", "unrolled"]

# Scheme -> the types of its inputs and outputs; the first is the default.
IO_TYPES: dict[str, tuple[str, ...]] = {
    "int8": ("int8", "uint8", "float32"),
    "int16x8": ("int16", "float32"),
    "float32": ("float32",),
    "float16": ("float32",),
}
# Schemes with integer activations: they need the range of every tensor, and therefore samples.
INTEGER = frozenset(["int8", "int16x8"])
# Fields of requests that normalise data; in JSON they are lists or null.
NORMALISATION = ("mean", "std", "scale", "offset")
# How channels are ranked for pruning.
PruningMethod = Literal["l1", "batch-norm"]
PRUNING_METHODS: tuple[PruningMethod, ...] = ("l1", "batch-norm")
# An argument of a builder.
BuilderArgument = int | float | str | bool
DEFAULT_SAMPLES = 100
MAX_SAMPLES = 100_000
TFLITE_SUFFIX = ".tflite"
# Programs that torch.export.save wrote.
PROGRAM_SUFFIX = ".pt2"
ONNX_SUFFIX = ".onnx"
# The step in which only the file itself can crash the child.
READING_STEP = "reading the model"
# Files that the child leaves in the work directory, and the roles of arrays in the names of array_files.
TFLITE_FILE = "converted.tflite"
LABELS_FILE = "labels.npy"
CALIBRATION_INPUTS = "input"
CALIBRATION_OUTPUTS = "output"
EVALUATION_INPUTS = "evaluation-input"
EVALUATION_OUTPUTS = "evaluation-output"


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """A model and how to convert it.

    path: .h5, .keras, a SavedModel directory, .pt2 (PyTorch), .onnx, or a .tflite in float32.
    quantize: None leaves a .tflite as it is, and is int8 for other models; "float16" is weights in float16 with
        arithmetic in float32, which stock TFLM does not run.
    io: the type of float inputs and outputs in the .tflite; None for the scheme's own (int8, int16, float32).
    dense_per_tensor: one scale for all weights of a dense layer (always for int16x8: CMSIS-NN supports no other).
    calibration: .npy, .npz, .csv, or a directory of images or .npy files; all of its samples are used.
    mean, std: float inputs become (x - mean) / std; scale, offset: x * scale + offset. One value, or one per
        index of the last axis.
    samples, seed: size and seed of the synthetic set that replaces missing calibration data.
    trust_model_code: load layers that carry Python code.
    evaluate: an .npz with x (or one array per input name) and y.
    compare: compute the float model's outputs for the calibration samples after converting.
    rnn: how recurrent layers become operators.
    allow_approximation: approximate an activation that TFLM does not support instead of computing it exactly.
    signature: the SavedModel's signature; None for its serving one.
    custom_objects: a Python module with the model's own layers and functions; code, so only with trust_model_code.
    input_shapes: sizes without batch for inputs whose own are not fixed, by name; None names the only input.
    keep_float: Keras layers left in float32, by name.
    debug_quantization: measure the loss of each layer.
    keep_layout: keep the order of the axes of a PyTorch or ONNX model's inputs and outputs; otherwise their channels
        are last.
    optimize: clean up the model, and leave its outputs the same; None for all models but a .tflite used as it is.

    Raises UsageError for invalid combinations.
    """

    path: Path
    quantize: QuantizeScheme | None = None
    io: IoType | None = None
    dense_per_tensor: bool = False
    calibration: Path | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    offset: tuple[float, ...] | None = None
    samples: int = DEFAULT_SAMPLES
    seed: int = 0
    trust_model_code: bool = False
    evaluate: Path | None = None
    compare: bool = True
    rnn: RnnForm = "auto"
    allow_approximation: bool = False
    signature: str | None = None
    custom_objects: Path | None = None
    input_shapes: tuple[tuple[str | None, tuple[int, ...]], ...] = ()
    keep_float: tuple[str, ...] = ()
    debug_quantization: bool = False
    keep_layout: bool = False
    optimize: bool | None = None
    limits: ProcessLimits = field(default_factory=ProcessLimits)

    def __post_init__(self) -> None:
        if self.scheme not in IO_TYPES:
            raise UsageError(
                f"unknown quantization {self.scheme!r}", where="--quantize", fix=f"use {_choices(IO_TYPES)}"
            )
        left_as_it_is = self.quantize is None and self.path.suffix.lower() == TFLITE_SUFFIX
        if self.io is not None and self.io not in IO_TYPES[self.scheme] and not left_as_it_is:
            raise UsageError(
                f"{_with_article(self.scheme)} model cannot have {self.io} inputs and outputs",
                where="--io",
                fix=f"use {_choices(IO_TYPES[self.scheme])}, or another --quantize",
            )
        if self.dense_per_tensor and self.scheme not in INTEGER:
            raise UsageError(
                f"{_with_article(self.scheme)} model has no scales",
                where="--dense-per-tensor",
                fix="omit it, or use --quantize int8",
            )
        for given, option in ((self.keep_float, "--keep-float"), (self.debug_quantization, "--debug-quantization")):
            if given and self.scheme != "int8":
                # TensorFlow quantizes int16x8 with an older quantizer, which has neither.
                raise UsageError(
                    f"{_with_article(self.scheme)} model has no quantized layers to measure or to keep in float",
                    where=option,
                    fix="omit it, or use --quantize int8",
                )
        if self.custom_objects is not None and not self.trust_model_code:
            raise UsageError(
                f"{self.custom_objects} contains code that would be executed",
                where="--custom-objects",
                fix="add --trust-model-code if you trust it",
            )
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise UsageError(
                f"{self.samples} is not between 1 and {MAX_SAMPLES}",
                where="--samples",
                fix=f"{DEFAULT_SAMPLES} is a good choice",
            )
        if self.seed < 0:
            raise UsageError(f"{self.seed} is negative", where="--seed", fix="use 0 or more")
        normalised = check_normalisation(self.mean, self.std, self.scale, self.offset)
        if normalised and self.calibration is None and self.evaluate is None:
            raise UsageError(
                "--mean, --std, --scale and --offset apply to calibration or evaluation data, but none was specified",
                fix="add --calibration or --evaluate",
            )

    @property
    def scheme(self) -> QuantizeScheme:
        """How the model is converted; `quantize` with its default."""
        return self.quantize or "int8"

    @property
    def io_type(self) -> str:
        """The type of float inputs and outputs in the .tflite."""
        return self.io or IO_TYPES[self.scheme][0]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Labelled samples and the float model's outputs for them.

    inputs: per input in .tflite order, (N, ...), after mean/std or scale/offset. labels: y as in the file.
    float_outputs: per output in .tflite order, (N, ...). output: the position in them of the output that the labels
    are for: the float model's first, or the one that the file names.
    """

    inputs: tuple[Array, ...]
    labels: Array
    float_outputs: tuple[Array, ...]
    output: int


@dataclass(frozen=True, slots=True)
class Conversion:
    """A converted model, with samples and outputs to judge it.

    tflite: the file's bytes. calibrated: whether the user gave calibration data. samples: how many were used.
    inputs: the calibration samples as the float model receives them, per graph input of the .tflite, each of shape
        (N,) + shape without batch; read-only maps of files in the work directory.
    float_outputs: the float model's outputs for them, per graph output; empty if not requested.
    input_names, output_names: what the Keras model or the SavedModel's signature calls each graph input and output.
    evaluation: the same for the labelled samples, None if not requested.
    layers: the Keras class by the scope of each layer, which begins the names of the tensors that it became.
    output_layers: the scope of the layer that computes each graph output, "" if unknown. fused: the scopes of recurrent
        layers that became one operator.
    debug: the loss of each layer, as in convert.debug; None if not requested.
    versions: the versions of python, tensorflow and keras. notes: for the user, one sentence each. layout_notes: the
        same about inputs and outputs whose axes are in another order than in the original.
    """

    tflite: bytes
    calibrated: bool
    samples: int
    inputs: tuple[Array, ...]
    float_outputs: tuple[Array, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    evaluation: Evaluation | None
    versions: dict[str, str]
    notes: tuple[str, ...]
    layers: Mapping[str, str] = field(default_factory=dict)
    output_layers: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()
    debug: Mapping[str, Any] | None = None
    layout_notes: tuple[str, ...] = ()


def array_files(workdir: Path, role: str, count: int) -> list[Path]:
    """Return the .npy files of all inputs or outputs, numbered in the float model's order."""
    return [workdir / f"{role}-{index}.npy" for index in range(count)]


def check_normalisation(
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    scale: tuple[float, ...] | None,
    offset: tuple[float, ...] | None,
) -> bool:
    """Return whether any is given. Raises UsageError if they exclude each other or are invalid."""
    if (mean is not None or std is not None) and (scale is not None or offset is not None):
        raise UsageError("--mean/--std and --scale/--offset are mutually exclusive", fix="use only one of the pairs")
    given = {"mean": mean, "std": std, "scale": scale, "offset": offset}
    for name, values in given.items():
        if values is None:
            continue
        if not values or not all(math.isfinite(value) for value in values):
            raise UsageError("requires finite numbers", where=f"--{name}", fix="use one number, or one per channel")
        if name == "scale" and 0 in values:
            raise UsageError("0 would set all data to the same value", where="--scale", fix="use a number other than 0")
        if name == "std" and min(values) <= 0:
            raise UsageError(
                f"{min(values):g} is not a valid standard deviation", where="--std", fix="use a number greater than 0"
            )
    return any(values is not None for values in given.values())


def _with_article(scheme: str) -> str:
    """Return, for example, "an int8" or "a float32"."""
    return f"{'an' if scheme.startswith('i') else 'a'} {scheme}"


def _choices(names: Any) -> str:
    *rest, last = names
    return f"{', '.join(rest)} or {last}" if rest else str(last)
