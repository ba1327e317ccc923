"""A Keras model or SavedModel as a .tflite that the runtime can run, and what its float original says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetool import child
from edgetool.convert.alternatives import alternative_to
from edgetool.convert.convert import convert_model
from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.errors import ConversionError
from edgetool.model.reader import read_model
from edgetool.model.scopes import layer_of
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.legality import Illegal, illegal_operators
from edgetool.operators.types import OperatorEntry
from edgetool.passes.ends import readable_inputs, trim_ends
from edgetool.passes.legalize import legalize
from edgetool.passes.rescaling import fold_rescaling
from edgetool.target.types import Kernels, Runtime

if TYPE_CHECKING:
    from edgetool.convert.request import Array

# Schemes for comparison alone: stock TFLM runs none of them, as the analysis of such a file says.
UNRUNNABLE = frozenset(["float16"])


@dataclass(frozen=True, slots=True)
class Made:
    """A conversion whose .tflite is rewritten for the runtime; its notes tell every rewrite. model: that file's."""

    conversion: Conversion
    model: Model


def convert_for(
    request: ConvertRequest,
    runtime: Runtime,
    *,
    name: str,
    workdir: Path,
    kernels: Kernels | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
    progress: child.Progress | None = None,
) -> Made:
    """Convert, and rewrite what the runtime lacks. `workdir` is an empty directory that outlives the arrays' use.

    kernels: the set that must run it; None for every set. custom: operators that the user describes. Raises what
    convert_model does, and ConversionError naming layers and what to use instead where an operator is left that the
    runtime cannot run.
    """
    conversion = convert_model(request, workdir=workdir, progress=progress)
    converted = read_model(conversion.tflite, name=name)
    conversion, ended = _with_own_ends(conversion, converted, request)
    legal = legalize(ended, runtime, allow_approximation=request.allow_approximation)
    illegal = illegal_operators(legal.model, runtime, custom, kernels=kernels)
    left = [item for item in illegal if item.operator.code != "CUSTOM"]
    if left and request.scheme not in UNRUNNABLE:
        raise _refusal(left, legal.model, conversion, runtime, str(request.path))
    if not legal.applied and ended is converted:
        return Made(conversion, converted)
    notes = (*conversion.notes, *legal.sentences(conversion.layers))
    return Made(replace(conversion, tflite=write_model(legal.model), notes=notes), legal.model)


def _with_own_ends(conversion: Conversion, model: Model, request: ConvertRequest) -> tuple[Conversion, Model]:
    """What firmware can read at the ends: types that TFLM casts, scales with the arithmetic before them, no leftovers.

    The samples follow: they are what the inputs now take.
    """
    readable, types = readable_inputs(model)
    whole = [index for index, array in enumerate(conversion.inputs) if array.dtype.kind in "iub"]
    trimmed, ends = trim_ends(readable, request.io_type, keep_inputs=whole if request.io is None else ())
    folded = fold_rescaling(trimmed)  # last: with nothing left over at the ends it sees more

    def taken(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        pairs = zip(arrays, folded.inputs, strict=True)
        return tuple(array if affine is None else affine.apply(array) for array, affine in pairs)

    evaluation = conversion.evaluation
    if evaluation is not None:
        evaluation = replace(evaluation, inputs=taken(evaluation.inputs))
    notes = (*conversion.notes, *types, *ends, *folded.notes)
    return replace(conversion, inputs=taken(conversion.inputs), evaluation=evaluation, notes=notes), folded.model


def _refusal(
    left: list[Illegal], model: Model, conversion: Conversion, runtime: Runtime, where: str
) -> ConversionError:
    """One line per layer and operator; the first is the error itself, the others are its details."""
    lines: dict[str, str] = {}
    for item in left:
        layer = layer_that_made(item, model, conversion)
        kind = conversion.layers.get(layer, "") if layer else ""
        who = f"layer {layer!r} ({kind}) became" if layer else "the model has"
        lines.setdefault(f"{who} {item.operator.label}: {item.why}", alternative_to(item.operator.label, kind))
    first, *others = lines.items()
    return ConversionError(
        f"{runtime.name} cannot run the model: {first[0]}",
        where=where,
        fix=first[1],
        details=tuple(f"{line}; {fix}" for line, fix in others),
    )


def layer_that_made(item: Illegal, model: Model, conversion: Conversion) -> str | None:
    """The Keras layer that an operator belongs to, by the names of its tensors; None where they do not tell."""
    graph = model.subgraphs[item.subgraph]
    for indices in (item.operator.outputs, item.operator.inputs):
        for index in indices:
            if index < 0:
                continue
            if index in graph.outputs and item.subgraph == 0 and conversion.output_layers:
                made = conversion.output_layers[graph.outputs.index(index)]
                if made:
                    return made
            found = layer_of(graph.tensors[index].name, conversion.layers)
            if found is not None:
                return found
    return None
