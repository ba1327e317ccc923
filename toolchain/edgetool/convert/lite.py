"""TensorFlow Lite's interpreter, calibrator and quantizer without TensorFlow's Python API. In the child process only.

`import tensorflow` loads the 2,400 modules of its API. That takes several seconds, longer than quantizing a small
model, and a .tflite needs 60 of them. These are imported without the package itself, which would import the others.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from edgetool.convert.source import CONVERT_EXTRA
from edgetool.errors import ConversionError, MissingExtraError

PACKAGE = "tensorflow"
# The first loads the libraries of the others. Modules that these import only when they are used are listed too.
MODULES = (
    "tensorflow.python.pywrap_tensorflow",
    "tensorflow.python.framework.versions",
    "tensorflow.compiler.mlir.lite.types_pb2",
    "tensorflow.compiler.mlir.lite.python._pywrap_converter_api",
    "tensorflow.lite.python.interpreter",
    "tensorflow.lite.python.optimize._pywrap_tensorflow_lite_calibration_wrapper",
    "tensorflow.lite.python.optimize.calibrator",
)
# numpy's names of types -> those of TensorFlow Lite's converter, if they differ.
CONVERTER_TYPES = {"float32": "FLOAT"}


def start_lite() -> dict[str, str]:
    """Import TensorFlow Lite, and return the versions of Python and TensorFlow.

    Raises MissingExtraError if TensorFlow is not installed, ConversionError if it cannot be loaded.
    """
    warnings.simplefilter("ignore")  # in the log, they would displace messages that the user needs to see
    with _without_api():
        for name in MODULES:
            imported(name)
    from tensorflow.python.framework.versions import VERSION

    return {"python": platform.python_version(), PACKAGE: str(VERSION)}


def imported(name: str) -> Any:
    """Import a library. Raises MissingExtraError if it is not installed, ConversionError if it cannot be loaded."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error.name} is not installed", fix=CONVERT_EXTRA) from error
    except Exception as error:  # a memory limit causes errors of several kinds
        raise ConversionError(
            f"{name} cannot be imported: {error}", fix="raise the memory limit, or reinstall it"
        ) from error


@contextmanager
def _without_api() -> Iterator[None]:
    """Let modules of TensorFlow be imported without its API; afterwards, `import tensorflow` imports that as usual."""
    if PACKAGE in sys.modules:
        yield
        return
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.submodule_search_locations is None:
        raise MissingExtraError(f"{PACKAGE} is not installed", fix=CONVERT_EXTRA)
    package = ModuleType(PACKAGE)
    package.__path__ = list(found.submodule_search_locations)
    sys.modules[PACKAGE] = package
    try:
        yield
    finally:
        del sys.modules[PACKAGE]


def interpreter(content: bytes, *, keep_tensors: bool = False) -> Any:
    """Return an interpreter of a .tflite on one thread without delegates, whose tensors are allocated.

    keep_tensors: every tensor can be read after a run.
    """
    from tensorflow.lite.python.interpreter import Interpreter, OpResolverType

    result = Interpreter(
        model_content=content,
        num_threads=1,
        experimental_preserve_all_tensors=keep_tensors,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    result.allocate_tensors()
    return result


def mlir_quantize(
    calibrated: bytes,
    input_type: str,
    output_type: str,
    *,
    denied: Sequence[str],
    verify: bool,
    dense_per_tensor: bool,
) -> bytes:
    """Quantize a calibrated .tflite to int8, as TensorFlow's converter does; raises RuntimeError if it is rejected.

    input_type, output_type: numpy's names of the types of the graph's inputs and outputs. denied: names of tensors
    whose operators stay in float. verify: add an operator NumericVerify(quantized, float) for each one that was
    quantized. dense_per_tensor: one scale for all weights of a dense layer.
    """
    from tensorflow.compiler.mlir.lite import types_pb2
    from tensorflow.compiler.mlir.lite.python import _pywrap_converter_api

    def code(name: str) -> int:
        return int(types_pb2.IODataType.Value(CONVERTER_TYPES.get(name, name.upper())))

    return bytes(
        _pywrap_converter_api.ExperimentalMlirQuantizeModel(
            calibrated,
            fully_quantize=False,
            inference_type=types_pb2.QUANTIZED_INT8,
            input_data_type=code(input_type),
            output_data_type=code(output_type),
            enable_numeric_verify=verify,
            node_blocklist=list(denied),
            disable_per_channel_for_dense_layers=dense_per_tensor,
            debug_options_proto_txt_raw=b"",
        )
    )
