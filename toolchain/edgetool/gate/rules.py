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
    "active-budget": "What the active memory budget is of is no larger than it.",
    "arena": "The arena fits its contiguous region, less what is reserved.",
    "arena-known": "The arena is known exactly, and not only from below.",
    "flash": "The model fits the flash, less what is reserved for code.",
    "growth": "No figure grows beyond the lock file's by more than the allowance.",
    "kernel-gives-up": "No kernel leaves its output unwritten.",
    "kernel-refuses": "No kernel refuses the model in AllocateTensors.",
    "lock": "The lock file is there and holds for this model and target.",
    "max-arena": "The arena is no larger than --max-arena.",
    "max-latency": "An inference takes no longer than --max-latency.",
    "operator-limit-in-runtime": "No operator is beyond what its kernel takes.",
    "operator-scales-in-runtime": "No kernel takes different quantizations for equal ones.",
    "operator-type-not-in-runtime": "The runtime has every operator in the types that the model uses.",
    "operators": "The runtime has every operator of the model.",
}


def asked(rule: str) -> str:
    """What the rule asks; a finding's rule says itself what it found."""
    return RULES.get(rule, f"edgetool found: {rule.replace('-', ' ')}.")
