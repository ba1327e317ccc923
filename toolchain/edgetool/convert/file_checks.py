"""Reject Keras files that contain code, refer to other files, or declare more data than they contain.

HDF5 files are checked before any array is read, and the entries of an archive before any is unpacked. A model
configuration that contains code, or that Keras 3 cannot rebuild, is rejected before anything is loaded.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from edgetool.convert.keras_names import ACTIVATIONS, APPLICATION_LAYERS, LAYERS, OPERATIONS, PARTS
from edgetool.convert.legacy import HARD_SIGMOID
from edgetool.convert.tf_keras_layers import ALLOWED, CALLS, TF_KERAS, TFMOT_MODULE, TFMOT_PARTS, forbidden_call
from edgetool.convert.tf_keras_layers import TRAINED_FOR_INTEGERS as QUANTIZED
from edgetool.errors import UnsupportedModelError

# What zipfile raises for damaged archives, and for those that are compressed in another way.
DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
# A .tflite is a flatbuffer with 32-bit offsets, which cannot contain a larger array.
ARRAY_LIMIT_BYTES = 2 * 2**30
# All arrays of a file: the weights, twice their size for the state of an optimizer, and a margin.
TOTAL_LIMIT_BYTES = 4 * ARRAY_LIMIT_BYTES
# Attributes contain a configuration or names.
ATTRIBUTE_LIMIT_BYTES = 64 * 2**20
# Variable-length strings in one attribute, which can all be the same one in the file; Keras writes only one.
TEXTS_LIMIT = 2**16
# Deflate compresses by a factor of at most 1032: more data than that is not stored. Smaller arrays than EXPANDING_BYTES
# are accepted anyway.
MAX_EXPANSION, EXPANDING_BYTES = 1100, 16 * 2**20
# Filters in h5py; for others, HDF5 loads a library from the machine. Sources: H5Zpublic.h (HDF5), lzf_filter.h (h5py).
FILTERS = frozenset([1, 2, 3, 4, 5, 6, 32000])
AGAIN = "save the model again"


def check_hdf5(file: Any, path: Path, prefix: str = "") -> None:
    """Check every object of the open h5py.File once.

    Args:
        prefix: the name of the file inside an archive, for messages.

    Raises UnsupportedModelError naming an object that is a link, has its data in another file, uses a filter that h5py
    does not contain, or declares a size beyond the limits or beyond the stored data.
    """
    import h5py

    seen: set[Any] = set()
    pending, total_bytes = [file], 0
    _check_attributes(file, prefix or "/", path)
    while pending:
        group = pending.pop()
        for name in group:
            where = f"{prefix}{group.name.rstrip('/')}/{name}"
            if isinstance(group.get(name, getlink=True), h5py.ExternalLink | h5py.SoftLink):
                raise UnsupportedModelError(f"{where} is a link", where=str(path), fix=AGAIN)
            entry = group[name]
            if isinstance(entry, h5py.Datatype):
                continue
            address = h5py.h5o.get_info(entry.id).addr
            if address in seen:
                continue
            seen.add(address)
            _check_attributes(entry, where, path)
            if isinstance(entry, h5py.Group):
                pending.append(entry)
                continue
            _check_dataset(entry, where, path)
            total_bytes += entry.nbytes
            if total_bytes > TOTAL_LIMIT_BYTES:
                raise UnsupportedModelError(
                    f"its arrays up to {where} declare a total of {total_bytes} bytes, more than any model that can be "
                    "converted",
                    where=str(path),
                    fix=AGAIN,
                )


def _check_dataset(entry: Any, where: str, path: Path) -> None:
    if entry.external or entry.is_virtual:
        raise UnsupportedModelError(f"{where} stores its data in another file", where=str(path), fix=AGAIN)
    size_bytes = entry.nbytes
    if size_bytes > ARRAY_LIMIT_BYTES:
        raise UnsupportedModelError(
            f"{where} declares {size_bytes} bytes, more than a .tflite file can contain", where=str(path)
        )
    stored_bytes = entry.id.get_storage_size()
    if size_bytes > max(EXPANDING_BYTES, MAX_EXPANSION * stored_bytes):
        raise UnsupportedModelError(
            f"{where} declares {size_bytes} bytes, but the file contains only {stored_bytes}",
            where=str(path),
            fix=AGAIN,
        )
    properties = entry.id.get_create_plist()
    for index in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(index)
        if code not in FILTERS:
            filter_name = name.decode("utf-8", "replace") or f"number {code}"
            raise UnsupportedModelError(
                f"{where} is stored with the filter {filter_name!r}, which is not one of HDF5's standard filters",
                where=str(path),
                fix=AGAIN,
            )


def _check_attributes(entry: Any, where: str, path: Path) -> None:
    for name in entry.attrs:
        attribute = entry.attrs.get_id(name)
        count = attribute.get_space().get_simple_extent_npoints()
        if count > TEXTS_LIMIT and attribute.dtype.hasobject:
            raise UnsupportedModelError(
                f"attribute {name!r} of {where} declares {count} variable-length strings", where=str(path), fix=AGAIN
            )
        size_bytes = count * attribute.get_type().get_size()
        if size_bytes > ATTRIBUTE_LIMIT_BYTES:
            raise UnsupportedModelError(
                f"attribute {name!r} of {where} declares {size_bytes} bytes", where=str(path), fix=AGAIN
            )


METHODS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
ENCRYPTED = 1  # bit in the flags of an entry


def escapes_folder(name: str) -> bool:
    """Return whether the name of an inner file leads outside its folder on any operating system."""
    windows = PureWindowsPath(name)
    return ".." in windows.parts or bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute()


def check_entries(entries: Sequence[zipfile.ZipInfo], path: Path) -> None:
    """Raise UnsupportedModelError naming the first entry of an archive that cannot be trusted.

    The sizes that entries declare are sufficient, because zipfile reads no more than that, even if entries overlap.
    Symbolic links need no check, because it unpacks them as files.
    """
    seen: set[str] = set()
    for entry in entries:
        reason = _reason(entry, seen)
        if reason is not None:
            raise UnsupportedModelError(f"entry {entry.filename!r} {reason}", where=str(path), fix=AGAIN)
        seen.add(entry.filename)
    claimed_bytes = sum(entry.file_size for entry in entries)
    if claimed_bytes > TOTAL_LIMIT_BYTES:
        raise UnsupportedModelError(
            f"its files declare a total of {claimed_bytes} bytes, more than any convertible model can have",
            where=str(path),
        )


def _reason(entry: zipfile.ZipInfo, seen: set[str]) -> str | None:
    """Return what is wrong with an entry, None if nothing is. seen: the names of the entries before it."""
    if escapes_folder(entry.filename) or "\\" in entry.filename:
        return "points outside the archive"
    if entry.filename in seen:
        return "occurs twice"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted"
    if entry.compress_type not in METHODS:
        return "uses a compression method other than deflate"
    if entry.file_size > max(EXPANDING_BYTES, MAX_EXPANSION * entry.compress_size):
        return f"declares {entry.file_size} bytes but occupies only {entry.compress_size}"
    return None


TRUST = "use --trust-model-code if you trust the source of the file"
DEFINE = (
    "provide its code with --custom-objects module.py and --trust-model-code, "
    "or export a SavedModel with model.export() in the program that defines it"
)
EXPORT = "export a SavedModel with model.export() using the Keras version that created it"
OPERATIONS_OF_KERAS = f"use keras.ops, or {EXPORT}"
CLUSTERED = (
    "its weights are clustered in a way that only tensorflow-model-optimization can undo",
    "save tfmot.clustering.keras.strip_clustering(model)",
)
OUTSIDE = "do it outside the model and pass the result in"

# Class -> why loading it runs code from the file or its author.
CARRIES_CODE = {
    "Lambda": "it contains Python code",
    "__lambda__": "it contains Python code",
    "TFSMLayer": "it loads another SavedModel",
    "TorchModuleWrapper": "it contains pickled Python objects",
    "JaxLayer": "it contains Python functions",
    "FlaxLayer": "it contains Python functions",
    "Map": "it takes a function as an argument",
    "Scan": "it takes a function as an argument",
    "AssociativeScan": "it takes a function as an argument",
    "VectorizedMap": "it takes a function as an argument",
    "WhileLoop": "it takes functions as arguments",
    "ForiLoop": "it takes a function as an argument",
    "Cond": "it takes functions as arguments",
    "Switch": "it takes functions as arguments",
}
# Class -> why it is not supported even with flags, and what to use instead.
UNSUPPORTED = {
    "TFOpLambda": ("it is a raw TensorFlow call, which Keras 3 cannot rebuild", OPERATIONS_OF_KERAS),
    "SlicingOpLambda": ("it is a raw TensorFlow slice, which Keras 3 cannot rebuild", f"use Cropping, or {EXPORT}"),
    "TensorFlowOpLayer": (
        "it is a raw TensorFlow operation, which Keras 3 cannot rebuild",
        f"use keras.ops, or {EXPORT}",
    ),
    "ClassMethod": ("it is a raw TensorFlow call, which no Keras version can rebuild safely", OPERATIONS_OF_KERAS),
    "InstanceMethod": ("it is a raw TensorFlow call, which no Keras version can rebuild safely", OPERATIONS_OF_KERAS),
    "InstanceProperty": ("it is a raw TensorFlow call, which no Keras version can rebuild safely", OPERATIONS_OF_KERAS),
    "ThresholdedReLU": ("this layer does not exist in Keras 3", "use ReLU(threshold=...)"),
    "LocallyConnected1D": ("this layer does not exist in Keras 3", f"use Conv1D, or {EXPORT}"),
    "LocallyConnected2D": ("this layer does not exist in Keras 3", f"use Conv2D, or {EXPORT}"),
    "RandomHeight": ("this layer does not exist in Keras 3", "remove it: it has no effect at inference"),
    "RandomWidth": ("this layer does not exist in Keras 3", "remove it: it has no effect at inference"),
    "DenseFeatures": ("this layer does not exist in Keras 3", f"provide its columns as separate inputs, and {OUTSIDE}"),
    "CuDNNLSTM": ("this layer does not exist in Keras 3", "use LSTM"),
    "CuDNNGRU": ("this layer does not exist in Keras 3", "use GRU(reset_after=True)"),
    "ClusterWeights": CLUSTERED,
    "ClusterWeightsMHA": CLUSTERED,
    "ClusterWeightsRNN": CLUSTERED,
    "StringLookup": ("it operates on strings, which TensorFlow Lite Micro does not support", OUTSIDE),
    "IntegerLookup": ("it requires a hash table, which TensorFlow Lite Micro does not support", OUTSIDE),
    "TextVectorization": ("it operates on strings, which TensorFlow Lite Micro does not support", OUTSIDE),
    "Hashing": ("it operates on strings, which TensorFlow Lite Micro does not support", OUTSIDE),
    "HashedCrossing": ("it operates on strings, which TensorFlow Lite Micro does not support", OUTSIDE),
}
# Classes that Keras writes for plain values.
VALUES = frozenset(
    """
    __tuple__ __tensor__ __keras_tensor__ __numpy__ __bytes__ __ellipsis__ __slice__ __complex__ TensorShape
    """.split()
)
FUNCTIONS = ACTIVATIONS | {HARD_SIGMOID}
FUNCTION_KEYS = ("activation", "recurrent_activation")
# The optimizer, loss and metrics of a .keras file, which are removed before it is loaded. In an .h5 file they are in a
# separate attribute, and this key of the configuration could be loaded.
NOT_LOADED = {"keras": frozenset(["compile_config"]), "h5": frozenset[str]()}
DEPTH_LIMIT = 200


def check_config(
    config: dict[str, Any], kind: str, *, trust_model_code: bool = False, tf_keras: bool = False
) -> tuple[str, ...]:
    """Check a model's JSON configuration; return one sentence for each part that only trust_model_code permits.

    Args:
        kind: "h5" or "keras".
        tf_keras: whether tf_keras will load the model instead of Keras 3.

    Raises UnsupportedModelError naming layer and reason.
    """
    trusted: dict[str | None, str] = {}
    loaded = {key: value for key, value in config.items() if key not in NOT_LOADED[kind]}
    for layer, node in _objects(loaded, None, 0):
        name = str(node["class_name"])
        where = _where(layer, name)
        if tf_keras and name in ALLOWED:
            _check_allowed(where, node)
            continue
        if name in UNSUPPORTED:
            reason, instead = UNSUPPORTED[name]
            raise UnsupportedModelError(f"{where} cannot be converted: {reason}{_called(name, node)}", fix=instead)
        if name in QUANTIZED:
            raise UnsupportedModelError(
                f"{where} comes from quantization-aware training, which Keras 3 cannot load", fix=TF_KERAS
            )
        if name in OPERATIONS - LAYERS and kind == "h5" and name not in PARTS:
            raise UnsupportedModelError(
                f"{where} is an operation outside a layer, which Keras cannot load from .h5",
                fix="save the model as .keras",
            )
        code = _code(name, node, tf_keras=tf_keras)
        if code is None:
            continue
        if not trust_model_code:
            raise UnsupportedModelError(f"{where} was rejected: {code}", fix=TRUST if name in CARRIES_CODE else DEFINE)
        trusted.setdefault(layer, f"{where} was loaded with --trust-model-code: {code}")
    return tuple(trusted.values())


def _check_allowed(where: str, node: dict[str, Any]) -> None:
    """Reject raw calls of functions that are not allowed, and classes that only have the name of an allowed class."""
    name, module = node["class_name"], node.get("module")
    alias = _alias(name, node)
    if alias is not None:
        raise UnsupportedModelError(f"{where} was rejected: {alias}", fix=EXPORT)
    call = forbidden_call(node)
    if call is not None:
        raise UnsupportedModelError(
            f"{where} was rejected: it calls {call}, which is not on the list of side-effect-free TensorFlow functions",
            fix=f"use a Keras layer, or {EXPORT}",
        )
    prefix = TFMOT_MODULE if name in QUANTIZED | TFMOT_PARTS else "tf_keras."
    if not (_is_keras(module, tf_keras=True) or (isinstance(module, str) and module.startswith(prefix))):
        raise UnsupportedModelError(f"{where} was rejected: its class comes from {module}", fix=EXPORT)


def _objects(value: Any, layer: str | None, depth: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield every serialized object in a configuration, with the name of the layer that contains it."""
    if depth > DEPTH_LIMIT:
        raise UnsupportedModelError(f"the configuration is nested more than {DEPTH_LIMIT} levels deep")
    if isinstance(value, list):
        for item in value:
            yield from _objects(item, layer, depth + 1)
    elif isinstance(value, dict):
        name = value.get("class_name")
        if isinstance(name, str):
            layer = _layer_name(name, value) or layer
            yield layer, value
        elif name is not None:
            raise UnsupportedModelError(f"{_where(layer, 'the model')} has a class_name that is not a string")
        for key in FUNCTION_KEYS:
            if isinstance(value.get(key), str) and value[key] not in FUNCTIONS:
                yield layer, {"class_name": "function", "config": value[key], "module": "builtins"}
        for item in value.values():
            yield from _objects(item, layer, depth + 1)


def _layer_name(class_name: str, node: dict[str, Any]) -> str | None:
    """Return the name of the object if it is a layer; None for an initializer or similar."""
    config = node.get("config")
    if class_name in PARTS or class_name in VALUES or not isinstance(config, dict):
        return None
    name = config.get("name", node.get("name"))
    return name if isinstance(name, str) else None


def _code(name: str, node: dict[str, Any], *, tf_keras: bool) -> str | None:
    """Return why loading this object would run code that is not part of Keras, or None."""
    if name in CARRIES_CODE:
        return CARRIES_CODE[name]
    if name in VALUES:
        return None
    alias = _alias(name, node) if tf_keras else None  # Keras 3 uses only the class
    if alias is not None:
        return alias
    module = node.get("module")
    if name == "function":
        function = node.get("config")
        is_built_in = function in FUNCTIONS and _is_keras(module, tf_keras=tf_keras)
        return None if is_built_in else f"its function {function!r} is not part of Keras"
    if name in LAYERS or name in PARTS or name in OPERATIONS:
        return (
            None
            if _is_keras(module, tf_keras=tf_keras)
            else f"its class comes from {module}, which is not part of Keras"
        )
    return None if module is not None and APPLICATION_LAYERS.get(name) == module else "its class is not part of Keras"


def _alias(name: str, node: dict[str, Any]) -> str | None:
    """Return why the object may not be of its class, or None: tf_keras also searches for its registered name."""
    registered = node.get("registered_name")
    plain = registered.rpartition(">")[2] if isinstance(registered, str) else registered  # of "package>name"
    expected = (None, name, node.get("config") if name == "function" else None)
    return None if plain in expected else f"it is registered under a different name, {registered!r}"


def _is_keras(module: Any, *, tf_keras: bool) -> bool:
    if module in (None, "builtins", "keras"):
        return True
    return isinstance(module, str) and module.startswith(("keras.", "tf_keras.") if tf_keras else "keras.")


def _called(name: str, node: dict[str, Any]) -> str:
    config = node.get("config")
    call = config.get("function") if isinstance(config, dict) else None
    return f" (tf.{call})" if name in CALLS and isinstance(call, str) else ""


def _where(layer: str | None, name: str) -> str:
    if name in ("function", "__lambda__"):
        return f"layer {layer!r}" if layer else "the model"
    return f"layer {layer!r} ({name})" if layer else name
