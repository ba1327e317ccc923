"""What the figures of a whole conversion hide: an input of too coarse steps, an output that hardly varies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgetool.convert.quality import variation_db
from edgetool.finding import Finding
from edgetool.model.scopes import layer_of
from edgetool.model.types import DType, Graph, Model, Tensor
from edgetool.pipeline.layer_findings import POOR_DB
from edgetool.report.document import OutputQuality

if TYPE_CHECKING:
    from edgetool.convert.request import Array

# What is left of a signal at 10 dB is a tenth of noise.
LOST_DB = 10.0
# A channel of fewer of the 256 steps has 4 bits left.
FEW_STEPS = 16
ALL_STEPS = 256
CHANNELS_NAMED = 3


def variation_findings(
    qualities: Sequence[OutputQuality], float_outputs: Sequence[Array], quantized: Sequence[Array]
) -> tuple[Finding, ...]:
    """A warning for each output whose SQNR is that of a constant part, while what varies is lost.

    float_outputs, quantized: one array (N, ...) each.
    """
    findings = []
    for quality, expected, actual in zip(qualities, float_outputs, quantized, strict=True):
        if quality.sqnr_db is None or quality.sqnr_db < POOR_DB or expected.dtype.kind != "f":
            continue
        kept = variation_db(expected, actual)
        if kept is not None and kept < LOST_DB:
            text = (
                f"the output {quality.name!r} hardly varies over the samples: its SQNR of {quality.sqnr_db:.1f} dB "
                f"mostly reflects its constant part, and the variation {_kept(kept)}"
            )
            findings.append(Finding("variation-lost", "warning", text))
    return tuple(findings)


def _kept(sqnr_db: float) -> str:
    return f"has an SQNR of only {sqnr_db:.1f} dB" if sqnr_db > 0 else "is lost"


def input_findings(
    model: Model,
    inputs: Sequence[Array],
    qualities: Sequence[OutputQuality],
    layers: Mapping[str, str],
    *,
    measured: bool,
) -> tuple[Finding, ...]:
    """A warning for each 8-bit input with channels (its last axis) that use few steps, where an output lost much.

    inputs: the real values of each graph input, (N, ...). layers: Keras classes by scope. measured: layers were
    measured, which is to show all that loses something.
    """
    poor = any(item.sqnr_db is not None and item.sqnr_db < POOR_DB for item in qualities)
    if not (poor or measured):
        return ()
    findings = []
    for index, values in zip(model.main.inputs, inputs, strict=True):
        tensor = model.main.tensors[index]
        step = _step(model.main, tensor)
        if step is None:
            continue
        used = steps_used(values, step)
        if not used:
            continue
        told = [f"channel {channel} uses {count} of {ALL_STEPS} steps" for channel, count in used[:CHANNELS_NAMED]]
        more = f" (and {len(used) - len(told)} more use only a few)" if len(used) > len(told) else ""
        name = model.argument_name(0, index) or tensor.name
        text = (
            f"the input {name!r} has one scale for all channels, and one step is {step:.3g}: {', '.join(told)}{more}; "
            f"normalise each channel in the firmware{_instead(model, index, layers)}"
        )
        findings.append(Finding("coarse-input", "warning", text))
    return tuple(findings)


def steps_used(values: Array, step: float) -> list[tuple[int, int]]:
    """The channels (last axis) of (N, ..., channels) that use fewer than FEW_STEPS steps, and how many, fewest first.

    A channel that never changes needs none. Nothing for an input of one channel.
    """
    if values.ndim < 2 or values.shape[-1] < 2 or not len(values):
        return []
    axes = tuple(range(values.ndim - 1))
    reach = values.max(axis=axes).astype(float) - values.min(axis=axes).astype(float)
    found = [(channel, 1 + round(span / step)) for channel, span in enumerate(reach.tolist()) if span > 0]
    return sorted(((channel, count) for channel, count in found if count < FEW_STEPS), key=lambda item: item[1])


def _step(graph: Graph, tensor: Tensor) -> float | None:
    """The size of a step of 8 bits of an input, or of what a float one is quantized to at once."""
    readers = [operator for operator in graph.operators if tensor.index in operator.inputs]
    if tensor.dtype is DType.FLOAT32 and [operator.code for operator in readers] == ["QUANTIZE"]:
        tensor = graph.tensors[readers[0].outputs[0]]
    if tensor.dtype not in (DType.INT8, DType.UINT8) or tensor.quantization is None:
        return None
    scales = tensor.quantization.scales
    return scales[0] if len(scales) == 1 else None


def _instead(model: Model, index: int, layers: Mapping[str, str]) -> str:
    """The other way: the layers that read the input, in float."""
    reached: set[int] = {index}
    names: dict[str, None] = {}
    for operator in model.main.operators:
        if not reached & set(operator.inputs):
            continue
        if operator.code == "QUANTIZE":
            reached |= set(operator.outputs)
            continue
        found = layer_of((model.main.tensors[place].name for place in operator.outputs), layers)
        if found is not None:
            names[found] = None
    options = " ".join(f"--keep-float {name}" for name in names)
    return f", or use --io float32 with {options}" if options else ""
