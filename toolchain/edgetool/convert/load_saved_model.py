"""Load one signature of a SavedModel directory. In the child process only.

A SavedModel whose graphs access external resources is rejected before TensorFlow loads it, which runs some of them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.convert.file_checks import escapes_folder
from edgetool.convert.float_model import FloatModel, explain_keras_error, input_spec
from edgetool.convert.input_shapes import OPTION, DeclaredShape, RequestedShapes, resolve_shapes
from edgetool.convert.samples import default_range
from edgetool.errors import InvalidModelError, UnsupportedModelError, UsageError

# The largest size of a protocol buffer.
LIMIT_BYTES = 2**31 - 1
AGAIN = "export it again"
TRUST = "use --trust-model-code if you trust its source"
# Operations that access external resources, by name, and what they do.
FILES, PYTHON, OTHERS = "reads or writes files", "calls Python or native code", "communicates with other processes"
EXTERNAL_ACCESS = {
    re.compile(pattern): does
    for pattern, does in (
        # All data sets: those in memory cannot be distinguished from those of files, and models need none.
        (r"\w*Dataset\w*", FILES),
        (r"ReadFile|WriteFile|MatchingFiles|RecordInput|FileSystemSetConfiguration", FILES),
        (r"\w*Reader(V2)?|Reader(Read|Restore|Serialize|Reset|Num)\w*", FILES),
        (r"InitializeTableFromTextFile(V2)?|GenerateVocabRemapping|LoadAndRemapMatrix|Skipgram", FILES),
        (r"DTensorRestoreV2|DistributedSave|DumpTensor|CalibrationStatisticsSaver|ImportEvent", FILES),
        (r"(Create|Close|Flush)?Summary(File|Db)?Writer|(Close|Flush)SummaryWriter|Write\w*Summary", FILES),
        (r"StatsAggregatorSetSummaryWriter|Debug(Identity|NanCount|NumericSummary)(V[23])?", FILES),
        (r"(Eager)?PyFunc(Stateless)?|LoadLibrary|XlaCustomCall(V2)?|RemoteFusedGraphExecute", PYTHON),
        (r"_?(Host)?(Send|Recv)|_?Xla(Send|Recv)\w*|_?XlaHostCompute(Mlir)?|Rpc\w+|DeleteRpcFutureResource", OTHERS),
        (r"Collective\w+|_?Nccl\w+|RemoteCall|WorkerHeartbeat|(Configure|Shutdown)\w*TPU\w*", OTHERS),
    )
}
# A module of StableHLO, as JAX exports it: the beginning of MLIR's bytecode, in which names are stored as they are, and
# the operations that call functions of the process or communicate.
XLA_MODULE = "XlaCallModule"
BYTECODE = b"ML\xefR"
EXTERNAL_STABLEHLO = re.compile(rb"custom_call|infeed|outfeed|(?<![a-z_])(?:send|recv)(?![a-z])")
# Operations that save and load checkpoints. Every SavedModel contains them, in separate functions.
SAVER = frozenset(["Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints", "Restore", "RestoreSlice", "RestoreV2"])
RESTORE = frozenset(["Restore", "RestoreSlice", "RestoreV2"])
# Operations that access external resources only by an attribute: the attribute, and the prefixes of harmless values.
HARMLESS_PREFIXES = {
    "PrintV2": ("output_stream", ("stdout", "stderr", "log(")),
    "DecodeProtoV2": ("descriptor_source", ("local://", "bytes://")),
    "EncodeProto": ("descriptor_source", ("local://", "bytes://")),
    "FixedUnigramCandidateSampler": ("vocab_file", ()),
}


def check_graphs(path: Path) -> None:
    """Check all graphs and functions of the SavedModel in the directory.

    Raises InvalidModelError for a damaged file, UnsupportedModelError naming an operation that accesses external
    resources.
    """
    for graph in _read(path).meta_graphs:
        for name in _assets(graph):
            _check_asset(name, path)
        functions = {function.signature.name: function.node_def for function in graph.graph_def.library.function}
        # TensorFlow 2 loads objects and their functions, and does not run the graph around them.
        has_objects = graph.HasField("object_graph_def")
        runs = _called_functions(graph, functions) if has_objects else set(functions)
        hostile = set() if has_objects else _hostile_savers(graph)
        for name, nodes in [("", graph.graph_def.node), *functions.items()]:
            for node in nodes:
                reason = _reason(node)
                if reason is None and node.op in SAVER and (name in runs or (not name and node.name in hostile)):
                    reason = FILES
                if reason is not None:
                    raise UnsupportedModelError(
                        f"the graph accesses external resources with {node.op} ({node.name!r}), which {reason}",
                        where=str(path),
                        fix=TRUST,
                    )


def _read(path: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / "saved_model.pb"
    if file.stat().st_size > LIMIT_BYTES:
        raise InvalidModelError("saved_model.pb is larger than TensorFlow can read", where=str(path), fix=AGAIN)
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(file.read_bytes())
    except DecodeError as error:
        raise InvalidModelError("saved_model.pb is damaged or truncated", where=str(path), fix=AGAIN) from error
    return model


def _assets(graph: Any) -> Iterator[str]:
    """Yield the names of the model's assets, in the forms of TensorFlow 2 and TensorFlow 1."""
    from tensorflow.core.protobuf import meta_graph_pb2

    yield from (asset.filename for asset in graph.asset_file_def)
    for collection in graph.collection_def.values():
        for value in collection.any_list.value:
            asset = meta_graph_pb2.AssetFileDef()
            if value.Unpack(asset):
                yield asset.filename


def _check_asset(name: str, path: Path) -> None:
    """Raise UnsupportedModelError if an asset is outside the SavedModel."""
    if escapes_folder(name):
        raise UnsupportedModelError(f"its asset {name!r} is outside the SavedModel", where=str(path), fix=AGAIN)


def _reason(node: Any) -> str | None:
    """Return which external resources the operation accesses, None if it does not."""
    if node.op in HARMLESS_PREFIXES:
        attribute, prefixes = HARMLESS_PREFIXES[node.op]
        value = node.attr[attribute].s.decode("utf-8", "replace") if attribute in node.attr else ""
        return FILES if value and not value.startswith(prefixes) else None
    if node.op == XLA_MODULE:
        return None if _only_computes(node) else PYTHON
    return next((does for pattern, does in EXTERNAL_ACCESS.items() if pattern.fullmatch(node.op)), None)


def _only_computes(node: Any) -> bool:
    """Return whether a module of StableHLO neither calls functions of the process nor communicates.

    As text, its operations could be spelled with escapes: then it is not read.
    """
    module = node.attr["module"].s
    calls = node.attr["function_list"].list.func if "function_list" in node.attr else ()
    return module.startswith(BYTECODE) and not calls and EXTERNAL_STABLEHLO.search(module) is None


def _hostile_savers(graph: Any) -> set[str]:
    """Return the nodes of TensorFlow 1's saver that do more than load the model's variables.

    When a SavedModel is loaded, TensorFlow restores variables from a file that it specifies, runs initializers, and
    calls signatures.
    """
    inputs = {node.name: [_node_name(name) for name in node.input] for node in graph.graph_def.node}
    started = _closure(set(map(_node_name, _run_by_name(graph))), inputs)
    restored = _closure({_node_name(graph.saver_def.restore_op_name)}, inputs)
    file_name = _node_name(graph.saver_def.filename_tensor_name)
    harmless = {node.name for node in graph.graph_def.node if node.op in RESTORE and file_name in inputs[node.name][:1]}
    savers = {node.name for node in graph.graph_def.node if node.op in SAVER}
    return savers & (started | (restored - harmless))


def _run_by_name(graph: Any) -> Iterator[str]:
    """Yield the nodes that run by name: outputs of signatures, and all in collections, such as tables and variables."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework import variable_pb2

    for signature in graph.signature_def.values():
        for output in signature.outputs.values():
            yield from _tensors(output)
    for key, collection in graph.collection_def.items():
        yield from collection.node_list.value
        for value in collection.bytes_list.value if key != "savers" else ():  # a SaverDef parses as a variable too
            with contextlib.suppress(DecodeError):  # it is not a variable
                variable = variable_pb2.VariableDef.FromString(value)
                yield variable.variable_name
                yield variable.initial_value_name
                yield variable.initializer_name
                yield variable.snapshot_name


def _tensors(output: Any) -> Iterator[str]:
    """Yield the names in a TensorInfo: one for a tensor, several for a sparse or composite one."""
    sparse = output.coo_sparse
    yield from (output.name, sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
    for component in output.composite_tensor.components:
        yield from _tensors(component)


def _called_functions(graph: Any, functions: Mapping[str, Iterable[Any]]) -> set[str]:
    """Return the functions that an object or a signature of the SavedModel calls, directly or indirectly."""
    calls = {name: [called for node in nodes for called in _calls(node)] for name, nodes in functions.items()}
    for gradient in graph.graph_def.library.gradient:
        calls.setdefault(gradient.function_name, []).append(gradient.gradient_func)
    objects = graph.object_graph_def
    named = set(objects.concrete_functions)
    for node in objects.nodes:
        named |= {*node.function.concrete_functions, node.bare_concrete_function.concrete_function_name}
    return _closure(named, calls) & set(functions)


def _calls(node: Any) -> Iterator[str]:
    """Yield the functions that the node may call: one named like its operation, and those in its attributes."""
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)


def _closure(start: set[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    reached, pending = set(start), list(start)
    while pending:
        new = set(edges.get(pending.pop(), ())) - reached
        reached |= new
        pending += new
    return reached


def _node_name(tensor: str) -> str:
    """Return "read" for "read:0" and "^read"."""
    return tensor.removeprefix("^").partition(":")[0]


SERVING = "serving_default"
# For a tf.Module, whose author must specify the inputs.
EXPORT = "tf.saved_model.save(module, path, signatures=module.function.get_concrete_function(tf.TensorSpec(...)))"


@dataclass(frozen=True, slots=True)
class _Argument:
    """An input as declared by a signature. shape: without batch."""

    name: str
    shape: DeclaredShape
    dtype: str


def load_saved_model(
    tf: Any, path: Path, *, trust_model_code: bool, signature: str | None = None, input_shapes: RequestedShapes = ()
) -> FloatModel:
    """Load a signature of a SavedModel: the requested one, the serving one, or the only one.

    Args:
        input_shapes: shapes without batch for inputs whose shapes are not fixed.

    Raises InvalidModelError for a damaged file, UnsupportedModelError naming what is missing in the model, UsageError
    for a signature that does not exist or a shape that does not match.
    """
    if not trust_model_code:
        check_graphs(path)
    try:
        loaded = tf.saved_model.load(str(path))
    except MemoryError:
        raise
    except Exception as error:
        what, _ = explain_keras_error(error)
        raise InvalidModelError(
            f"TensorFlow cannot load the SavedModel: {what}", where=str(path), fix="export it again"
        ) from error
    function = _choose_signature(dict(loaded.signatures), signature, path)
    arguments = [_argument(name, spec, path) for name, spec in sorted(function.structured_input_signature[1].items())]
    names = [argument.name for argument in arguments]
    if not names:
        raise UnsupportedModelError(
            "the signature has no inputs", where=str(path), fix="export a signature with inputs"
        )
    results = sorted(function.structured_outputs)
    shapes = resolve_shapes(names, [argument.shape for argument in arguments], input_shapes, str(path))
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
        tracked=_tracked_objects(function, loaded),
        as_tensor=tf.constant,
    )


def _tracked_objects(function: Any, loaded: Any) -> Any:
    """Return the objects that the signature reads: its variables, or everything loaded if it also reads, e.g., tables.

    Everything loaded would include what other signatures read, which is then saved and converted too.
    """
    variables = list(function.variables)
    handles = {id(variable.handle) for variable in variables}
    resources = [tensor for tensor in function.captured_inputs if tensor.dtype.name == "resource"]
    return variables if all(id(tensor) in handles for tensor in resources) else loaded


def _choose_signature(signatures: Mapping[str, Any], requested: str | None, path: Path) -> Any:
    """Return the signature to convert. Errors list the available ones."""
    if requested is not None and requested in signatures:
        return signatures[requested]
    available = "; ".join(_describe(name, signatures[name]) for name in sorted(signatures)) or "none"
    if requested is not None:
        raise UsageError(
            f"{path} has no signature {requested!r}; it has {available}",
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
            f"the SavedModel has several signatures and none is named {SERVING!r}: {available}",
            where=str(path),
            fix="choose one with --signature",
        )
    raise UnsupportedModelError(
        "the SavedModel has no signature, so its inputs are unknown",
        where=str(path),
        fix=f"export it with model.export(), or {EXPORT}",
    )


def _describe(name: str, function: Any) -> str:
    """Return, for example, "serve(x: float32 (None, 4)) -> y: float32 (None, 2)"."""
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
    shape: DeclaredShape = tuple(spec.shape.as_list())
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
    """Raise UsageError with TensorFlow's reason if the graph does not run with these shapes."""
    try:
        call([tf.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)])
    except MemoryError:
        raise
    except Exception as error:
        what, _ = explain_keras_error(error)
        raise UsageError(
            f"the model fails with inputs of shape {', '.join(map(str, shapes))}: {what}",
            where=OPTION,
            fix="use input shapes that all of its layers accept",
        ) from error
