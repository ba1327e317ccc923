"""Load a PyTorch program (.pt2) and import it with LiteRT Torch; in the child process only.

PyTorch receives the archive that exported_program.checked_program wrote, never the user's file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.exported_program import EXPORT, checked_program
from edgetool.convert.float_model import NUMERIC
from edgetool.convert.imported import ImportedModel
from edgetool.convert.input_shapes import RequestedShapes, require_fixed, resolve_shapes
from edgetool.convert.samples import Array
from edgetool.errors import ConversionError, InvalidModelError, MissingExtraError, UnsupportedModelError
from edgetool.model.reader import read_model
from edgetool.model.types import Model

EXTRA = "pip install 'edgetool[torch]' and a CPU build of torch"
LIBRARIES = ("torch", "litert-torch")
# How LiteRT Torch reports an operator that it does not know.
UNKNOWN_OPERATOR = re.compile(r"[Ll]owering not found: ([\w.:]+)|No lowering.*?([\w.:]+)")
MAX_MESSAGE = 200
# Operators of programs that prepare_pt2e and convert_pt2e have quantized, those with constant scales, and the limits
# of int8; weights may leave out -128.
QUANTIZED = "quantized_decomposed."
STATIC = frozenset(
    f"{kind}_per_{what}.default" for kind in ("quantize", "dequantize") for what in ("tensor", "channel")
)
INT8_LIMITS = ((-128, 127), (-127, 127))
# PyTorch computes these types with another precision than float32, and TFLM does not have them.
OTHER_FLOATS = frozenset(["float16", "float64"])
# How the converter's messages name where an operator comes from: the path of its module.
LOCATION = re.compile(r'loc\("([^";]+)')


def import_program(path: Path, shapes: RequestedShapes, workdir: Path, progress: child.Progress) -> ImportedModel:
    """Import a program with a batch of 1.

    Raises the errors of checked_program, MissingExtraError, UsageError for requested shapes that do not apply,
    UnsupportedModelError for inputs that are not tensors of fixed shapes and for complex numbers, and ConversionError
    if PyTorch cannot run the program or LiteRT Torch rejects it.
    """
    archive = checked_program(path)
    progress("loading PyTorch")
    torch, litert_torch = _libraries()
    from torch.utils import _pytree as pytree

    torch.set_num_threads(1)
    progress("loading the program")
    program = _loaded(torch, archive, path)
    check_quantization(program, path)
    check_complex(program, path)
    inputs = [node for node in program.graph.nodes if node.name in set(program.graph_signature.user_inputs)]
    if len(inputs) != len(program.graph_signature.user_inputs):
        raise UnsupportedModelError(
            f"has an input that is not a tensor ({_other_inputs(program, inputs)})",
            where=str(path),
            fix="make it a constant of the module",
        )
    examples = _examples(torch, inputs, shapes, path)
    module = _with_float_weights(torch, program.module(check_guards=False))

    def run(tensors: Sequence[Any]) -> Any:
        arguments, options = pytree.tree_unflatten(list(tensors), program.call_spec.in_spec)
        with torch.no_grad():
            return module(*arguments, **options)

    def call(arrays: Sequence[Array]) -> list[Array]:
        tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        return [result.numpy() for result in pytree.tree_leaves(run(tensors))]

    try:
        results = run(examples)
    except MemoryError:
        raise
    except Exception as error:  # PyTorch raises errors of many types for what does not match
        raise ConversionError(
            f"PyTorch {torch.__version__} cannot run the program on zeros: {_short(error)}",
            where=str(path),
            fix="check it with torch.export.load('model.pt2').module()(example_input)",
        ) from error
    outputs = _outputs(torch, results, path)
    progress("importing the program")
    arguments, options = pytree.tree_unflatten(list(examples), program.call_spec.in_spec)
    with _explained(program, path, workdir):
        # A GraphModule keeps the names of its modules only if nothing is wrapped around it.
        content = litert_torch.convert(module, arguments, options).model_content()
    modules = _modules(program)
    model = _with_modules(read_model(content, name=str(path)), modules)
    return ImportedModel(
        model=model,
        inputs=tuple(node.name for node in inputs),
        outputs=outputs,
        call=call,
        layers=dict(modules.values()),
        output_layers=_output_layers(program),
        versions={name: version(name) for name in LIBRARIES},
    )


def _libraries() -> tuple[Any, Any]:
    try:
        import litert_torch
        import torch
        import torch.ao.quantization.fx._decomposed  # defines the operators of quantized programs
    except ImportError as error:
        raise MissingExtraError(f"a PyTorch program needs {error.name}, which is not installed", fix=EXTRA) from error
    return torch, litert_torch


def _loaded(torch: Any, archive: bytes, path: Path) -> Any:
    try:
        return torch.export.load(io.BytesIO(archive))
    except MemoryError:
        raise
    except Exception as error:  # PyTorch raises errors of many types for a damaged program
        raise InvalidModelError(
            f"PyTorch {torch.__version__} cannot load the program: {_short(error)}",
            where=str(path),
            fix=f"with this version of PyTorch, {EXPORT}",
        ) from error


def _examples(torch: Any, nodes: Sequence[Any], shapes: RequestedShapes, path: Path) -> tuple[Any, ...]:
    """Return a tensor of zeros for each input, with a batch of 1 if the size of the batch is not fixed."""
    declared = []
    for node in nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise UnsupportedModelError(
                f"input {node.name!r} is not a tensor", where=str(path), fix="make it a constant of the module"
            )
        if str(value.dtype).removeprefix("torch.") not in NUMERIC - OTHER_FLOATS:
            raise UnsupportedModelError(
                f"input {node.name!r} is of type {value.dtype}",
                where=str(path),
                fix="use float32 or integers: export model.float()",
            )
        declared.append((value.dtype, [size if isinstance(size, int) else None for size in value.shape]))
    names = [node.name for node in nodes]
    resolved = resolve_shapes(names, [tuple(sizes[1:]) for _, sizes in declared], shapes, str(path))
    return tuple(
        torch.zeros((*((sizes[0] or 1,) if sizes else ()), *require_fixed(name, shape, str(path))), dtype=dtype)
        for name, (dtype, sizes), shape in zip(names, declared, resolved, strict=True)
    )


def check_quantization(program: Any, path: Path) -> None:
    """Raise UnsupportedModelError for a quantization that is not static, or not to int8."""
    for node in program.graph.nodes:
        if not str(node.target).startswith(QUANTIZED):
            continue
        kind, limits = str(node.target).removeprefix(QUANTIZED), node.args[-3:]
        what = None
        if kind not in STATIC:
            what = f"scales are not constant ({kind})"
        elif str(limits[2]) != "torch.int8" or tuple(limits[:2]) not in INT8_LIMITS:
            what = f"quantization is to {limits[2]} from {limits[0]} to {limits[1]}"
        if what is not None:
            raise UnsupportedModelError(
                f"the {what} at node {node.name!r}, and only static int8 is supported",
                where=str(path),
                fix="prepare it with PT2EQuantizer of litert_torch, not dynamic, or export it in float",
            )


def check_complex(program: Any, path: Path) -> None:
    """Raise UnsupportedModelError for the first node that computes complex numbers."""
    for node in program.graph.nodes:
        if getattr(getattr(node.meta.get("val"), "dtype", None), "is_complex", False):
            raise UnsupportedModelError(
                f"computes complex numbers ({node.target}), which TensorFlow Lite Micro does not have",
                where=f"{path}: {_place(node)}",
                fix="compute spectra in the firmware and pass their magnitudes to the model",
            )


def _other_inputs(program: Any, tensors: Sequence[Any]) -> str:
    """Return the names of inputs that are numbers or objects."""
    known = {node.name for node in tensors}
    arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    return ", ".join(repr(argument.name) for argument in arguments if argument.name not in known)


def _with_float_weights(torch: Any, module: Any) -> Any:
    """Return the module with its int8 weights as float32 weights that it quantizes, with the same result.

    LiteRT Torch supports only those. PyTorch folds quantizations of weights by default.
    """
    library = torch.ops.quantized_decomposed
    quantize = {
        library.dequantize_per_channel.default: library.quantize_per_channel.default,
        library.dequantize_per_tensor.default: library.quantize_per_tensor.default,
    }
    graph = module.graph
    constants = dict((*module.named_parameters(), *module.named_buffers()))
    for node in [node for node in graph.nodes if node.target in quantize and node.args[0].op == "get_attr"]:
        arguments = [constants[arg.target] if isinstance(arg, torch.fx.Node) else arg for arg in node.args]
        name = f"_float_{node.name}"
        module.register_buffer(name, node.target(*arguments, **node.kwargs))
        with graph.inserting_before(node):
            quantized = graph.call_function(quantize[node.target], (graph.get_attr(name), *node.args[1:]))
            node.replace_input_with(node.args[0], quantized)
    module.recompile()
    return module


def _outputs(torch: Any, results: Any, path: Path) -> tuple[str, ...]:
    """Return the names of a program's outputs."""
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_flatten_with_path(results)[0]
    if wrong := [value for _, value in leaves if not isinstance(value, torch.Tensor)]:
        raise UnsupportedModelError(
            f"has an output of type {type(wrong[0]).__name__}, which is not a tensor",
            where=str(path),
            fix="return tensors only",
        )
    return tuple(_output_name(keys, position, len(leaves)) for position, (keys, _) in enumerate(leaves))


def _output_name(keys: Sequence[Any], position: int, count: int) -> str:
    """Return the key of an output in a dictionary; otherwise "output", with its position if there are several."""
    named = [str(key.key) for key in keys if hasattr(key, "key")]
    return "_".join(named) or ("output" if count == 1 else f"output_{position}")


@contextmanager
def _explained(program: Any, path: Path, workdir: Path) -> Iterator[None]:
    """Turn the errors of LiteRT Torch into a ConversionError that names the node or the module."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        text = str(error)
        if unknown := UNKNOWN_OPERATOR.search(text):
            operator = unknown[1] or unknown[2]
            what, place = f"has no operator for {operator}", place_of_operator(program, operator)
        else:
            what, place = f"rejected the program: {_short(error)}", _place_in(text, program)
        raise ConversionError(
            f"LiteRT Torch {version('litert-torch')} {what}",
            where=f"{path}: {place}" if place else str(path),
            fix="replace that operator in the module",
            details=() if unknown else child.log_tail(workdir),
        ) from error


def place_of_operator(program: Any, operator: str) -> str:
    """Return the first node that computes an operator, such as "node 'i0' of module 'head'"; "" if there is none.

    LiteRT Torch replaces some operators by others first, as PyTorch does by default.
    """
    for find in (lambda: program, program.run_decompositions):
        for node in find().graph.nodes:
            if str(node.target) == operator:
                return _place(node)
    return ""


def _place(node: Any) -> str:
    modules = [name for name, _ in node.meta.get("nn_module_stack", {}).values() if name]
    return f"node {node.name!r}" + (f" of module {modules[-1]!r}" if modules else "")


def _place_in(message: str, program: Any) -> str:
    """Return the module that a message of the converter names, or ""."""
    modules = _modules(program)
    names = [modules[path][0] for path in LOCATION.findall(message) if path in modules]
    return f"module {names[0]!r}" if names else ""


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:MAX_MESSAGE]


def _modules(program: Any) -> dict[str, tuple[str, str]]:
    """Return the name and the class of each module, by the path that LiteRT Torch writes into names of tensors."""
    modules = {}
    for node in program.graph.nodes:
        path = ""
        for name, kind in node.meta.get("nn_module_stack", {}).values():
            full = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
            path = f"{path}/{full}" if path else full
            path += f"_{name.rpartition('.')[2]}" if name else ""
            if name:
                modules[path] = (name, full.rpartition(".")[2])
    return modules


def _output_layers(program: Any) -> tuple[str, ...]:
    """Return the module that computes each output."""
    nodes = {node.name: node for node in program.graph.nodes}
    stacks = [nodes[name].meta.get("nn_module_stack", {}) for name in program.graph_signature.user_outputs]
    return tuple(str([name for name, _ in stack.values()][-1]) if stack else "" for stack in stacks)


def _with_modules(model: Model, modules: Mapping[str, tuple[str, str]]) -> Model:
    """Return the model with names of tensors such as "blocks.0.conv/Conv2d"."""
    graphs = []
    for graph in model.subgraphs:
        seen: dict[str, int] = {}
        tensors = []
        for tensor in graph.tensors:
            parts = []
            for part in tensor.name.split(";"):
                found = modules.get(part)
                if found is not None and "/".join(found) not in parts:
                    parts.append("/".join(found))
            name = ";".join(parts) or tensor.name
            seen[name] = seen.get(name, 0) + 1
            tensors.append(replace(tensor, name=name if seen[name] == 1 else f"{name}_{seen[name]}"))
        graphs.append(replace(graph, tensors=tuple(tensors)))
    return replace(model, subgraphs=tuple(graphs))
