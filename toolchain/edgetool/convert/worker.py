"""The child process that converts a model file into .tflite bytes; convert.convert_model starts it.

It loads the file, plans what the converter traces instead of the layers' own calls, converts the model with its
recurrent layers fused or unrolled, and writes bytes and arrays to the work directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.calibration import read_evaluation, read_samples
from edgetool.convert.exported_program import pickled_error
from edgetool.convert.float_model import FloatModel, check_traced, output_shape, run_float_model
from edgetool.convert.float_tflite import check_quantizable, float_tflite, loaded_tflite
from edgetool.convert.imported import ImportedModel, for_device, layout_notes, original_model
from edgetool.convert.keras_model import float_model
from edgetool.convert.known_sizes import with_known_sizes
from edgetool.convert.lite import start_lite
from edgetool.convert.load_keras import (
    checked_config,
    library_versions,
    load_keras_file,
    name_file_in_errors,
    start_keras,
)
from edgetool.convert.load_onnx import import_onnx
from edgetool.convert.load_saved_model import load_saved_model
from edgetool.convert.load_torch import import_program
from edgetool.convert.lowering.context import LoweringOptions
from edgetool.convert.lowering.cut_open import open_cuts
from edgetool.convert.lowering.lower import Lowering, plan_lowering
from edgetool.convert.onnx_file import read_onnx
from edgetool.convert.quality import class_indices
from edgetool.convert.quantizer import LayerMap
from edgetool.convert.request import (
    CALIBRATION_INPUTS,
    CALIBRATION_OUTPUTS,
    EVALUATION_INPUTS,
    EVALUATION_OUTPUTS,
    INTEGER,
    LABELS_FILE,
    NORMALISATION,
    ONNX_SUFFIX,
    PROGRAM_SUFFIX,
    READING_STEP,
    TFLITE_FILE,
    TFLITE_SUFFIX,
    array_files,
)
from edgetool.convert.samples import Array, Normalisation, SampleSet, check_varied, store, synthetic_samples
from edgetool.convert.source import ModelFile, read_model_file
from edgetool.convert.tflite import ConversionResult, ConverterOptions, Order, convert, order_of
from edgetool.convert.unrolled_lstms import quantize_with_lstms
from edgetool.errors import ConversionError, UnsupportedModelError, UsageError
from edgetool.model.reader import read_model
from edgetool.model.types import Model


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to be converted. keras: the module of its layers. lowering: empty for a SavedModel.

    unrolled: returns the same with its recurrent layers copied for each time step; None if the user chose their form.
    """

    model: FloatModel
    keras: Any
    lowering: Lowering
    unrolled: Callable[[], LoadedModel] | None = None


def load(
    tf: Any, keras: Any, source: ModelFile, config: dict[str, Any] | None, request: Mapping[str, Any], workdir: Path
) -> LoadedModel:
    """Load a Keras file with its checked configuration, or a SavedModel (config None).

    request: the message of the conversion. Raises the errors of the loaders, plan_lowering and float_model, and
    UsageError for options that do not apply to the file.
    """
    trust, shapes, signature = bool(request["trust_model_code"]), request["input_shapes"], request["signature"]
    custom_objects = request["custom_objects"]
    if config is None:
        if custom_objects is not None:
            raise UsageError(
                "a SavedModel stores its layers as graphs", where="--custom-objects", fix="omit --custom-objects"
            )
        if request["rnn"] != "auto":
            raise UsageError("a SavedModel stores its layers as graphs", where="--rnn", fix="omit the option")
        model = load_saved_model(tf, source.path, trust_model_code=trust, signature=signature, input_shapes=shapes)
        return LoadedModel(model, keras, Lowering({}, (), (), ()))
    if signature is not None:
        raise UsageError("a Keras file has no signatures", where="--signature", fix="omit it, or use a SavedModel")
    loaded = load_keras_file(
        keras,
        source,
        config,
        workdir,
        trust_model_code=trust,
        custom_objects=None if custom_objects is None else Path(custom_objects),
    )
    # First, because it may disable a leading layer, whose new call is then lowered.
    model = float_model(loaded.keras, loaded.model, source.path, shapes)
    notes = (*loaded.notes, *model.notes)

    def in_form(rnn: str) -> LoadedModel:
        options = LoweringOptions(rnn, request["quantize"], bool(request["allow_approximation"]))
        with name_file_in_errors(source.path):
            lowering = plan_lowering(tf, loaded.keras, loaded.model, options)

        def traced(tensors: Sequence[Any]) -> list[Any]:
            with lowering.active():
                return model.call(tensors)

        ready = replace(model, traced=traced, notes=(*notes, *lowering.notes), as_tensor=tf.constant)
        return LoadedModel(ready, loaded.keras, lowering)

    if request["rnn"] != "auto":
        return in_form(request["rnn"])
    return replace(in_form("auto"), unrolled=lambda: in_form("unrolled"))


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A .tflite and the float model in the form that was converted.

    layers: by scope, and the layer of each output. fused: the scopes of recurrent layers that became one operator.
    """

    content: bytes
    model: FloatModel
    order: Order
    layers: LayerMap
    fused: tuple[str, ...]
    debug: dict[str, Any] | None
    notes: tuple[str, ...]


def convert_loaded(
    tf: Any,
    loaded: LoadedModel,
    samples: Sequence[Any],
    options: ConverterOptions,
    workdir: Path,
    progress: child.Progress,
) -> ConvertedModel:
    """Convert with fused recurrent layers; if that fails, with a copy for each time step.

    The second attempt requires that the user did not choose the form. Raises as tflite.convert does; if both forms
    fail, the first error.
    """
    try:
        return _convert_form(tf, loaded, samples, options, workdir, progress)
    except (ConversionError, UnsupportedModelError) as error:
        if loaded.unrolled is None or not loaded.lowering.cuts.lstms:
            raise
        fused_error = error
    progress("unrolling recurrent layers")
    try:
        converted = _convert_form(tf, loaded.unrolled(), samples, options, workdir, progress)
    except (ConversionError, UnsupportedModelError):
        raise fused_error from None
    note = f"the recurrent layers were unrolled because fusing each into one operator failed: {fused_error.what}"
    return replace(converted, notes=(note, *converted.notes))


def _convert_form(
    tf: Any,
    loaded: LoadedModel,
    samples: Sequence[Any],
    options: ConverterOptions,
    workdir: Path,
    progress: child.Progress,
) -> ConvertedModel:
    model, lowering = loaded.model, loaded.lowering
    producers = dict(zip(model.signature_outputs, lowering.output_layers, strict=False))  # unknown for a SavedModel
    layers = LayerMap(lowering.layers, producers)
    with lowering.active():
        opened = open_cuts(tf, model, lowering.cuts, samples, options.quantize, progress)
        converted = convert(tf, opened.model, opened.samples, options, workdir, progress, layers)
        content = opened.join(converted.content)
    order = order_of(content, model)
    notes = (*opened.notes, *converted.notes)
    return ConvertedModel(content, model, order, layers, opened.fused, converted.debug, notes)


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Convert as requested; bytes and arrays go to files in workdir, the rest is returned."""
    path = Path(request["path"])
    options = ConverterOptions(
        request["quantize"],
        request["io_type"],
        bool(request["dense_per_tensor"]),
        tuple(request["keep_float"]),
        bool(request["debug_quantization"]),
    )
    progress(READING_STEP)
    prepare = _PREPARE.get(path.suffix.lower(), _keras) if path.is_file() else _keras
    opened = prepare(path, request, options, workdir, progress)
    model = opened.model
    integer = options.quantize in INTEGER
    progress("reading the samples")
    normalisation = Normalisation.of(*(request[name] for name in NORMALISATION))
    samples = _calibration_samples(request, model)
    applied = normalisation if request["calibration"] else None
    inputs = len(model.specs)
    arrays = store(samples, model.specs, applied, array_files(workdir, CALIBRATION_INPUTS, inputs))
    if integer:
        check_varied(arrays, model.specs, *_origin(request))
    # Before the long work, so that an error in the data is reported immediately.
    labelled, labelled_output = _evaluation_samples(request["evaluate"], model, normalisation, workdir)
    with name_file_in_errors(path):
        converted = opened.convert(arrays)
    model, order = converted.model, converted.order
    traced = check_traced(model, arrays, workdir)
    (workdir / TFLITE_FILE).write_bytes(converted.content)
    outputs = len(model.output_names)
    if request["compare"]:
        run_float_model(model, arrays, array_files(workdir, CALIBRATION_OUTPUTS, outputs), progress)
    if labelled:
        stored = array_files(workdir, EVALUATION_OUTPUTS, outputs)
        run_float_model(model, labelled, stored, progress)
    return {
        "samples": samples.count,
        "inputs": order.inputs,
        "outputs": order.outputs,
        "input_names": (names := [model.specs[index].name for index in order.inputs]),
        "output_names": (results := [model.output_names[index] for index in order.outputs]),
        "labelled_output": labelled_output,
        "layers": converted.layers.classes,
        "output_layers": [converted.layers.outputs.get(model.signature_outputs[index], "") for index in order.outputs],
        "fused": converted.fused,
        "debug": converted.debug,
        "versions": opened.versions,
        "layout_notes": opened.layout_notes,
        "notes": [
            *opened.notes,
            *model.notes,
            *converted.notes,
            *traced,
            *samples.notes,
            *_order_note("has its inputs", order.inputs, names),
            *_order_note("has its outputs", order.outputs, results),
        ],
    }


@dataclass(frozen=True, slots=True)
class _PreparedModel:
    """A model to convert: the float model, and a function that converts it with stored samples.

    versions: those of Python and of the libraries that take part.
    """

    model: FloatModel
    convert: Callable[[Sequence[Array]], ConvertedModel]
    versions: Mapping[str, str]
    notes: tuple[str, ...] = ()
    layout_notes: tuple[str, ...] = ()


def _keras(
    path: Path, request: dict[str, Any], options: ConverterOptions, workdir: Path, progress: child.Progress
) -> _PreparedModel:
    """Prepare a Keras file or a SavedModel."""
    source = read_model_file(path)
    config, notes = checked_config(source, bool(request["trust_model_code"]))
    progress("loading TensorFlow")
    tf, keras = start_keras(workdir)
    progress("loading the model")
    loaded = load(tf, keras, source, config, request, workdir)

    def convert(samples: Sequence[Array]) -> ConvertedModel:
        return convert_loaded(tf, loaded, samples, options, workdir, progress)

    return _PreparedModel(loaded.model, convert, library_versions(tf, loaded.keras), notes)


def _tflite(
    path: Path, request: dict[str, Any], options: ConverterOptions, workdir: Path, progress: child.Progress
) -> _PreparedModel:
    """Prepare a float .tflite; TensorFlow receives it as our writer wrote it, after our reader accepted it."""
    source = read_model(path.read_bytes(), name=str(path))
    check_quantizable(source, options.quantize, str(path))
    progress("loading TensorFlow Lite")
    versions = start_lite()

    def known_sizes(original: Model) -> Model:
        return with_known_sizes(original, str(path))

    tflite = float_tflite(source, options.quantize, str(path), known_sizes=known_sizes)
    model = loaded_tflite(tflite)
    order = Order(tuple(range(len(tflite.specs))), tuple(range(len(model.output_names))))

    def convert(samples: Sequence[Array]) -> ConvertedModel:
        converted = quantize_with_lstms(tflite, samples, options, workdir, progress)
        return ConvertedModel(converted.content, model, order, tflite.layers, (), converted.debug, converted.notes)

    return _PreparedModel(model, convert, versions)


def _program(
    path: Path, request: dict[str, Any], options: ConverterOptions, workdir: Path, progress: child.Progress
) -> _PreparedModel:
    """Prepare a PyTorch program."""
    imported = import_program(path, request["input_shapes"], workdir, progress)
    progress("loading TensorFlow Lite")
    return _imported(path, imported, start_lite(), request, options, workdir, progress)


def _pickled(
    path: Path, request: dict[str, Any], options: ConverterOptions, workdir: Path, progress: child.Progress
) -> _PreparedModel:
    """Refuse a pickled PyTorch file."""
    raise pickled_error(path)


def _onnx(
    path: Path, request: dict[str, Any], options: ConverterOptions, workdir: Path, progress: child.Progress
) -> _PreparedModel:
    """Prepare an ONNX model."""
    source = read_onnx(path)  # before TensorFlow, which takes seconds, so that an error is reported immediately
    progress("loading TensorFlow")
    tf, keras = start_keras(workdir)
    progress("importing the model")
    imported = import_onnx(tf, source, path, request["input_shapes"], workdir, progress)
    return _imported(path, imported, library_versions(tf, keras), request, options, workdir, progress)


def _imported(
    path: Path,
    imported: ImportedModel,
    versions: Mapping[str, str],
    request: dict[str, Any],
    options: ConverterOptions,
    workdir: Path,
    progress: child.Progress,
) -> _PreparedModel:
    """Prepare a model that another framework wrote: the .tflite is quantized, and the original is the float model."""
    layout = for_device(imported, keep_layout=bool(request["keep_layout"]))
    scheme = options.quantize if options.quantize in INTEGER else "int8"
    tflite = float_tflite(layout.model, scheme, str(path))
    original = original_model(imported, tflite, layout)
    names = tflite.model.signatures[0].outputs
    outputs = {name: layer for (name, _), layer in zip(names, imported.output_layers, strict=False)}
    layers = LayerMap(imported.layers, outputs)
    tflite = replace(tflite, layers=layers)
    order = Order(tuple(range(len(tflite.specs))), tuple(range(len(original.output_names))))

    def convert(samples: Sequence[Array]) -> ConvertedModel:
        if options.quantize in INTEGER:
            converted = quantize_with_lstms(tflite, samples, options, workdir, progress)
        else:
            converted = ConversionResult(tflite.content)
        return ConvertedModel(converted.content, original, order, layers, (), converted.debug, converted.notes)

    versions = {**versions, **imported.versions}
    return _PreparedModel(original, convert, versions, imported.notes, layout_notes(imported, layout))


# Suffix of a file -> how it is prepared; all others are Keras files and SavedModels.
_PREPARE = {TFLITE_SUFFIX: _tflite, PROGRAM_SUFFIX: _program, ONNX_SUFFIX: _onnx, ".pt": _pickled, ".pth": _pickled}


def _order_note(verb: str, order: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """Return a note if the order of the .tflite is not the model's."""
    if list(order) == sorted(order):
        return ()
    return (f"the .tflite {verb} in the order {', '.join(names)}",)


def _origin(request: dict[str, Any]) -> tuple[str, str]:
    """Return the origin of the samples, and what to do if they do not vary."""
    if request["calibration"]:
        return request["calibration"], "use real inputs, which vary"
    return "--samples", "use more samples, or real inputs with --calibration"


def _calibration_samples(request: dict[str, Any], model: FloatModel) -> SampleSet:
    if request["calibration"]:
        return read_samples(Path(request["calibration"]), model.specs)
    return synthetic_samples(model.specs, model.ranges, request["samples"], request["seed"])


def _evaluation_samples(
    file: str | None, model: FloatModel, normalisation: Normalisation | None, workdir: Path
) -> tuple[tuple[Array, ...], int]:
    """Return the evaluation samples, (N, ...) per input, and the output of their labels; labels go to a file."""
    if file is None:
        return (), 0
    evaluation = read_evaluation(Path(file), model.specs, model.output_names)
    stored = array_files(workdir, EVALUATION_INPUTS, len(model.specs))
    arrays = store(evaluation.samples, model.specs, normalisation, stored)
    shape = output_shape(model, arrays, evaluation.output, workdir)
    class_indices(evaluation.labels, shape, where=file)
    np.save(workdir / LABELS_FILE, evaluation.labels, allow_pickle=False)
    return arrays, evaluation.output


if __name__ == "__main__":
    child.serve(work)
