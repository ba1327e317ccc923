"""Clean-up: the passes that make a model smaller and leave every output the same bit for bit.

Each pass can be run on its own. PASSES lists those that run by default, in their order: operators that do nothing hide
others, and dead channels are followed only through operators that the pass knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from edgetool.finding import Finding
from edgetool.model.draft import Draft
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.types import Model, Operator
from edgetool.model.views import VIEWS_METADATA_NAME
from edgetool.passes.dead_channels import remove_dead_channels
from edgetool.passes.ends import trim_ends
from edgetool.passes.legalize import SIDE_EFFECTS
from edgetool.passes.no_ops import remove_no_ops
from edgetool.passes.transpose_conv import split_transpose_convs
from edgetool.passes.validation import is_in_order

T = TypeVar("T")

# Operators that read the state of the model; those that write it are among SIDE_EFFECTS.
READS_STATE = frozenset({"READ_VARIABLE", "VAR_HANDLE", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE"})


@dataclass(frozen=True, slots=True)
class CleanupPass:
    """A pass: its name, the finding that reports it, what it does, and the function that does it.

    apply: returns the model and a sentence on what changed; the input model and "" if nothing did. may_enlarge: whether
    the result can need a larger arena with some kernels, and so must be compared.
    """

    name: str
    rule: str
    summary: str
    apply: Callable[[Model], tuple[Model, str]]
    may_enlarge: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What a pass changed: its name, the finding that reports it, and a sentence."""

    pass_name: str
    rule: str
    sentence: str

    def finding(self, effect: str) -> Finding:
        """Return the finding that reports the change, and its effect if it has any."""
        return Finding(self.rule, f"{self.sentence}: {effect}" if effect else self.sentence)


def optimize(model: Model, passes: Sequence[CleanupPass] | None = None) -> tuple[Model, tuple[Change, ...]]:
    """Run the passes, by default all of PASSES; return the model, and what changed.

    If nothing changed, the result is the input model itself. Subgraphs keep their inputs, outputs and indices; an
    offline plan is removed if anything changed. A model in stripes, or compiled for an accelerator, does not change.
    """
    changes = []
    for cleanup in PASSES if passes is None else passes:
        if _is_fixed(model):
            break
        model, sentence = cleanup.apply(model)
        if sentence:
            changes.append(Change(cleanup.name, cleanup.rule, sentence))
    return model, tuple(changes)


def left_alone(model: Model) -> str:
    """Return a sentence on what no pass understands and so leaves as it is; "" for an ordinary model."""
    if keeps_own_plan(model):
        return "the model is compiled for an accelerator, and stays as it is"
    if _is_fixed(model):
        return "the model is in stripes, and stays as it is"
    parts = []
    labels = Counter(
        operator.label
        for graph in model.subgraphs
        for operator in graph.operators
        if _is_opaque(operator, [graph.tensors[tensor].is_variable for tensor in operator.inputs if tensor >= 0])
    )
    if labels:
        counts = ", ".join(f"{count} {label}" if count > 1 else label for label, count in sorted(labels.items()))
        parts.append(f"{counts} (state, control flow or custom operators), with their inputs and outputs")
    if others := len(model.subgraphs) - 1:
        parts.append(f"the inputs and outputs of {others} more subgraph{'s' * (others > 1)}")
    if unordered := [str(graph.index) for graph in model.subgraphs if not is_in_order(Draft(model, graph.index))]:
        parts.append(f"subgraph {', '.join(unordered)}, whose operators read tensors before they are written")
    return f"the clean-up left alone: {'; '.join(parts)}" if parts else ""


def _is_opaque(operator: Operator, are_variable: Sequence[bool]) -> bool:
    return operator.code in SIDE_EFFECTS | READS_STATE or any(are_variable)


def _is_fixed(model: Model) -> bool:
    return keeps_own_plan(model) or any(entry.name == VIEWS_METADATA_NAME for entry in model.metadata)


def _in_each_subgraph(model: Model, apply: Callable[[Draft], Sequence[T]]) -> tuple[Model, list[T]]:
    """Apply a function to a draft of each subgraph whose operators are in order; it returns what it changed."""
    done: list[T] = []
    for subgraph in range(len(model.subgraphs)):
        draft = Draft(model, subgraph)
        changes = apply(draft) if is_in_order(draft) else ()
        if changes:
            model = draft.finish()
            done += changes
    return model, done


def _without_no_ops(model: Model) -> tuple[Model, str]:
    result, done = _in_each_subgraph(model, remove_no_ops)
    if not done:
        return model, ""
    labels = Counter(record.operator_label for record in done if record.rewrite.startswith("remove"))
    counts = ", ".join(f"{count} {label}" if count > 1 else label for label, count in sorted(labels.items()))
    verbs = ("has", "was") if labels.total() == 1 else ("have", "were")
    return result, f"{counts} {verbs[0]} no effect and {verbs[1]} removed"


def _with_split_transpose_convs(model: Model) -> tuple[Model, str]:
    result, done = _in_each_subgraph(model, split_transpose_convs)
    if not done:
        return model, ""
    subject = "TRANSPOSE_CONV was" if len(done) == 1 else f"{len(done)} TRANSPOSE_CONV were"
    return result, f"{subject} replaced by a 1x1 CONV_2D and DEPTH_TO_SPACE: kernel and stride are equal"


def _without_dead_channels(model: Model) -> tuple[Model, str]:
    result, done = _in_each_subgraph(model, remove_dead_channels)
    if not done:
        return model, ""
    removed, channels = sum(change.removed for change in done), sum(change.channels for change in done)
    operators = f"{len(done)} operators" if len(done) > 1 else done[0].operator_label
    return result, f"{removed:,} of {channels:,} channels of {operators}, on which no output depends, were removed"


def _with_int8_ends(model: Model) -> tuple[Model, str]:
    result, notes = trim_ends(model, "int8")
    return (model, "") if result is model else (result, "; ".join(notes))


PASSES: tuple[CleanupPass, ...] = (
    CleanupPass("no-ops", "operators-removed", "removes operators that do nothing", _without_no_ops),
    CleanupPass(
        "transpose-conv",
        "transpose-conv-replaced",
        "replaces TRANSPOSE_CONV with equal kernel and stride by a 1x1 CONV_2D and DEPTH_TO_SPACE",
        _with_split_transpose_convs,
        may_enlarge=True,
    ),
    CleanupPass(
        "dead-channels", "channels-removed", "removes channels that no output depends on", _without_dead_channels
    ),
)
# Only on demand, because the application must then quantize inputs and outputs itself.
INT8_ENDS = CleanupPass(
    "int8-ends", "leftover-conversion", "removes QUANTIZE and DEQUANTIZE at inputs and outputs", _with_int8_ends
)
