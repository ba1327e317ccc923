"""The child's side of `run_model`; the only module that imports LiteRT and TensorFlow Lite Micro."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgetool import child, errors
from edgetool.model.reader import read_model
from edgetool.operators.control import resource_variables

Array = npt.NDArray[Any]
TensorKind = tuple[tuple[int, ...], "np.dtype[Any]"]

# More than any microcontroller has: in an arena that is a little too small, TFLM crashes with a segmentation
# fault in Prepare and cannot be called again. Unused memory costs nothing.
FIRST_ARENA_BYTES = 64 * 2**20
LARGEST_ARENA_BYTES = 2**30
PROGRESS_STEPS = 20
MODEL_NAME = "model.tflite"


class Runner(Protocol):
    """A model that is ready to be invoked, in its initial state."""

    inputs: tuple[TensorKind, ...]

    def invoke(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the outputs for one array per input, in graph order."""


def input_name(index: int) -> str:
    """Return the file of graph input `index`."""
    return f"input_{index}.npy"


def output_name(index: int) -> str:
    """Return the file of graph output `index`."""
    return f"output_{index}.npy"


class LiteRt:
    """LiteRT with its default kernels (XNNPACK), or with the reference ones."""

    def __init__(self, model: bytes, *, reference: bool) -> None:
        module = _import("ai_edge_litert.interpreter", "tflite_runtime.interpreter")
        kinds = module.OpResolverType
        self._interpreter = module.Interpreter(
            model_content=model,
            experimental_op_resolver_type=kinds.BUILTIN_REF if reference else kinds.AUTO,
            num_threads=1,
        )
        self._interpreter.allocate_tensors()
        details = self._interpreter.get_input_details()
        self._indices = tuple(detail["index"] for detail in details)
        self._outputs = tuple(detail["index"] for detail in self._interpreter.get_output_details())
        self.inputs = tuple(_tensor_kind(detail) for detail in details)

    def invoke(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Run the model, as in Runner."""
        for index, array in zip(self._indices, arrays, strict=True):
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()
        return tuple(self._interpreter.get_tensor(index) for index in self._outputs)


class Tflm:
    """TensorFlow Lite Micro with its reference kernels, built for this machine."""

    def __init__(self, model: bytes, *, arena_bytes: int | None) -> None:
        module = _import("tflite_micro.runtime", package="tflite_micro")
        # The wheel's own function counts variables with the same name in different containers only once.
        module.count_resource_variables = lambda blob: len(resource_variables(read_model(blob)))
        self._interpreter = _tflm_interpreter(module.Interpreter, model, arena_bytes)
        self.inputs = tuple(_tensor_kind(detail) for detail in _all_details(self._interpreter.get_input_details))
        self._output_count = len(_all_details(self._interpreter.get_output_details))

    def invoke(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Run the model, as in Runner."""
        for index, array in enumerate(arrays):
            self._interpreter.set_input(array, index)
        self._interpreter.invoke()
        return tuple(np.array(self._interpreter.get_output(index)) for index in range(self._output_count))

    def allocations(self, log: Path) -> str:
        """Return what TFLM prints about its arena. It prints only to stderr at C level, which is `log` in a child."""
        start = log.stat().st_size
        self._interpreter.print_allocations()
        return log.read_bytes()[start:].decode("utf-8", "replace")


# By the name of the engine: its name in messages, and a function that returns a runner.
ENGINES: dict[str, tuple[str, Callable[[bytes, int | None], Runner]]] = {
    "litert-reference": ("LiteRT", lambda model, _: LiteRt(model, reference=True)),
    "litert": ("LiteRT", lambda model, _: LiteRt(model, reference=False)),
    "tflm": ("TensorFlow Lite Micro", lambda model, arena_bytes: Tflm(model, arena_bytes=arena_bytes)),
}


def _tflm_interpreter(interpreter: Any, model: bytes, arena_bytes: int | None) -> Any:
    """Return an interpreter in an arena of the given size, or in the first of doubling sizes that suffices.

    The size has no influence on the results. A model that TFLM cannot run fails at every size.
    """
    size = FIRST_ARENA_BYTES if arena_bytes is None else arena_bytes
    while True:
        try:
            return interpreter.from_bytes(model, arena_size=size)
        except RuntimeError:
            if arena_bytes is not None or size >= LARGEST_ARENA_BYTES:
                raise
        size *= 2


def _all_details(details: Any) -> list[dict[str, Any]]:
    """Return TFLM's details of each input or output; it has no count, and rejects an index beyond the last."""
    result: list[dict[str, Any]] = []
    while True:
        try:
            result.append(details(len(result)))
        except IndexError:
            return result


def _tensor_kind(detail: dict[str, Any]) -> TensorKind:
    return tuple(int(size) for size in detail["shape"]), np.dtype(detail["dtype"])


def _import(*names: str, package: str = "") -> Any:
    """Return the first of the modules that is installed; with `package`, that package's attribute of that name."""
    missing = ""
    for name in names:
        try:
            if package:
                return getattr(importlib.import_module(package), name.removeprefix(f"{package}."))
            return importlib.import_module(name)
        except ImportError as error:
            missing = missing or str(error)
    fix = "pip install 'edgetool[verify]'"
    if package == "tflite_micro":
        fix += ", on Linux with an x86-64 processor: tflite-micro has wheels for no other platform"
    raise errors.MissingExtraError(
        f"running a model needs the package {(package or names[0].partition('.')[0])}, "
        f"which cannot be imported ({missing})",
        fix=fix,
    )


def _check_inputs(inputs: tuple[Array, ...], expected: tuple[TensorKind, ...]) -> int:
    """Return the number of samples, which must be the same for all inputs (1 for a model without inputs)."""
    if len(inputs) != len(expected):
        raise errors.UsageError(f"the model has {len(expected)} inputs, but {len(inputs)} arrays were passed")
    for index, (array, (shape, dtype)) in enumerate(zip(inputs, expected, strict=True)):
        if array.dtype != dtype or array.shape[1:] != shape or not array.ndim:
            raise errors.UsageError(
                f"the array is {array.dtype} {list(array.shape)}, but the model expects {dtype} [N, "
                + ", ".join(map(str, shape))
                + "]",
                where=f"input {index}",
            )
    counts = {len(array) for array in inputs} or {1}
    if len(counts) > 1 or 0 in counts:
        raise errors.UsageError(
            f"the inputs have {', '.join(map(str, sorted(counts)))} samples",
            fix="use the same number of samples for every input, at least one",
        )
    return counts.pop()


def runtime_error(name: str, doing: str, error: Exception, workdir: Path) -> errors.EdgetoolError:
    """Return the runtime's error; the last lines of its log name the operator."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return errors.UnsupportedModelError(
        f"{name} cannot {doing} the model: {lines[0] if lines else type(error).__name__}",
        details=tuple(dict.fromkeys((*lines[1:], *child.log_tail(workdir)))),  # each attempt logs the same lines
    )


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Run the model in `workdir` on the inputs there, None for AllocateTensors alone; write one file per output.

    The result has the number of outputs and, for TFLM, what it printed about its arena.
    """
    name, prepare = ENGINES[request["engine"]]
    model = (workdir / MODEL_NAME).read_bytes()
    inputs = tuple(
        np.load(workdir / input_name(index), mmap_mode="r", allow_pickle=False)
        for index in range(request["inputs"] or 0)
    )
    progress(f"preparing the model in {name}")
    try:
        runner = prepare(model, request["arena_bytes"])
    except (errors.EdgetoolError, MemoryError):
        raise
    except Exception as error:  # the bindings may raise any exception, for an invalid file too
        raise runtime_error(name, "prepare", error, workdir) from error
    allocations = runner.allocations(workdir / child.LOG_NAME) if isinstance(runner, Tflm) else None
    if request["inputs"] is None:
        return {"outputs": 0, "allocations": allocations}
    count = _check_inputs(inputs, runner.inputs)
    samples: list[tuple[Array, ...]] = []
    for sample in range(count):
        if sample % max(1, count // PROGRESS_STEPS) == 0:
            progress(f"{name} runs sample {sample + 1} of {count}")
        try:
            samples.append(runner.invoke(tuple(np.ascontiguousarray(array[sample]) for array in inputs)))
        except (RuntimeError, ValueError) as error:
            raise runtime_error(name, "run", error, workdir) from error
    for index, output in enumerate(zip(*samples, strict=True)):
        np.save(workdir / output_name(index), np.stack(output), allow_pickle=False)
    return {"outputs": len(samples[0]), "allocations": allocations}


if __name__ == "__main__":
    child.serve(work)
