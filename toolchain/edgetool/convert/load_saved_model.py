"""Loads the serving signature of a SavedModel directory: in the child process only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetool.convert.float_model import NO_FIXED_SHAPE, FloatModel, explain, input_spec
from edgetool.convert.synthetic import default_range
from edgetool.errors import InvalidModelError, UnsupportedModelError

SERVING = "serving_default"
# Graph operations with which a SavedModel reaches out of itself.
REACHES_OUT = frozenset(
    """
    ReadFile WriteFile MatchingFiles Save SaveSlices PyFunc PyFuncStateless EagerPyFunc LoadLibrary
    TFRecordDataset TextLineDataset FixedLengthRecordDataset _Send _Recv
    """.split()
)


def load_saved_model(tf: Any, path: Path, *, trust_model_code: bool) -> FloatModel:
    """The serving signature of a SavedModel. UnsupportedModelError says what it lacks."""
    if not trust_model_code:
        _check_graph(path)
    try:
        loaded = tf.saved_model.load(str(path))
    except MemoryError:
        raise
    except Exception as error:
        what, _ = explain(error)
        raise InvalidModelError(
            f"TensorFlow cannot load the SavedModel: {what}", where=str(path), fix="export it again"
        ) from error
    signatures = dict(loaded.signatures)
    if SERVING not in signatures and len(signatures) != 1:
        raise UnsupportedModelError(
            f"the SavedModel has no signature {SERVING!r} (it has: {', '.join(sorted(signatures)) or 'none'})",
            where=str(path),
            fix="write it with model.export(), or tf.saved_model.save(..., signatures=...)",
        )
    signature = signatures.get(SERVING) or next(iter(signatures.values()))
    arguments: dict[str, Any] = signature.structured_input_signature[1]
    results = list(signature.structured_outputs)
    inputs = list(arguments)
    specs = tuple(
        input_spec(name, _static_shape(arguments[name], name, path), arguments[name].dtype.name, path)
        for name in inputs
    )

    def call(tensors: Sequence[Any]) -> list[Any]:
        outputs = signature(**dict(zip(inputs, tensors, strict=True)))
        return [outputs[name] for name in results]

    return FloatModel(
        specs=specs,
        output_names=tuple(results),
        ranges=tuple(default_range(spec) for spec in specs),
        call=call,
        chunk=1,
        tracked=loaded,
    )


def _static_shape(spec: Any, name: str, path: Path) -> tuple[int | None, ...]:
    if spec.shape.rank is None:
        raise UnsupportedModelError(f"input {name!r} has no known rank", where=str(path), fix=NO_FIXED_SHAPE)
    shape: tuple[int | None, ...] = tuple(spec.shape.as_list())
    if shape and shape[0] not in (None, 1):
        raise UnsupportedModelError(
            f"input {name!r} is fixed to a batch of {shape[0]}",
            where=str(path),
            fix="export the model with a batch size of 1 or None",
        )
    return shape


def _check_graph(path: Path) -> None:
    """Refuse a graph that reads or writes files or calls Python, before loading runs any of it."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString((path / "saved_model.pb").read_bytes())
    except DecodeError as error:
        raise InvalidModelError(
            "saved_model.pb is damaged or truncated", where=str(path), fix="export it again"
        ) from error
    for graph in model.meta_graphs:
        functions = [function.node_def for function in graph.graph_def.library.function]
        for nodes in (graph.graph_def.node, *functions):
            for node in nodes:
                if node.op in REACHES_OUT:
                    raise UnsupportedModelError(
                        f"the graph reaches out of itself with {node.op} ({node.name!r})",
                        where=str(path),
                        fix="use --trust-model-code if you trust whoever made it",
                    )
