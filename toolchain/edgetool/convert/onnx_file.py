"""Read an ONNX file with its weights, and refuse what no microcontroller can run; in the child process only.

Weights may be in other files beside the model's (external data); they are read here, from plain files in the same
directory only, so that no other library opens files that a model names.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from edgetool.convert.file_checks import ARRAY_LIMIT_BYTES, escapes_folder
from edgetool.convert.source import wrong_content
from edgetool.errors import InvalidModelError, MissingExtraError, UnsupportedModelError, UsageError
from edgetool.model.file_kinds import HEAD_BYTES

EXTRA = "pip install 'edgetool[onnx]'"
DOMAINS = frozenset(["", "ai.onnx"])
# The first version of the operators in which batches, broadcasting and BatchNormalization are as they are today.
MIN_OPSET = 9
LOOPS = frozenset(["Loop", "Scan", "SequenceMap"])
EXTERNAL = 1  # TensorProto.EXTERNAL
MODEL_LIMIT_BYTES = ARRAY_LIMIT_BYTES
# How ONNX's checker names the node that is wrong, after the reason.
CONTEXT = re.compile(r"\s*==> Context:(?: Bad node spec for node\. Name: (.*) OpType: (\w+))?")
EXPORT = "export it again, for example with torch.onnx.export(model, inputs, 'model.onnx', external_data=False)"


def import_onnx_library() -> Any:
    """Return the onnx package. Raises MissingExtraError."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("an ONNX model needs onnx, which is not installed", fix=EXTRA) from error
    return onnx


def read_onnx(path: Path) -> Any:
    """Return the ModelProto with all weights in it and without local functions.

    Raises UsageError, InvalidModelError or UnsupportedModelError naming the node or the tensor.
    """
    onnx = import_onnx_library()
    try:
        content = _content(path, 0, None)
        model = onnx.load_model_from_string(content)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="specify a readable file"
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # protobuf's own class of error depends on its implementation
        raise _not_onnx(path, content, "the file is damaged") from error
    if not content or not model.HasField("graph"):
        raise _not_onnx(path, content, "is not an ONNX model: it has no graph of ONNX operators")
    _check_versions(onnx, model, path)
    for tensor in _tensors(model.graph):
        _embed(onnx, tensor, path)
    if model.functions:
        from onnx import inliner

        model = inliner.inline_local_functions(model)
    opset = opset_of(model)
    for node in _nodes(model.graph):
        _check_node(onnx, node, opset, path)
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise _invalid(str(error), path) from error
    return model


def opset_of(model: Any) -> int:
    """Return the version of ONNX's own operators in a model."""
    return max(int(entry.version) for entry in model.opset_import if entry.domain in DOMAINS)


def place_of(node: Any, path: Path) -> str:
    """Return where a node is, for messages."""
    return _place(node.name or next(iter(node.output), ""), node.op_type, path)


def _place(name: str, operator: str, path: Path) -> str:
    return f"{path}: node {name[:80]!r} ({operator})"


def _not_onnx(path: Path, content: bytes, otherwise: str) -> InvalidModelError:
    return wrong_content(path, content[:HEAD_BYTES], "an ONNX model", otherwise, EXPORT)


def _invalid(message: str, path: Path) -> InvalidModelError:
    """Return the error for what ONNX's checker says, at the node that it names."""
    context = CONTEXT.search(message)
    reason = " ".join(message[: context.start() if context else None].split())
    where = _place(context[1], context[2], path) if context and context[2] else str(path)
    return InvalidModelError(f"is not valid ONNX: {reason[:200]}", where=where, fix=EXPORT)


def _content(path: Path, offset: int, length: int | None) -> bytes:
    """Return a part of a regular file. Raises UnsupportedModelError if it is too large."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError("is not a regular file", where=str(path), fix=EXPORT)
    count = status.st_size - offset if length is None else length
    if count > MODEL_LIMIT_BYTES:
        raise UnsupportedModelError(f"has {count} bytes, more than a .tflite file can contain", where=str(path))
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(count)


def _check_versions(onnx: Any, model: Any, path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if not DOMAINS & versions.keys():
        raise InvalidModelError("has no version of the ONNX operators (opset_import)", where=str(path), fix=EXPORT)
    if model.ir_version > onnx.IR_VERSION:
        raise UnsupportedModelError(
            f"has version {model.ir_version} of the file format (IR), newer than {onnx.IR_VERSION}",
            where=str(path),
            fix="install a newer onnx, or export it with an older one",
        )
    for domain in DOMAINS & versions.keys():
        if not MIN_OPSET <= versions[domain] <= newest:
            raise UnsupportedModelError(
                f"uses version {versions[domain]} of the ONNX operators (opset), not {MIN_OPSET} to {newest}",
                where=str(path),
                fix="convert it with onnx.version_converter.convert_version(model, 18)"
                if versions[domain] < MIN_OPSET
                else "install a newer onnx, or export it with opset_version=18",
            )


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(inner)


def _nodes(graph: Any) -> Iterator[Any]:
    return (node for one in _graphs(graph) for node in one.node)


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield every tensor with values: initializers and attributes."""
    for one in _graphs(graph):
        yield from one.initializer
        for sparse in one.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in one.node:
            for attribute in node.attribute:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t


def _embed(onnx: Any, tensor: Any, path: Path) -> None:
    """Check a tensor's size, and replace a reference to another file by its values."""
    where = f"{path}: tensor {tensor.name[:80]!r}"
    count = 1
    for size in tensor.dims:
        count *= max(int(size), 0)
    if count > ARRAY_LIMIT_BYTES:
        raise UnsupportedModelError(f"has {count} elements, more than a .tflite file can contain", where=where)
    if tensor.data_location != EXTERNAL:
        return
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    plain = PurePosixPath(location)
    if escapes_folder(location) or "\\" in location or len(plain.parts) != 1:
        raise UnsupportedModelError(
            f"has its values in {location[:80]!r}, which is not a file beside the model", where=where, fix=EXPORT
        )
    file = path.parent / plain
    try:
        offset, length = int(entries.get("offset", 0)), int(entries["length"]) if "length" in entries else None
        if offset < 0 or (length is not None and length < 0) or file.is_symlink():
            raise UnsupportedModelError(f"refers to {location!r} in an unsafe way", where=where, fix=EXPORT)
        values = _content(file, offset, length)
    except ValueError as error:
        raise InvalidModelError("refers to another file without a valid position", where=where, fix=EXPORT) from error
    except OSError as error:
        raise InvalidModelError(
            f"has its values in {location!r}, which cannot be read ({error.strerror})",
            where=where,
            fix="keep the files of the model together",
        ) from error
    if length is not None and len(values) != length:
        raise InvalidModelError(f"has its values in {location!r}, which is too short", where=where, fix=EXPORT)
    tensor.ClearField("external_data")
    tensor.data_location = onnx.TensorProto.DEFAULT
    tensor.raw_data = values


def _check_node(onnx: Any, node: Any, opset: int, path: Path) -> None:
    if node.domain not in DOMAINS:
        raise UnsupportedModelError(
            f"is a custom operator of the domain {node.domain[:80]!r}",
            where=place_of(node, path),
            fix="export the model with ONNX's own operators",
        )
    if node.op_type in LOOPS:
        raise UnsupportedModelError(
            "is a loop: TensorFlow Lite Micro models compute the same operators each time",
            where=place_of(node, path),
            fix="unroll it before the export",
        )
    if not onnx.defs.has(node.op_type, opset, ""):
        later = onnx.defs.get_schema(node.op_type).since_version if onnx.defs.has(node.op_type) else None
        raise UnsupportedModelError(
            f"is not an ONNX operator of version {opset} (opset)",
            where=place_of(node, path),
            fix="export the model with ONNX's own operators"
            if later is None
            else f"export it with opset_version={later}",
        )
