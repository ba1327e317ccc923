"""From a float model to .tflite bytes through TensorFlow's converter: in the child process only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert.float_model import FloatModel
from edgetool.convert.load_saved_model import SERVING
from edgetool.convert.request import INTEGER
from edgetool.errors import ConversionError, EdgetoolError, UnsupportedModelError

# Progress is told at most this often in one pass over the samples.
PROGRESS_STEPS = 100
LOOPS = frozenset(["While", "StatelessWhile"])


@dataclass(frozen=True, slots=True)
class Options:
    """How to quantize: the scheme, the type of inputs and outputs, and dense weights with one scale."""

    quantize: str
    io_type: str
    dense_per_tensor: bool


@dataclass(frozen=True, slots=True)
class Order:
    """For each graph input and output of the .tflite: the index of the float model's input or output."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def convert(
    tf: Any,
    model: FloatModel,
    samples: Sequence[Any],
    options: Options,
    workdir: Path,
    progress: child.Progress,
) -> bytes:
    """The .tflite for one sample at a time; `samples` has one array (N, ...) per input.

    Raises ConversionError with the operators or the message that the converter names, and UnsupportedModelError for a
    loop that is to be quantized.
    """
    try:
        progress("exporting the model")
        directory = _export(tf, model, workdir, integer=options.quantize in INTEGER)
        progress("converting")
        converter = tf.lite.TFLiteConverter.from_saved_model(str(directory), signature_keys=[SERVING])
        _configure(tf, converter, options)
        if options.quantize in INTEGER:
            converter.representative_dataset = lambda: _rows(model, samples, progress)
        return bytes(converter.convert())
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:
        raise ConversionError(
            f"TensorFlow's converter refused the model: {reason(str(error))}",
            fix="replace the layers named, or try another --quantize",
            details=child.log_tail(workdir),
        ) from error


def _export(tf: Any, model: FloatModel, workdir: Path, *, integer: bool) -> Path:
    """A SavedModel with one signature, its batch fixed to 1.

    A batch of unknown size would leave SHAPE, STRIDED_SLICE and PACK around reshapes. Writing it here, and not
    through from_keras_model, names inputs and outputs and saves the converter a second tracing.
    """

    def serve(*tensors: Any) -> dict[str, Any]:
        return dict(zip(model.signature_outputs, model.call(tensors), strict=True))

    signature = [
        tf.TensorSpec((1, *spec.shape), spec.dtype, name=name)
        for spec, name in zip(model.specs, model.signature_inputs, strict=True)
    ]
    function = tf.function(serve, autograph=False).get_concrete_function(*signature)
    if integer:
        _check_loops(function.graph.as_graph_def())
    module = tf.Module()
    module.tracked = model.tracked
    directory = workdir / "signature"
    tf.saved_model.save(module, str(directory), signatures={SERVING: function})
    return directory


def _check_loops(graph: Any) -> None:
    """Refuse a loop: TensorFlow 2.21 dies of a segmentation fault when it calibrates many of them (map_fn, a gather
    in the body), leaves others in float with int8, and takes none with int16x8."""
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            if node.op in LOOPS:
                raise UnsupportedModelError(
                    f"the graph runs in a loop ({node.name!r}), which TensorFlow's integer conversion leaves in float "
                    "or crashes at",
                    fix="unroll the loop (unroll=True in recurrent layers), or use --quantize float32",
                )


def _configure(tf: Any, converter: Any, options: Options) -> None:
    sets = tf.lite.OpsSet
    operators = {
        "float32": sets.TFLITE_BUILTINS,
        "float16": sets.TFLITE_BUILTINS,
        "int8": sets.TFLITE_BUILTINS_INT8,
        "int16x8": sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
    }
    converter.target_spec.supported_ops = [operators[options.quantize]]
    if options.quantize == "float32":
        return
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if options.quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
        return
    converter.inference_input_type = converter.inference_output_type = tf.dtypes.as_dtype(options.io_type)
    converter._experimental_disable_per_channel_quantization_for_dense_layers = options.dense_per_tensor


def _rows(model: FloatModel, samples: Sequence[Any], progress: child.Progress) -> Iterator[dict[str, Any]]:
    names = model.signature_inputs
    count = len(samples[0])
    every = max(1, count // PROGRESS_STEPS)
    for index in range(count):
        if index % every == 0:
            progress(f"calibrating {index + 1}/{count}")
        yield {name: array[index : index + 1] for name, array in zip(names, samples, strict=True)}
    progress("quantizing")


def order_of(content: bytes, model: FloatModel) -> Order:
    """Which input and output of the float model each graph input and output is, by the file's signature."""
    from tensorflow.lite.python import schema_py_generated as schema

    file = schema.Model.GetRootAs(content)
    graph, signature = file.Subgraphs(0), file.SignatureDefs(0)
    names_in = {entry.TensorIndex(): entry.Name().decode() for entry in _all(signature, "Inputs")}
    names_out: dict[int, list[str]] = {}
    for entry in _all(signature, "Outputs"):
        names_out.setdefault(entry.TensorIndex(), []).append(entry.Name().decode())
    inputs = model.signature_inputs
    missing = [spec.name for spec, name in zip(model.specs, inputs, strict=True) if name not in set(names_in.values())]
    if missing:
        raise UnsupportedModelError(
            f"the converted graph lost the inputs {', '.join(missing)}: nothing depends on them",
            fix="remove them from the model",
        )
    return Order(
        tuple(inputs.index(names_in[int(index)]) for index in graph.InputsAsNumpy()),
        tuple(model.signature_outputs.index(names_out[int(index)].pop(0)) for index in graph.OutputsAsNumpy()),
    )


def _all(table: Any, name: str) -> Iterator[Any]:
    for index in range(getattr(table, f"{name}Length")()):
        yield getattr(table, name)(index)


def reason(message: str) -> str:
    """The line of a converter's message that says why: the operators that have no counterpart, or the first."""
    named = re.findall(r"^(?:TF Select|Custom) ops: (.+)$", message, flags=re.MULTILINE)
    if named:
        return f"TensorFlow Lite has no built-in operator for {', '.join(named)}"[:300]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    return (errors or lines or ["no message"])[0][-300:]
