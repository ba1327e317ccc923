"""Refuses a SavedModel whose graphs reach out of themselves, before TensorFlow loads it and runs some of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgetool.convert.archive_check import leads_out
from edgetool.errors import InvalidModelError, UnsupportedModelError

# What a protocol buffer can be.
LIMIT_BYTES = 2**31 - 1
AGAIN = "export it again"
TRUST = "use --trust-model-code if you trust its source"
# Which operations reach out, by name, and what they do.
FILES, PYTHON, OTHERS = "reads or writes files", "calls Python or native code", "communicates with other processes"
REACHES_OUT = {
    re.compile(pattern): does
    for pattern, does in (
        # Every data set: those in memory alone cannot be told from those of files, and none belongs into a model.
        (r"\w*Dataset\w*", FILES),
        (r"ReadFile|WriteFile|MatchingFiles|RecordInput|FileSystemSetConfiguration", FILES),
        (r"\w*Reader(V2)?|Reader(Read|Restore|Serialize|Reset|Num)\w*", FILES),
        (r"InitializeTableFromTextFile(V2)?|GenerateVocabRemapping|LoadAndRemapMatrix|Skipgram", FILES),
        (r"DTensorRestoreV2|DistributedSave|DumpTensor|CalibrationStatisticsSaver|ImportEvent", FILES),
        (r"(Create|Close|Flush)?Summary(File|Db)?Writer|(Close|Flush)SummaryWriter|Write\w*Summary", FILES),
        (r"StatsAggregatorSetSummaryWriter|Debug(Identity|NanCount|NumericSummary)(V[23])?", FILES),
        (r"(Eager)?PyFunc(Stateless)?|LoadLibrary|XlaCustomCall(V2)?|XlaCallModule|RemoteFusedGraphExecute", PYTHON),
        (r"_?(Host)?(Send|Recv)|_?Xla(Send|Recv)\w*|_?XlaHostCompute(Mlir)?|Rpc\w+|DeleteRpcFutureResource", OTHERS),
        (r"Collective\w+|_?Nccl\w+|RemoteCall|WorkerHeartbeat|(Configure|Shutdown)\w*TPU\w*", OTHERS),
    )
}
# How TensorFlow saves and loads checkpoints: in every SavedModel, in functions of their own.
SAVER = frozenset(["Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints", "Restore", "RestoreSlice", "RestoreV2"])
RESTORE = frozenset(["Restore", "RestoreSlice", "RestoreV2"])
# Operations that reach out with an attribute alone: the attribute, and the beginnings with which they do not.
HARMLESS = {
    "PrintV2": ("output_stream", ("stdout", "stderr", "log(")),
    "DecodeProtoV2": ("descriptor_source", ("local://", "bytes://")),
    "EncodeProto": ("descriptor_source", ("local://", "bytes://")),
    "FixedUnigramCandidateSampler": ("vocab_file", ()),
}


def check_graphs(path: Path) -> None:
    """Look at all graphs and functions of the SavedModel in the directory.

    Raises InvalidModelError for a damaged file, UnsupportedModelError naming the operation that reaches out.
    """
    for graph in _read(path).meta_graphs:
        for name in _assets(graph):
            _check_asset(name, path)
        functions = {function.signature.name: function.node_def for function in graph.graph_def.library.function}
        # TensorFlow 2 loads objects and their functions, and leaves the graph alone that is around those.
        has_objects = graph.HasField("object_graph_def")
        runs = _called(graph, functions) if has_objects else set(functions)
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
    """The names of the model's other files, where TensorFlow 2 and where TensorFlow 1 keeps them."""
    from tensorflow.core.protobuf import meta_graph_pb2

    yield from (asset.filename for asset in graph.asset_file_def)
    for kept in graph.collection_def.values():
        for value in kept.any_list.value:
            asset = meta_graph_pb2.AssetFileDef()
            if value.Unpack(asset):
                yield asset.filename


def _check_asset(name: str, path: Path) -> None:
    """Refuse a file of the model's that lies elsewhere."""
    if leads_out(name):
        raise UnsupportedModelError(f"its asset {name!r} is outside the SavedModel", where=str(path), fix=AGAIN)


def _reason(node: Any) -> str | None:
    """What the operation does outside of its graph."""
    if node.op in HARMLESS:
        attribute, beginnings = HARMLESS[node.op]
        value = node.attr[attribute].s.decode("utf-8", "replace") if attribute in node.attr else ""
        return FILES if value and not value.startswith(beginnings) else None
    return next((does for pattern, does in REACHES_OUT.items() if pattern.fullmatch(node.op)), None)


def _hostile_savers(graph: Any) -> set[str]:
    """The nodes of TensorFlow 1's saver that do more than load the model's own variables.

    Loading the SavedModel restores with the file that TensorFlow gives, starts what initialises, and calls signatures.
    """
    inputs = {node.name: [_node_name(name) for name in node.input] for node in graph.graph_def.node}
    started = _closure(set(map(_node_name, _started(graph))), inputs)
    restored = _closure({_node_name(graph.saver_def.restore_op_name)}, inputs)
    given = _node_name(graph.saver_def.filename_tensor_name)
    own = {node.name for node in graph.graph_def.node if node.op in RESTORE and given in inputs[node.name][:1]}
    savers = {node.name for node in graph.graph_def.node if node.op in SAVER}
    return savers & (started | (restored - own))


def _started(graph: Any) -> Iterator[str]:
    """What is run by name: the outputs of signatures, and all that collections keep, as tables and variables."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework import variable_pb2

    for signature in graph.signature_def.values():
        for output in signature.outputs.values():
            yield from _tensors(output)
    for key, kept in graph.collection_def.items():
        yield from kept.node_list.value
        for value in kept.bytes_list.value if key != "savers" else ():  # a SaverDef reads as a variable too
            with contextlib.suppress(DecodeError):  # something else is kept here
                variable = variable_pb2.VariableDef.FromString(value)
                yield variable.variable_name
                yield variable.initial_value_name
                yield variable.initializer_name
                yield variable.snapshot_name


def _tensors(output: Any) -> Iterator[str]:
    """The names of a TensorInfo: one for a tensor, several for a sparse one or another that is made of some."""
    sparse = output.coo_sparse
    yield from (output.name, sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
    for component in output.composite_tensor.components:
        yield from _tensors(component)


def _called(graph: Any, functions: Mapping[str, Iterable[Any]]) -> set[str]:
    """The functions that an object or a signature of the SavedModel calls, directly or through others."""
    calls = {name: [called for node in nodes for called in _calls(node)] for name, nodes in functions.items()}
    for gradient in graph.graph_def.library.gradient:
        calls.setdefault(gradient.function_name, []).append(gradient.gradient_func)
    objects = graph.object_graph_def
    named = set(objects.concrete_functions)
    for node in objects.nodes:
        named |= {*node.function.concrete_functions, node.bare_concrete_function.concrete_function_name}
    return _closure(named, calls) & set(functions)


def _calls(node: Any) -> Iterator[str]:
    """What the node may call: a function of its operation's name, and those in its attributes."""
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)


def _closure(start: set[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    found, pending = set(start), list(start)
    while pending:
        new = set(edges.get(pending.pop(), ())) - found
        found |= new
        pending += new
    return found


def _node_name(tensor: str) -> str:
    """ "read" of "read:0" and "^read"."""
    return tensor.removeprefix("^").partition(":")[0]
