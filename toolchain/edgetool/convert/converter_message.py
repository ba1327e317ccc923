"""What TensorFlow's converter means: its messages of MLIR, read as operations, Keras layers and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edgetool.convert.alternatives import UNKNOWN, alternative_to
from edgetool.convert.float_model import explain as explain_call
from edgetool.model.scopes import layer_of

# 'tf.Cumprod' op is neither a custom op nor a flex op, with the place where it comes from before it.
# In messages the place comes after "error: ", in the log before it.
_REFUSED = re.compile(
    r"(?:loc\((?P<before>[^\n]*)\): )?error: (?:loc\((?P<place>.*)\): )?"
    r"'(?P<dialect>tfl?)\.(?P<name>\w+)' op (?P<what>[^\n]+)"
)
_SAME_SCALE = "violate the same scale constraint"
_LISTED = re.compile(r"^(?:TF Select|Custom) ops: (.+)$", re.MULTILINE)
CALLED = "Exception encountered when calling"  # how Keras begins
_NO_COUNTERPART = "is neither a custom op nor a flex op"
_QUOTED = re.compile(r'"([^"]*)"')
# tf.Mul(tensor<1x8xf64>, tensor<f64>) -> ... in the list of what is not supported.
_OPERANDS = r"^\s*tf\.{name}\((?P<operands>.*?)\) ->"
_ELEMENT = re.compile(r"tensor<(?:[\d?*]+x)*(?P<type>[^<>]+(?:<[^<>]*>)?)>")
# What the interpreter says that calibrates: the tensor without a range, or the operator that cannot be prepared.
_UNCALIBRATED = re.compile(r"(?:Empty min/max for tensor|Failed for tensor) (?P<tensor>\S+)")
_UNPREPARED = re.compile(r"(?P<why>[^\n]*?)\s*Node number (?P<index>\d+) \((?P<name>\w+)\) failed to (?P<verb>\w+)")
_SOURCE = re.compile(r"^\S*\.(?:cc|h|cpp):\d+\s*")

_TYPES = {
    "f64": ("float64", "use float32 in that layer"),
    "complex<f32>": ("complex64", None),
    "complex<f64>": ("complex128", None),
    "!tf_type.string": ("strings", None),
    "!tf_type.variant": ("variants", None),
}
MOST = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that the converter has no operator for.

    operator: as TensorFlow calls it ("Cumprod"). layer: the scope of its Keras layer, None where unknown. types: of its
    first operand where that may be why ("float64"), "" otherwise.
    """

    operator: str
    layer: str | None
    types: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """reason: a clause for the error; fix: what to do. details: the same for further operations, a line each."""

    reason: str
    fix: str
    details: tuple[str, ...] = ()


def refused_operations(message: str, layers: Mapping[str, str]) -> tuple[Refused, ...]:
    """Each operation that the message says is not supported, once per layer; layers: Keras classes by scope."""
    found: dict[Refused, None] = {}
    for match in _REFUSED.finditer(message):
        if match["what"].startswith(_NO_COUNTERPART):
            found[Refused(match["name"], _layer(match["place"] or "", layers), _odd_type(match["name"], message))] = (
                None
            )
    named = {item.operator for item in found}
    for line in _LISTED.findall(message):
        for name in re.split(r",\s*", line.strip()):
            if name not in named:
                found[Refused(name, None, _odd_type(name, message))] = None
    return tuple(found)


def explain(message: str, layers: Mapping[str, str], outputs: Mapping[str, str] | None = None) -> Explained:
    """The converter's error as a reason, with the layers that it concerns and what to use instead.

    layers: the Keras class of each layer by its scope; empty for a SavedModel. outputs: the layer that makes each
    graph output, by its tensor's name, which tells none.
    """
    refused = refused_operations(message, layers)
    if refused:
        lines = [(_sentence(item, layers), _fix(item, layers)) for item in refused]
        (reason, fix), *others = lines
        return Explained(reason[:MOST], fix, tuple(f"{line}; {advice}" for line, advice in others))
    for explained in _others(message, layers, outputs or {}):
        return explained
    return Explained(_first_error(message), "replace the named layers, or try another --quantize")


def _others(message: str, layers: Mapping[str, str], outputs: Mapping[str, str]) -> Iterator[Explained]:
    """What else is known to go wrong, the most telling first."""
    if match := _REFUSED.search(message):
        place = match["before"] or match["place"] or ""
        made = next((outputs[name] for name in _QUOTED.findall(place) if outputs.get(name)), None)
        where = _of(_layer(place, layers) or made, layers)
        if _SAME_SCALE in match["what"]:
            yield Explained(
                f"its quantizer cannot find a common scale for the inputs of {match['name'].upper()}{where}",
                "keep that layer in float (--keep-float), or use --quantize int16x8",
            )
        yield Explained(
            f"{match['name']}{where} {match['what']}"[:MOST], "replace that layer, or try another --quantize"
        )
    if match := _UNCALIBRATED.search(message):
        tensor = match["tensor"].rstrip(".,")
        where = _of(layer_of(tensor, layers), layers)
        yield Explained(
            f"no calibration sample reached {tensor!r}{where}, so its range is unknown"[:MOST],
            "provide samples that exercise every part of the model (--calibration)",
        )
    if match := _UNPREPARED.search(message):
        why = _SOURCE.sub("", match["why"]).strip()
        yield Explained(
            f"the converted {match['name']} (operator {match['index']}) cannot be {match['verb']}d: {why}"[:MOST],
            "replace the layer that it comes from, or use --input-shape to set unknown sizes, which are a common cause",
        )
    if CALLED in message:
        what, where = explain_call(ValueError(message))
        yield Explained(
            f"{where} cannot be traced: {what}"[:MOST],
            "check how its call method handles the shape and type of its input",
        )


def _sentence(item: Refused, layers: Mapping[str, str]) -> str:
    types = f" of {item.types}" if item.types else ""
    needed = f", which layer {item.layer!r} ({layers[item.layer]}) requires" if item.layer is not None else ""
    return f"TensorFlow Lite has no built-in operator for {item.operator}{types}{needed}"


def _of(layer: str | None, layers: Mapping[str, str]) -> str:
    return f" of layer {layer!r} ({layers[layer]})" if layer is not None and layer in layers else ""


def _fix(item: Refused, layers: Mapping[str, str]) -> str:
    own = next((fix for name, fix in _TYPES.values() if name == item.types and fix), None)
    if own is not None:
        return own
    advice = alternative_to(item.operator, layers.get(item.layer or "", ""))
    return advice if advice != UNKNOWN else "replace the layer, or compute it in the firmware"


def _layer(place: str, layers: Mapping[str, str]) -> str | None:
    """The layer of a location such as fused["Erf:", "dense/Erf@__inference_serve_3"], called from others."""
    for name in _QUOTED.findall(place):
        if not name.endswith(":") and (scope := layer_of(name.partition("@")[0], layers)) is not None:
            return scope
    return None


def _odd_type(name: str, message: str) -> str:
    """The element type of the operation's operands, where it is one that TensorFlow Lite hardly knows."""
    match = re.search(_OPERANDS.format(name=re.escape(name)), message, re.MULTILINE)
    types = [element["type"] for element in _ELEMENT.finditer(match["operands"])] if match else []
    return next((_TYPES[kind][0] for kind in types if kind in _TYPES), "")


def _first_error(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    return (errors or lines or ["no message"])[0][-MOST:]
