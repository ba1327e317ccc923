"""Import an ONNX model with TensorFlow's converter; in the child process only.

Its nodes are computed by TensorFlow functions (onnx_operators.py), which are converted to a .tflite. The original runs
on ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.float_model import FloatModel, input_spec
from edgetool.convert.imported import ImportedModel
from edgetool.convert.input_shapes import RequestedShapes, resolve_shapes
from edgetool.convert.onnx_file import EXTRA, import_onnx_library
from edgetool.convert.onnx_graph import OTHER_FLOATS, OnnxGraph, in_float32, scope_of
from edgetool.convert.quantizer import LayerMap
from edgetool.convert.samples import Array, default_range
from edgetool.convert.tflite import ConverterOptions, convert, order_of
from edgetool.errors import ConversionError, MissingExtraError, UnsupportedModelError
from edgetool.model.reader import read_model

LIBRARIES = ("onnx", "onnxruntime")
FLOAT = ConverterOptions("float32", "float32", False)


def import_onnx(
    tf: Any, model: Any, path: Path, shapes: RequestedShapes, workdir: Path, progress: child.Progress
) -> ImportedModel:
    """Import a model that read_onnx returned, with a batch of 1.

    Raises the errors of OnnxGraph, MissingExtraError, UsageError for requested shapes that do not apply,
    UnsupportedModelError for inputs without a fixed shape, and ConversionError if the converter rejects the model.
    """
    onnx = import_onnx_library()
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    declared = [declared_input(onnx, value, path) for value in inputs]
    names = [value.name for value in inputs]
    types = {name: dtype for name, (dtype, _) in zip(names, declared, strict=True)}
    fixed = resolve_shapes(names, [sizes[1:] for _, sizes in declared], shapes, str(path))
    specs = tuple(
        input_spec(name, (1, *shape) if sizes else (), "float32" if dtype in OTHER_FLOATS else str(dtype), path)
        for name, (dtype, sizes), shape in zip(names, declared, fixed, strict=True)
    )
    outputs = tuple(value.name for value in model.graph.output)
    session = _session(model, path)
    graph = OnnxGraph(tf, onnx, model, path)
    batches = [(sizes[0] or 1) for _, sizes in declared]
    if any(batch != 1 for batch in batches):
        raise UnsupportedModelError(
            f"has a batch of {max(batches)}", where=str(path), fix="export it with a batch of 1 or a dynamic batch"
        )

    def traced(tensors: Sequence[Any]) -> list[Any]:
        return graph.run(dict(zip(names, tensors, strict=True)))

    float_model = FloatModel(specs, outputs, tuple(map(default_range, specs)), traced, 1, ())
    layers = {scope: node.op_type for node in model.graph.node if (scope := scope_of(node))}
    converted = convert(tf, float_model, (), FLOAT, workdir, progress, LayerMap(layers))
    order = order_of(converted.content, float_model)

    def call(arrays: Sequence[Array]) -> list[Array]:
        given = [(names[place], array) for place, array in zip(order.inputs, arrays, strict=True)]
        results = session.run(list(outputs), {name: array.astype(types[name], copy=False) for name, array in given})
        return [in_float32(np.asarray(results[place])) for place in order.outputs]

    return ImportedModel(
        model=read_model(converted.content, name=str(path)),
        inputs=tuple(names[place] for place in order.inputs),
        outputs=tuple(outputs[place] for place in order.outputs),
        call=call,
        layers=layers,
        output_layers=tuple(_output_layer(model, outputs[place]) for place in order.outputs),
        versions={name: version(name) for name in LIBRARIES},
        notes=graph.notes,
    )


def declared_input(onnx: Any, value: Any, path: Path) -> tuple[np.dtype[Any], tuple[int | None, ...]]:
    """Return the type and the sizes of an input; None for a size that is not fixed."""
    if not value.type.HasField("tensor_type"):
        raise UnsupportedModelError(f"input {value.name!r} is not a tensor", where=str(path), fix="use tensors only")
    tensor = value.type.tensor_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if not tensor.HasField("shape"):
        raise UnsupportedModelError(
            f"input {value.name!r} has no shape", where=str(path), fix="export the model with the shapes of its inputs"
        )
    # Some exporters write -1 for a size that is not fixed.
    known = (size.HasField("dim_value") and size.dim_value >= 0 for size in tensor.shape.dim)
    sizes = tuple(size.dim_value if is_known else None for size, is_known in zip(tensor.shape.dim, known, strict=True))
    return dtype, sizes


def _output_layer(model: Any, output: str) -> str:
    """Return the scope of the node that computes an output."""
    return next((scope_of(node) for node in model.graph.node if output in node.output), "")


def _session(model: Any, path: Path) -> Any:
    """Return a session that runs the original on one thread."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("an ONNX model needs onnxruntime, which is not installed", fix=EXTRA) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except MemoryError:
        raise
    except Exception as error:  # its errors share no class but Exception
        raise ConversionError(
            f"ONNX Runtime {onnxruntime.__version__} cannot load the model: {str(error).splitlines()[0][:200]}",
            where=str(path),
            fix="check it with onnx.checker.check_model(model, full_check=True)",
        ) from error
