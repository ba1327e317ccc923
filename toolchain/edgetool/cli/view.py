"""What the commands print for a person, from the report alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import floor
from pathlib import Path

import click

from edgetool.cli.text import fact, grouped, kib_of, printable, width, wrapped
from edgetool.cli.view_debug import layer_lines
from edgetool.cli.view_latency import latency_facts, slowest_facts
from edgetool.cli.view_verdict import fits_fact, model_bytes, runs_fact
from edgetool.report.document import (
    ArenaInfo,
    FindingInfo,
    MemoryInfo,
    OutputQuality,
    PlanInfo,
    QuantizationInfo,
    Report,
    SharingInfo,
)

LEVEL_STYLES = {"error": ("red", "problem"), "warning": ("yellow", "warning"), "note": ("cyan", "note")}
SYNTHETIC = ", on the same synthetic samples: says nothing about real data"
# A note on the profile itself, not on the model: shown with -v, without the list that its message ends with.
MINOR = ("unverified-profile",)
PROOFS = {
    "bound met": "meets the lower bound",
    "search exhausted": "an exhaustive search found no smaller layout",
    "cp-sat": "proven by CP-SAT",
}


def summary(report: Report, *, everything: bool = False) -> list[str]:
    """The answer to "does it fit, and what does it need"; everything: minor notes too."""
    lines = [heading(report), ""]
    lines += [*runs_fact(report), *fits_fact(report)]
    if report.arena is not None:
        lines += arena_facts(report.arena, report.memory)
    if (
        report.plan is not None
        and report.arena is not None
        and (report.plan.moved or report.plan.order_proof == "none")
    ):
        lines += order_facts(report.plan, report.arena)
    lines += fact("Model", _model_size(report))
    if report.estimate is not None:
        lines += [*latency_facts(report.estimate), *slowest_facts(report.estimate)]
    if report.quantization is not None:
        lines += [*quantization_facts(report.quantization), *layer_lines(report.quantization.layers)]
    return lines + finding_lines(report.findings, everything=everything)


def heading(report: Report) -> str:
    """Model and target in one line, or the target in a second one where the terminal is too narrow."""
    parts = [click.style(printable(report.model.name), bold=True)]
    target = report.target
    if target is not None:
        core = f"{target.core}, " if target.board else ""
        parts.append(f"on {printable(target.board or target.core)} ({core}{target.kernels} kernels)")
    line = " ".join(parts)
    return line if len(click.unstyle(line)) <= width() else "\n".join(parts)


def arena_facts(arena: ArenaInfo, memory: MemoryInfo | None) -> list[str]:
    """The arena with the region that it must fit, what the plan saves, and the layout."""
    exact = arena.bytes is not None and not arena.is_lower_bound
    needed = arena.bytes if arena.bytes is not None else arena.layout_bytes
    limit = memory.sram_bytes if memory is not None else None
    shown, of = kib_of(needed, limit)
    if not exact:
        shown = f"{'more than' if arena.bytes is None else 'at least'} {shown}"
    region = f" of {of} in {printable(memory.region or 'SRAM')}" if memory is not None and limit is not None else ""
    lines = fact("Arena", shown + region, bold=shown)
    if arena.used_bytes is not None:
        text = f"head {grouped(arena.head_bytes, 'B')} + tail {grouped(arena.tail_bytes, 'B')}"
        lines += fact("", f"{text} = {grouped(arena.used_bytes, 'B')} used{_above_used(arena)}")
    return lines + saved_fact(arena) + fact("Layout", f"{grouped(arena.layout_bytes, 'B')}, {layout_proof(arena)}")


def saved_fact(arena: ArenaInfo) -> list[str]:
    """How much smaller the plan makes the arena; nothing if TFLM's own planner needs the same."""
    if arena.bytes is None or arena.stock_bytes is None or arena.stock_bytes == arena.bytes:
        return []
    saved = arena.stock_bytes - arena.bytes
    if saved < 0:
        return fact("Saved", f"nothing: TFLM's own planner needs {-saved:,} B less", style={"fg": "yellow"})
    shown = f"{saved:,} B ({100 * saved / arena.stock_bytes:.0f} %)"
    return fact("Saved", f"{shown} against TFLM's own planner", bold=shown)


def _above_used(arena: ArenaInfo) -> str:
    """Why the arena is larger than what is used once the model runs."""
    moments = [entry for entry in arena.breakdown if entry.part == "transient"]
    if arena.bytes == arena.used_bytes or not moments:
        return ""
    top = max(moments, key=lambda entry: entry.bytes)
    if top.where == "Invoke":
        return ", rounded up to 16 B"
    moment = f"Prepare of operator {top.operator}" if top.operator is not None else top.where
    return f"; {moment} takes {top.bytes:,} B"


def layout_proof(arena: ArenaInfo) -> str:
    """How good the layout is known to be."""
    if arena.optimal:
        return f"optimal ({PROOFS[arena.proof]})" if arena.layout_bytes else "empty"
    above = grouped(arena.layout_bytes - arena.lower_bound_bytes, "B")
    return f"{above} above the lower bound of {grouped(arena.lower_bound_bytes, 'B')}"


def order_facts(plan: PlanInfo, arena: ArenaInfo) -> list[str]:
    """Which order was chosen, and how good it is known to be; nothing where no order was searched."""
    bound = plan.live_lower_bound_bytes
    if plan.live_bytes is None or (bound is None and not plan.moved):
        return []
    moved = f"{grouped(plan.moved)} of {grouped(len(plan.order))} operators moved" if plan.moved else "as in the file"
    text = f"{moved}; {grouped(plan.live_bytes, 'B')} live at the peak"
    if plan.order_proof != "none":
        known = " based on the known allocations" if arena.is_lower_bound and not plan.constants_in_ram else ""
        text += f", which is minimal{known}"
    elif bound is not None:
        text += f"; no order needs less than {grouped(bound, 'B')}"
    return fact("Order", text)


def sharing_facts(sharing: SharingInfo) -> list[str]:
    """What shared whole buffers need, against a buffer for each tensor."""
    count = f"{len(sharing.buffers):,} buffer{'' if len(sharing.buffers) == 1 else 's'}"
    text = f"{count}, {grouped(sharing.optimized_bytes, 'B')} in total; unshared {grouped(sharing.baseline_bytes, 'B')}"
    if sharing.proof != "none":
        text += "; no assignment needs less"
    else:
        cut = "search cut short, " if sharing.cut_short else ""
        text += f"; {cut}lower bound {grouped(sharing.lower_bound_bytes, 'B')}"
    return fact("Sharing", text)


def _model_size(report: Report) -> str:
    memory = report.memory
    size, limit = kib_of(model_bytes(report), memory.flash_bytes if memory is not None else None)
    flash = f" of {limit} flash" if limit else ""
    return f"{size}{flash}; {grouped(report.model.parameters)} parameters, {grouped(report.model.operators)} operators"


def quantization_facts(quantization: QuantizationInfo) -> list[str]:
    """Scheme, calibration, and how far the outputs are from the float original."""
    source = "calibrated on" if quantization.calibrated else "UNCALIBRATED:"
    kind = "samples" if quantization.calibrated else "synthetic samples"
    text = quantization.scheme
    if quantization.scheme != "float32":
        text += f", {source} {grouped(quantization.samples)} {kind}"
    label = "Precision" if quantization.scheme == "float32" else "Quantized"
    basis = "" if quantization.calibrated else SYNTHETIC
    lines = fact(label, text, style=None if quantization.calibrated else {"fg": "yellow"})
    for output in quantization.outputs:
        lines += fact("", f"{printable(output.name, 30)}: {_distance(output)}{basis}")
    if quantization.accuracy is not None:
        accuracy = quantization.accuracy
        lines += fact("Accuracy", f"{100 * accuracy.quantized:.1f} % quantized, {100 * accuracy.float:.1f} % float")
    return lines


def _distance(output: OutputQuality) -> str:
    """How far one output is from the float model's."""
    if output.sqnr_db is None:
        return "equal to the float model" if output.cosine is not None else "nothing to compare: the output is zero"
    cosine = "" if output.cosine is None else f", cosine {floor(output.cosine * 1e4) / 1e4:.4f}"
    top1 = "" if output.top1_agreement is None else f", same top-1 class in {100 * output.top1_agreement:.1f} %"
    return f"SQNR {output.sqnr_db:.1f} dB{cosine}{top1}"


def without_shared(reports: Sequence[Report]) -> tuple[list[Report], list[FindingInfo]]:
    """The reports without the warnings and notes that several of them contain, and these, each once."""
    counts = Counter(item for report in reports for item in dict.fromkeys(report.findings) if item.level != "error")
    shared = [item for item, count in counts.items() if count > 1]
    rest = [replace(report, findings=tuple(item for item in report.findings if counts[item] < 2)) for report in reports]
    return rest, shared


def finding_lines(findings: Sequence[FindingInfo], *, everything: bool = False) -> list[str]:
    """Findings after a blank line, the gravest first; everything: minor notes too."""
    shown = [item for item in findings if everything or item.rule not in MINOR]
    lines = [""] if shown else []
    for finding in shown:
        color, label = LEVEL_STYLES[finding.level]
        place = f"{printable(finding.where, 40)}: " if finding.where else ""
        message = finding.message.partition(":")[0] if finding.rule in MINOR else finding.message
        text = wrapped(f"{place}{printable(message, 400)}", " " * (len(label) + 4), f"  {label}: ")
        text[0] = text[0].replace(f"{label}:", click.style(f"{label}:", fg=color, bold=True), 1)
        lines += text
    return lines


def written(files: tuple[Path, ...]) -> list[str]:
    """Where the files went: the directory, then the names."""
    if not files:
        return []
    names = "  ".join(printable(path.name) for path in files)
    return ["", f"  Wrote {printable(str(files[0].parent))}/", *wrapped(names, "    ")]
