"""Findings: what a user should know about a result, and the catalogue of the rules that report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class FindingRule:
    """The level of a rule's findings (or the levels from which the caller chooses) and its meaning in one sentence."""

    levels: tuple[Level, ...]
    meaning: str


@dataclass(frozen=True, slots=True, init=False)
class Finding:
    """One observation about a model, a target or a result.

    rule: a name of the catalogue, kebab-case ("uncalibrated", "model-too-large").
    message: one sentence for the user.
    where: the operator, tensor or file concerned, or None.
    """

    rule: str
    level: Level
    message: str
    where: str | None

    def __init__(self, rule: str, message: str, *, where: str | None = None, level: Level | None = None) -> None:
        """Create a finding of a rule in the catalogue.

        Args:
            level: required if the rule has several levels; otherwise, the rule's only level.

        Raises:
            ValueError: the catalogue does not contain the rule, or the rule does not have this level.
        """
        if rule not in RULES:
            raise ValueError(f"the rule {rule!r} is not in the catalogue of findings")
        levels = RULES[rule].levels
        if level is None and len(levels) == 1:
            level = levels[0]
        if level not in levels:
            raise ValueError(f"a finding of the rule {rule!r} has the level {' or '.join(levels)}, not {level}")
        for name, value in (("rule", rule), ("level", level), ("message", message), ("where", where)):
            object.__setattr__(self, name, value)


_NOTE: tuple[Level, ...] = ("note",)
_WARNING: tuple[Level, ...] = ("warning",)
_ERROR: tuple[Level, ...] = ("error",)
_EITHER: tuple[Level, ...] = ("note", "warning")

# Every rule by its name, which is public; docs/findings.md lists them.
RULES: Mapping[str, FindingRule] = {
    "already-quantized": FindingRule(_NOTE, "The .tflite file is quantized already and is used unchanged."),
    "arena-derived": FindingRule(
        _NOTE, "The arena size is derived from the sources of TFLM; it was not measured for these kernels and this ABI."
    ),
    "arena-differs": FindingRule(
        _ERROR, "The device uses a different number of arena bytes than the target, so its times do not apply."
    ),
    "arena-in-external-ram": FindingRule(
        _EITHER, "The arena is in external RAM; a warning if the estimate does not include the time that this costs."
    ),
    "arena-lower-bound": FindingRule(
        _EITHER, "The arena size is a lower bound: no target is given (a note), or allocations are unknown (a warning)."
    ),
    "arena-to-define": FindingRule(
        _NOTE, "The arena size is unknown, so that the firmware's build must define it as a macro."
    ),
    "arena-too-large": FindingRule(_ERROR, "The arena does not fit in its memory region, or exceeds 32-bit sizes."),
    "bandwidth-above-configured": FindingRule(
        _WARNING, "A measured run moves more bytes per second than the profile's memory can deliver."
    ),
    "branches-counted": FindingRule(_NOTE, "Both branches of each IF are counted, so that the time is an upper bound."),
    "builds-differ": FindingRule(_WARNING, "The two reports are for different kernels, runtimes or clocks."),
    "channels-removed": FindingRule(_NOTE, "Channels of an operator, on which no output depends, were removed."),
    "clock-given": FindingRule(
        _EITHER,
        "The clock differs from the profile's, whose wait states may not apply; a warning if its power may not either.",
    ),
    "clock-of-log": FindingRule(_NOTE, "The new profile uses the clock of the device log instead of the target's."),
    "coarse-input": FindingRule(
        _WARNING, "Channels of a quantized input use few of its 256 steps, because they share one scale."
    ),
    "code-placed": FindingRule(
        _NOTE, "The operators' code is in the memory that the user chose; no time is claimed for it."
    ),
    "code-too-large": FindingRule(_WARNING, "The model fits in flash, but not with the code of its firmware."),
    "constants-elsewhere": FindingRule(
        _WARNING, "The measurements suggest that the constants are in faster or slower memory than the profile states."
    ),
    "constants-in-external-flash": FindingRule(
        _EITHER,
        "Constants are read from external flash; a warning if the estimate does not include the time that this costs.",
    ),
    "constants-in-ram": FindingRule(
        _NOTE, "The layout also contains constants, which stock TFLM reads in place instead."
    ),
    "conversion": FindingRule(_NOTE, "The conversion changed something in the model, or made a choice."),
    "conversion-differs": FindingRule(
        _ERROR, "The model converted to float32 computes different outputs from the original model."
    ),
    "custom-operator": FindingRule(
        _WARNING, "The runtime does not include a custom operator, and no description of it is given."
    ),
    "custom-operator-replaces": FindingRule(
        _NOTE, "The description of a custom operator replaces a kernel that TFLM includes."
    ),
    "custom-operator-unused": FindingRule(_NOTE, "A custom operator is described, but the model does not use it."),
    "dead-tensors": FindingRule(_WARNING, "Tensors belong to no operator, and TFLM allocates memory for them anyway."),
    "does-not-run": FindingRule(_ERROR, "The quantized model cannot run on LiteRT."),
    "dynamic-shapes": FindingRule(
        _WARNING, "A dimension other than the batch has no fixed size; all figures are for the size in the shape."
    ),
    "empty-tensors": FindingRule(_NOTE, "Tensors have a dimension of 0, and so no elements."),
    "fault-avoided": FindingRule(
        _NOTE,
        "An operator whose kernel computes wrong outputs was rewritten into operators that compute the right ones.",
    ),
    "few-samples": FindingRule(_NOTE, "The calibration data has too few samples for reliable ranges."),
    "filter-zero-points": FindingRule(
        _WARNING, "A convolution's filter has a nonzero zero point, which the kernels ignore."
    ),
    "float-model": FindingRule(_NOTE, "The model uses float32, and no quantization was requested."),
    "interrupted": FindingRule(_WARNING, "Ctrl-C ended the search for a layout; the result is the best one so far."),
    "interval-may-be-too-short": FindingRule(
        _WARNING, "The upper end of the latency's band is longer than the interval between inferences."
    ),
    "interval-too-short": FindingRule(_ERROR, "An inference takes longer than the interval between inferences."),
    "kernel-fault": FindingRule(
        _ERROR, "A kernel computes wrong outputs without reporting an error: its source has a fault that applies here."
    ),
    "kernel-gives-up": FindingRule(
        _ERROR, "A kernel returns an error that a release build of TFLM ignores, and never writes its output."
    ),
    "kernel-refuses": FindingRule(_ERROR, "AllocateTensors fails, because a kernel's Prepare rejects the model."),
    "kernels-not-modelled": FindingRule(
        _WARNING, "The figures are for kernels other than those that the board usually uses."
    ),
    "layer-loses": FindingRule(_WARNING, "Quantization loses much of the signal in this layer."),
    "leftover-conversion": FindingRule(
        _NOTE, "A QUANTIZE or DEQUANTIZE operator at an input or output was removed, or could be."
    ),
    "log": FindingRule(_NOTE, "Part of the device log was ignored."),
    "loop-counted-once": FindingRule(
        _WARNING,
        "How often a subgraph runs depends on the data; it is counted once, so that the time is a lower bound.",
    ),
    "measured-outside-band": FindingRule(_WARNING, "The measured latency lies outside the band of the estimate."),
    "measurements-disagree": FindingRule(_WARNING, "No timing of the core fits all measurements well."),
    "memory-speed-assumed": FindingRule(
        _NOTE, "The profile does not state the speed of a memory, which is assumed to be that of the core's bus."
    ),
    "memory-too-small": FindingRule(_ERROR, "A memory has no room for what the user placed in it."),
    "model-too-large": FindingRule(_ERROR, "The model does not fit in flash."),
    "models-too-large": FindingRule(_ERROR, "Together, the models do not fit in flash."),
    "name-changed": FindingRule(_NOTE, "The model's name is not a valid C name and is changed in files and in C."),
    "native-code-smaller": FindingRule(_NOTE, "The arena does not fit, but that of native code would."),
    "never-written": FindingRule(_WARNING, "Tensors are read but never written."),
    "no-cache": FindingRule(_NOTE, "The flash has wait states, and the profile does not describe a cache for it."),
    "no-plan": FindingRule(_NOTE, "The file has no memory plan, so that the header has no offsets."),
    "not-cleaned-up": FindingRule(
        _NOTE, "The clean-up left a part of the model alone: state, control flow, custom operators or subgraphs."
    ),
    "not-compared": FindingRule(_WARNING, "The quantized model could not be compared with the original model."),
    "not-lowest": FindingRule(_NOTE, "The search ended at the first layout that fits the capacity."),
    "not-proven": FindingRule(_NOTE, "A smaller layout may exist, because the search did not finish."),
    "odd-scales": FindingRule(_WARNING, "Tensors have a scale that is not a positive number."),
    "odd-zero-points": FindingRule(_WARNING, "Tensors have a zero point that their type cannot represent."),
    "operator-limit-in-runtime": FindingRule(_ERROR, "An operator exceeds a limit of its kernel."),
    "operator-not-in-runtime": FindingRule(_ERROR, "The runtime does not support an operator of the model."),
    "operator-not-modelled": FindingRule(
        _WARNING, "The estimate of an operator counts only its memory traffic, because its arithmetic is not modelled."
    ),
    "operator-scales-in-runtime": FindingRule(
        _ERROR, "A kernel treats different quantization parameters as equal, so that its outputs are wrong."
    ),
    "operator-type-not-in-runtime": FindingRule(
        _ERROR, "The runtime does not support an operator with the types that the model uses."
    ),
    "operators-not-compared": FindingRule(
        _NOTE, "The device log cannot be compared operator by operator; only its total time is used."
    ),
    "operators-removed": FindingRule(_NOTE, "Operators that do nothing were removed."),
    "other-arena": FindingRule(
        _WARNING,
        "The arena size differs from the one for which the sweep selected the model, because the search "
        "found a different plan.",
    ),
    "over-capacity": FindingRule(_ERROR, "No layout was found that fits the capacity."),
    "pins-raise-bound": FindingRule(_NOTE, "The fixed offsets in the instance raise the lower bound of the layout."),
    "plan-for-no-build": FindingRule(
        _WARNING, "Without a target, the written plan leaves no room for scratch buffers."
    ),
    "plan-for-other-build": FindingRule(
        _WARNING, "The memory plan in the file was created for another core, other kernels or another runtime."
    ),
    "plan-in-file": FindingRule(_NOTE, "The memory plan in the file is used."),
    "plan-kept": FindingRule(_NOTE, "The memory plan in the file is kept, because its compiled operators rely on it."),
    "plan-not-needed": FindingRule(_NOTE, "No plan is better than that of TFLM's own planner, which is used instead."),
    "plan-not-written": FindingRule(_WARNING, "The plan could not be written to the file."),
    "plan-replaced": FindingRule(_NOTE, "The memory plan in the file is not used."),
    "plan-worse-than-stock": FindingRule(
        _WARNING, "The memory plan in the file needs a larger arena than TFLM's own planner does."
    ),
    "poor-quantization": FindingRule(_WARNING, "An output of the quantized model has a low SQNR."),
    "program-not-written": FindingRule(_ERROR, "No TFLM program was written, because TFLM cannot run the model."),
    "quantized-dimension": FindingRule(
        _EITHER,
        "A tensor's quantized dimension does not exist in its shape; a warning if it has a scale for each channel.",
    ),
    "read-too-early": FindingRule(_WARNING, "Tensors are read before the operator that writes them runs."),
    "repeated-metadata": FindingRule(_WARNING, "A metadata name occurs more than once."),
    "rnn-form": FindingRule(_NOTE, "The form in which recurrent layers were converted, and what other forms cost."),
    "runs-differ": FindingRule(_WARNING, "The inference times in the device log vary widely; their mean is used."),
    "runtime-differs": FindingRule(_WARNING, "The firmware was built with another version of TFLM than the target's."),
    "runtime-recognized": FindingRule(
        _NOTE, "The folder of --runtime-tree contains this version of TFLM; the rest of what was found there."
    ),
    "search-cut-short": FindingRule(_NOTE, "The search for a plan ended early, so that a better plan may exist."),
    "shared-arena-lower-bound": FindingRule(
        _EITHER,
        "The size of the shared arena is a lower bound: no target is given (a note), or allocations are unknown "
        "(a warning).",
    ),
    "shared-arena-order": FindingRule(
        _NOTE, "If the models are initialised in another order, their shared arena is smaller."
    ),
    "shared-arena-too-large": FindingRule(_ERROR, "The arena that the models share does not fit in its memory region."),
    "shared-buffers": FindingRule(_NOTE, "The number and the size of the buffers that the tensors share."),
    "shared-names": FindingRule(_NOTE, "Tensors have the same name as another tensor."),
    "shrunk": FindingRule(_NOTE, "What makes the arena fit the target, and what it costs."),
    "stripes": FindingRule(_NOTE, "Which operators run in stripes or in pixel order, the cost, and what it saves."),
    "tail-in-external-ram": FindingRule(
        _EITHER, "The tail is in external RAM; a warning if the estimate does not include the time that this costs."
    ),
    "target-profile": FindingRule(_ERROR, "A target profile is not valid."),
    "targets-differ": FindingRule(_WARNING, "The two reports are for different targets."),
    "tools-differ": FindingRule(_NOTE, "The two reports were written by different versions of edgetool."),
    "transpose-conv-replaced": FindingRule(
        _NOTE, "A transposed convolution was replaced by a 1x1 convolution and DEPTH_TO_SPACE."
    ),
    "uncalibrated": FindingRule(_WARNING, "The quantization ranges come from synthetic samples instead of real data."),
    "unknown-fields": FindingRule(_WARNING, "The file has fields that are newer than this version of edgetool."),
    "unnamed-tensors": FindingRule(_NOTE, "Tensors have no name."),
    "unsafe-plan": FindingRule(_WARNING, "The memory plan in the file is not valid, and was run as requested."),
    "unsettled-shapes": FindingRule(
        _ERROR, "The tensor shapes of an operator are incompatible; its real sizes are known only when the model runs."
    ),
    "unused-constants": FindingRule(_NOTE, "Constants that no operator uses waste flash."),
    "unverified-profile": FindingRule(_NOTE, "Values of the target profile were not checked in public documentation."),
    "vanishing-ranges": FindingRule(
        _NOTE, "Activations stayed at zero in calibration: the model is untrained, or the data does not match it."
    ),
    "variation-lost": FindingRule(
        _WARNING, "An output has a high SQNR because it hardly varies, while quantization loses the variation."
    ),
    "work-depends-on-data": FindingRule(
        _WARNING, "The model's control flow depends on the data, which makes it a poor model to calibrate with."
    ),
    "written-constants": FindingRule(_ERROR, "Constants are written by an operator or are inputs of the model."),
    "written-twice": FindingRule(_WARNING, "Tensors have more than one writer."),
}
