"""Check a PyTorch program (.pt2) and write it again without anything that PyTorch would unpickle or evaluate.

torch.export.load resolves the names of functions, imports the modules of default factories, evaluates the sizes of
dynamic shapes, and unpickles sample inputs and some constants. The archive that it receives from here contains only a
checked graph and weights as plain bytes. In the child process only, but without PyTorch.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgetool.convert.file_checks import ARRAY_LIMIT_BYTES, DAMAGED_ZIP, EXPANDING_BYTES, check_entries
from edgetool.convert.source import start_of, wrong_content
from edgetool.errors import InvalidModelError, UnsupportedModelError, UsageError

EXPORT_LINES = (
    "import torch",
    "program = torch.export.export(model.eval(), (example_input,))",
    "torch.export.save(program, 'model.pt2')",
)
EXPORT = "export it again: " + "; ".join(EXPORT_LINES[1:])
GRAPH = "models/model.json"
SAMPLES = "data/sample_inputs/model.pt"
WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
CONFIGS = {WEIGHTS: f"{WEIGHTS}model_weights_config.json", CONSTANTS: f"{CONSTANTS}model_constants_config.json"}
# Entries that PyTorch reads, and those that are left out because only other programs do.
READ = re.compile(rf"archive_format|archive_version|byteorder|\.data/\w+|{GRAPH}|(?:{WEIGHTS}|{CONSTANTS})[\w.]+")
OMITTED = re.compile(rf"{SAMPLES}|extra/.*|\.data/\w+|.*/")
TEXT_LIMIT_BYTES = 64 * 2**20
# Functions of PyTorch without side effects, and arithmetic on sizes.
ALLOWED_TARGETS = re.compile(
    r"torch\.ops\.(?:aten|quantized_decomposed)\.\w+(?:\.\w+)?|_operator\.(?:getitem|add|sub|mul|floordiv|mod|neg|pow"
    r"|truediv|eq|ne|lt|le|gt|ge|and_|or_|not_)|torch\.sym_\w+|math\.(?:ceil|floor|trunc)"
)
# Operators of PyTorch that open files.
FILES = frozenset(["torch.ops.aten.from_file.default", "torch.ops.aten.from_file.out"])
# Operators that compute something else in training, and their arguments that say so.
TRAINING = re.compile(r"torch\.ops\.aten\.(?:\w*dropout\w*|\w*batch_norm\w*)\.\w+")
TRAINING_ARGUMENTS = frozenset(["train", "training"])
CONTROL_FLOW = re.compile(r"torch\.ops\.higher_order\.(\w+)")
CUSTOM = re.compile(r"torch\.ops\.([\w.]+)")
# The sizes of dynamic shapes: sums, products and quotients of symbols such as s0, as SymPy writes them. The
# last + is possessive, because a long text could be split in many ways.
ALLOWED_SIZE = re.compile(
    r"(?!.*\*\*)(?=.{1,2000}$)(?:Symbol\('[a-z]{1,4}\d{1,6}'(?:, (?:integer|nonnegative|positive)=True)*\)"
    r"|(?:Add|CleanDiv|FloorDiv|Integer|Max|Min|Mod|Mul|PythonMod)\(|[a-z]{1,4}\d{1,6}|\d{1,10}|[-+*/(), ])++"
)
STRUCTURES = frozenset([None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"])
KEPT_METADATA = frozenset(["nn_module_stack"])
# torch._export.serde.schema.ScalarType -> bytes per element.
ELEMENT_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2}
DEPTH_LIMIT = 100
TORCHSCRIPT = re.compile(r"code/|constants\.pkl$")


def checked_program(path: Path) -> bytes:
    """Return the archive with only its graph and its weights.

    Raises UsageError if the file cannot be read, InvalidModelError if it is not an exported program, and
    UnsupportedModelError, naming the entry or the node, for what is pickled, custom or too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive, path)
            return _written(archive, entries, path)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="specify a readable file"
        ) from error
    except DAMAGED_ZIP as error:
        otherwise = f"is not a readable archive ({error})"
        raise wrong_content(path, start_of(path), "a PyTorch program", otherwise, EXPORT, is_archive=True) from error


def pickled_error(path: Path) -> UnsupportedModelError:
    """Return the error for a .pt or .pth file."""
    return UnsupportedModelError(
        "a .pt or .pth file is a pickled Python object: loading it would run code from the file",
        where=str(path),
        fix="export the model in the program that defines it: " + "; ".join(EXPORT_LINES),
    )


def _entries(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """Return the entries that PyTorch needs, by name without the top folder."""
    infos = archive.infolist()
    check_entries(infos, path)
    names = {info.filename.partition("/")[2]: info for info in infos}
    if "data.pkl" in names or any(TORCHSCRIPT.match(name) for name in names):
        raise pickled_error(path)
    if len({info.filename.partition("/")[0] for info in infos}) != 1 or "archive_format" not in names:
        raise InvalidModelError("is not a program that torch.export.save wrote", where=str(path), fix=EXPORT)
    for name, info in names.items():
        if not READ.fullmatch(name) and not OMITTED.fullmatch(name):
            raise UnsupportedModelError(
                f"entry {info.filename!r} is not part of a program of PyTorch operators", where=str(path), fix=EXPORT
            )
    needed = (GRAPH, *CONFIGS.values())
    if missing := [name for name in needed if name not in names]:
        raise InvalidModelError(f"has no {missing[0]}", where=str(path), fix=EXPORT)
    return {name: info for name, info in names.items() if READ.fullmatch(name)}


def _written(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], path: Path) -> bytes:
    program = _json(archive, entries[GRAPH], path)
    _check_graph(program, path)
    texts = {GRAPH: program}
    for folder, name in CONFIGS.items():
        texts[name] = _json(archive, entries[name], path)
        _check_payloads(texts[name], folder, entries, path)
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as written:
        for name, info in entries.items():
            content = json.dumps(texts[name]).encode() if name in texts else archive.read(info)
            written.writestr(f"program/{name}", content)
        written.writestr(f"program/{SAMPLES}", b"")
    return output.getvalue()


def _json(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> dict[str, Any]:
    where = f"{path}: {info.filename}"
    if info.file_size > TEXT_LIMIT_BYTES:
        raise UnsupportedModelError(f"has {info.file_size} bytes of text", where=where, fix=EXPORT)
    try:
        value = json.loads(archive.read(info))
    except (ValueError, RecursionError) as error:
        raise InvalidModelError("is not valid JSON", where=where, fix=EXPORT) from error
    if not isinstance(value, dict):
        raise InvalidModelError("is not a JSON object", where=where, fix=EXPORT)
    return value


def _check_graph(program: dict[str, Any], path: Path) -> None:
    """Check every part of a program that PyTorch resolves by name or evaluates, and drop metadata that it imports."""
    program["guards_code"] = []
    for node in _dicts(program, path):
        if "target" in node and "metadata" in node:
            _check_node(node, path)
        for key, check in CHECKS.items():
            if key in node:
                check(node[key], path)


def _dicts(value: Any, path: Path, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > DEPTH_LIMIT:
        raise UnsupportedModelError(f"the graph is nested more than {DEPTH_LIMIT} levels deep", where=str(path))
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dicts(item, path, depth + 1)


def _check_node(node: dict[str, Any], path: Path) -> None:
    target, metadata = str(node["target"]), node["metadata"]
    metadata = metadata if isinstance(metadata, dict) else {}
    node["metadata"] = {name: text for name, text in metadata.items() if name in KEPT_METADATA}
    where = f"{path}: {_name_of(node, metadata)}"
    if TRAINING.fullmatch(target) and any(map(_is_training, node.get("inputs") or ())):
        raise UnsupportedModelError(
            "computes as in training: the program was exported in training mode", where=where, fix=EXPORT
        )
    if ALLOWED_TARGETS.fullmatch(target) and target not in FILES:
        return
    if control := CONTROL_FLOW.fullmatch(target):
        raise UnsupportedModelError(
            f"is control flow ({control[1]}): TensorFlow Lite Micro models compute the same operators each time",
            where=where,
            fix="compute both branches and select, or unroll the loop",
        )
    if custom := CUSTOM.fullmatch(target):
        raise UnsupportedModelError(
            f"is the custom operator {custom[1]}", where=where, fix="write it with PyTorch's own operators"
        )
    raise UnsupportedModelError(f"calls {target[:80]!r}, which is not an operator of PyTorch", where=where, fix=EXPORT)


def _is_training(argument: Any) -> bool:
    """Return whether an argument of a node selects the computation of training."""
    return (
        isinstance(argument, dict)
        and argument.get("name") in TRAINING_ARGUMENTS
        and argument.get("arg") == {"as_bool": True}
    )


def _name_of(node: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return, for example, "node 'cond' of module 'blocks.0'"."""
    outputs = node.get("outputs")
    first = outputs[0] if isinstance(outputs, list) and outputs and isinstance(outputs[0], dict) else {}
    names = [str(part["name"]) for part in first.values() if isinstance(part, dict) and "name" in part]
    name = str(node.get("name") or (names or ["without a name"])[0])
    module = str(metadata.get("nn_module_stack", "")).split(";")[-1].split(",")
    return f"node {name[:80]!r}" + (f" of module {module[1][:80]!r}" if len(module) > 1 and module[1] else "")


def _check_size(text: Any, path: Path) -> None:
    if not isinstance(text, str) or not ALLOWED_SIZE.fullmatch(text):
        raise UnsupportedModelError(
            f"has a size {str(text)[:80]!r}, which is not an arithmetic expression of sizes",
            where=str(path),
            fix="export it with fixed shapes",
        )


def _check_structure(text: Any, path: Path) -> None:
    """Check the nesting of inputs or outputs; PyTorch imports the types in it."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise InvalidModelError("describes its inputs in invalid JSON", where=str(path), fix=EXPORT) from error
    for node in _dicts(value, path):
        if "type" in node and node["type"] not in STRUCTURES:
            raise UnsupportedModelError(
                f"has an input or output of type {str(node['type'])[:80]}",
                where=str(path),
                fix="pass tensors, or tuples, lists and dictionaries of tensors",
            )


def _check_empty(value: Any, path: Path) -> None:
    if value:
        raise UnsupportedModelError(
            "declares types or code of its own", where=str(path), fix="pass tensors, tuples, lists and dictionaries"
        )


# Key -> the check of what PyTorch evaluates or imports there.
CHECKS: Mapping[str, Callable[[Any, Path], None]] = {
    "expr_str": _check_size,
    "in_spec": _check_structure,
    "out_spec": _check_structure,
    "treespec_namedtuple_fields": _check_empty,
    "as_custom_obj": _check_empty,
    "custom_obj": _check_empty,
    "as_operator": _check_empty,
}


def _check_payloads(config: Mapping[str, Any], folder: str, entries: Mapping[str, zipfile.ZipInfo], path: Path) -> None:
    """Check that every weight is a tensor in an entry that contains all of it."""
    payloads = config.get("config")
    if not isinstance(payloads, dict):
        raise InvalidModelError(f"{CONFIGS[folder]} lists no weights", where=str(path), fix=EXPORT)
    for weight, payload in payloads.items():
        where = f"{path}: weight {weight[:80]!r}"
        meta = payload.get("tensor_meta") if isinstance(payload, dict) else None
        if not isinstance(meta, dict) or payload.get("use_pickle") is not False:
            raise UnsupportedModelError(
                "is a pickled Python object", where=where, fix="use plain tensors, then " + EXPORT
            )
        name = f"{folder}{payload.get('path_name')}"
        if not READ.fullmatch(name) or name not in entries:
            raise InvalidModelError(f"is missing: there is no entry {name!r}", where=where, fix=EXPORT)
        stored_bytes = entries[name].file_size
        size_bytes = _size_bytes(meta, where)
        if size_bytes > ARRAY_LIMIT_BYTES:
            raise UnsupportedModelError(
                f"declares {size_bytes} bytes, more than a .tflite file can contain",
                where=where,
                fix="use a smaller model",
            )
        if size_bytes > max(EXPANDING_BYTES, stored_bytes):
            raise UnsupportedModelError(
                f"declares {size_bytes} bytes, but the file contains only {stored_bytes}", where=where, fix=EXPORT
            )


def _size_bytes(meta: Mapping[str, Any], where: str) -> int:
    try:
        return math.prod(int(size["as_int"]) for size in meta["sizes"]) * ELEMENT_BYTES[meta["dtype"]]
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedModelError("has no fixed size, or an unknown type", where=where, fix=EXPORT) from error
