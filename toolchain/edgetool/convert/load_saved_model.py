"""Loads one signature of a SavedModel directory: in the child process only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.convert.float_model import FloatModel, explain, input_spec
from edgetool.convert.graph_check import check_graphs
from edgetool.convert.input_shapes import OPTION, Declared, Given, resolve
from edgetool.convert.synthetic import default_range
from edgetool.errors import InvalidModelError, UnsupportedModelError, UsageError

SERVING = "serving_default"
# For a module of TensorFlow's own, whose maker has to name what it is called with.
EXPORT = "tf.saved_model.save(module, path, signatures=module.function.get_concrete_function(tf.TensorSpec(...)))"


@dataclass(frozen=True, slots=True)
class _Argument:
    """An input of a signature as it is declared: sizes without batch."""

    name: str
    shape: Declared
    dtype: str


def load_saved_model(
    tf: Any, path: Path, *, trust_model_code: bool, signature: str | None = None, input_shapes: Given = ()
) -> FloatModel:
    """A signature of a SavedModel: the one named, the serving one, or the only one.

    input_shapes: sizes without batch for inputs that leave theirs open. Raises InvalidModelError for a damaged file,
    UnsupportedModelError saying what the model lacks, UsageError for a signature or shape that it does not have.
    """
    if not trust_model_code:
        check_graphs(path)
    try:
        loaded = tf.saved_model.load(str(path))
    except MemoryError:
        raise
    except Exception as error:
        what, _ = explain(error)
        raise InvalidModelError(
            f"TensorFlow cannot load the SavedModel: {what}", where=str(path), fix="export it again"
        ) from error
    function = _chosen(dict(loaded.signatures), signature, path)
    arguments = [_argument(name, spec, path) for name, spec in sorted(function.structured_input_signature[1].items())]
    names = [argument.name for argument in arguments]
    if not names:
        raise UnsupportedModelError(
            "the signature has no inputs", where=str(path), fix="export a signature with inputs"
        )
    results = sorted(function.structured_outputs)
    shapes = resolve(names, [argument.shape for argument in arguments], input_shapes, str(path))
    specs = tuple(
        input_spec(argument.name, (None, *shape), argument.dtype, path)
        for argument, shape in zip(arguments, shapes, strict=True)
    )

    def call(tensors: Sequence[Any]) -> list[Any]:
        outputs = function(**dict(zip(names, tensors, strict=True)))
        return [outputs[name] for name in results]

    if input_shapes:
        _check_runs(tf, call, [(1, *spec.shape) for spec in specs], [spec.dtype for spec in specs])
    return FloatModel(
        specs=specs,
        output_names=tuple(results),
        ranges=tuple(default_range(spec) for spec in specs),
        call=call,
        chunk=1,
        tracked=_used(function, loaded),
    )


def _used(function: Any, loaded: Any) -> Any:
    """What the signature reads: its variables, or all that was loaded where it reads more than those, as tables.

    What other signatures read would be saved and converted with it.
    """
    variables = list(function.variables)
    handles = {id(variable.handle) for variable in variables}
    resources = [tensor for tensor in function.captured_inputs if tensor.dtype.name == "resource"]
    return variables if all(id(tensor) in handles for tensor in resources) else loaded


def _chosen(signatures: Mapping[str, Any], wanted: str | None, path: Path) -> Any:
    """The signature to convert; the errors list what there is."""
    if wanted is not None and wanted in signatures:
        return signatures[wanted]
    there = "; ".join(_described(name, signatures[name]) for name in sorted(signatures)) or "none"
    if wanted is not None:
        raise UsageError(
            f"{path} has no signature {wanted!r}; it has {there}",
            where="--signature",
            fix=f"use one of {', '.join(sorted(signatures))}"
            if signatures
            else f"export it with a signature: {EXPORT}",
        )
    if SERVING in signatures:
        return signatures[SERVING]
    if len(signatures) == 1:
        return next(iter(signatures.values()))
    if signatures:
        raise UnsupportedModelError(
            f"the SavedModel has several signatures and none is named {SERVING!r}: {there}",
            where=str(path),
            fix="choose one with --signature",
        )
    raise UnsupportedModelError(
        "the SavedModel has no signature, so its inputs are unknown",
        where=str(path),
        fix=f"export it with model.export(), or {EXPORT}",
    )


def _described(name: str, function: Any) -> str:
    """ "serve(x: float32 (None, 4)) -> y: float32 (None, 2)"."""
    inputs, outputs = (
        ", ".join(f"{key}: {spec.dtype.name} {_shape_text(spec.shape)}" for key, spec in sorted(specs.items()))
        for specs in (function.structured_input_signature[1], function.structured_outputs)
    )
    return f"{name}({inputs}) -> {outputs or 'nothing'}"


def _shape_text(shape: Any) -> str:
    return "of any rank" if shape.rank is None else str(tuple(shape.as_list()))


def _argument(name: str, spec: Any, path: Path) -> _Argument:
    if type(spec).__name__ != "TensorSpec":
        raise UnsupportedModelError(f"input {name!r} is sparse or ragged", where=str(path), fix="use a dense input")
    if spec.shape.rank is None:
        raise UnsupportedModelError(
            f"input {name!r} has an unknown rank",
            where=str(path),
            fix=f"export it with a shape, using None for the batch dimension: {EXPORT}",
        )
    shape: Declared = tuple(spec.shape.as_list())
    if not shape:
        raise UnsupportedModelError(
            f"input {name!r} is a scalar without a batch dimension", where=str(path), fix="add a batch dimension"
        )
    if shape[0] not in (None, 1):
        free = ", ".join(map(str, (None, *shape[1:])))
        raise UnsupportedModelError(
            f"input {name!r} is fixed to a batch of {shape[0]}, {shape}: a microcontroller processes one sample at a "
            "time",
            where=str(path),
            fix=f"export it with tf.TensorSpec(({free})), or with a first dimension of 1 if that is not a batch",
        )
    return _Argument(name, shape[1:], spec.dtype.name)


def _check_runs(tf: Any, call: Any, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> None:
    """Refuse shapes with which the graph does not run, naming the operation that says so."""
    try:
        call([tf.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)])
    except MemoryError:
        raise
    except Exception as error:
        what, _ = explain(error)
        raise UsageError(
            f"the model fails with inputs of shape {', '.join(map(str, shapes))}: {what}",
            where=OPTION,
            fix="use input shapes that all of its layers accept",
        ) from error
