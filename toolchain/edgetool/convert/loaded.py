"""The float model of a file, and what the converter is to trace instead of its layers' own calls: in the child only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetool.convert.float_model import FloatModel
from edgetool.convert.keras_model import float_model
from edgetool.convert.load_keras import load_keras_file
from edgetool.convert.load_saved_model import load_saved_model
from edgetool.convert.lowering.context import LoweringOptions
from edgetool.convert.lowering.lower import Lowering, plan_lowering
from edgetool.convert.opening import located
from edgetool.convert.source import Source
from edgetool.errors import UsageError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to be converted. keras: the module that its layers are of. lowering: empty for a SavedModel.

    unrolled: gives the same with its recurrent layers copied for each time step; None where their form is asked for.
    """

    model: FloatModel
    keras: Any
    lowering: Lowering
    notes: tuple[str, ...]
    unrolled: Callable[[], Loaded] | None = None


def load(
    tf: Any, keras: Any, source: Source, config: dict[str, Any] | None, request: Mapping[str, Any], workdir: Path
) -> Loaded:
    """The model of a Keras file with its checked configuration, or of a SavedModel (config None).

    request: the message of the conversion. Raises what the loaders, plan_lowering and float_model do, and UsageError
    for options that the file has no use for.
    """
    trust, shapes, signature = bool(request["trust_model_code"]), request["input_shapes"], request["signature"]
    custom_objects = request["custom_objects"]
    if config is None:
        if custom_objects is not None:
            raise UsageError(
                "a SavedModel stores its layers as graphs", where="--custom-objects", fix="omit --custom-objects"
            )
        if request["rnn"] != "auto":
            raise UsageError("a SavedModel stores its layers as graphs", where="--rnn", fix="omit the option")
        model = load_saved_model(tf, source.path, trust_model_code=trust, signature=signature, input_shapes=shapes)
        return Loaded(model, keras, Lowering({}, (), (), ()), model.notes)
    if signature is not None:
        raise UsageError("a Keras file has no signatures", where="--signature", fix="omit it, or use a SavedModel")
    loaded = load_keras_file(
        keras,
        source,
        config,
        workdir,
        trust_model_code=trust,
        custom_objects=None if custom_objects is None else Path(custom_objects),
    )
    # First, since it may make a leading layer idle, whose call is then the one to lower.
    model = float_model(loaded.keras, loaded.model, source.path, shapes)
    notes = (*loaded.notes, *model.notes)

    def in_form(rnn: str) -> Loaded:
        options = LoweringOptions(rnn, request["quantize"], bool(request["allow_approximation"]))
        with located(source.path):
            lowering = plan_lowering(tf, loaded.keras, loaded.model, options)

        def traced(tensors: Sequence[Any]) -> list[Any]:
            with lowering.active():
                return model.call(tensors)

        return Loaded(replace(model, traced=traced), loaded.keras, lowering, (*notes, *lowering.notes))

    if request["rnn"] != "auto":
        return in_form(request["rnn"])
    return replace(in_form("auto"), unrolled=lambda: in_form("unrolled"))
