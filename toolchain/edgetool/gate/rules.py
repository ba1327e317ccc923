"""What each rule asks, in a sentence, and which findings it stands for."""

from __future__ import annotations

# Findings that say again what a judgement says, and that judgement.
JUDGED_AS = {
    "arena-too-large": "arena",
    "model-too-large": "flash",
    "operator-not-in-runtime": "operators",
    "custom-operator": "operators",
    "arena-lower-bound": "arena-known",
}
# Notes on which nothing depends in TFLM: CI services do not show them.
NOT_ANNOTATED = frozenset(["quantized-dimension", "unnamed-tensors", "shared-names", "empty-tensors"])
RULES = {
    "accuracy": "Quantization costs no more accuracy than allowed.",
    "active-budget": "The memory that the active budget applies to does not exceed it.",
    "arena": "The arena fits in its memory region after subtracting the reserve.",
    "arena-known": "The arena size is known exactly, not just as a lower bound.",
    "flash": "The model fits in flash after subtracting the reserve for code.",
    "growth": "No figure exceeds the locked value by more than the allowance.",
    "kernel-gives-up": "Every kernel writes its output.",
    "kernel-refuses": "No kernel rejects the model in AllocateTensors.",
    "lock": "The lock file exists and is valid for this model and target.",
    "max-arena": "The arena is no larger than --max-arena.",
    "max-latency": "An inference takes no longer than --max-latency.",
    "operator-limit-in-runtime": "No operator exceeds its kernel's limits.",
    "operator-scales-in-runtime": "No kernel treats different quantization parameters as equal.",
    "operator-type-not-in-runtime": "The runtime supports every operator with the types that the model uses.",
    "operators": "The runtime supports every operator of the model.",
}


def asked(rule: str) -> str:
    """What the rule asks; a finding's rule says itself what it found."""
    return RULES.get(rule, f"edgetool finding '{rule}'; each result explains it.")
