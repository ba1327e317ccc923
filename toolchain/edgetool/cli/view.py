"""What several commands print about a report: arena, plan, code, quantization and findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING

import click

from edgetool.cli.latency_view import latency_facts, slowest_facts
from edgetool.cli.layers_view import layer_lines
from edgetool.cli.output import duration, fact, grouped, printable, size_and_limit, width, wrapped
from edgetool.cli.verdict import fits_fact, model_bytes, runs_fact
from edgetool.figure import significant
from edgetool.gate.text import exact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgetool.report.document import (
        ArenaInfo,
        ArenaPlacementInfo,
        DriftInfo,
        FindingInfo,
        MemoryInfo,
        OutputQuality,
        PlacedInfo,
        PlacementInfo,
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
    """Show whether the model fits and what it needs; with `everything` minor notes too."""
    lines = [heading(report), ""]
    lines += [*runs_fact(report), *fits_fact(report)]
    if report.arena is not None:
        limits = None if report.places else report.memory
        lines += [*arena_facts(report.arena, limits, report.plan, native=report.is_native), *places_facts(report)]
    if (
        report.plan is not None
        and report.arena is not None
        and (report.plan.moved or report.plan.order_proof == "none")
    ):
        lines += order_facts(report.plan, report.arena)
    lines += fact("Model", _model_size(report))
    lines += [*constants_fact(report), *code_fact(report, everything=everything), *stack_fact(report)]
    if report.estimate is not None:
        lines += [*latency_facts(report.estimate), *slowest_facts(report.estimate)]
    if report.quantization is not None:
        lines += [*quantization_facts(report.quantization), *layer_lines(report.quantization.layers)]
    return lines + finding_lines(report.findings, everything=everything)


def heading(report: Report) -> str:
    """Show model and target in one line, or the target in a second one if the terminal is narrow."""
    parts = [click.style(printable(report.model.name), bold=True)]
    target = report.target
    if target is not None:
        core = f"{target.core}, " if target.board else ""
        kernels = "native code" if report.is_native else f"{target.kernels} kernels"
        parts.append(f"on {printable(target.board or target.core)} ({core}{kernels})")
    line = " ".join(parts)
    return line if len(click.unstyle(line)) <= width() else "\n".join(parts)


def arena_facts(
    arena: ArenaInfo, memory: MemoryInfo | None, plan: PlanInfo | None, *, native: bool = False
) -> list[str]:
    """Show the arena with the region that it must fit, what the plan saves, the layout, and what overlaps in it."""
    exact = arena.bytes is not None and not arena.is_lower_bound
    needed = arena.bytes if arena.bytes is not None else arena.layout_bytes
    limit = memory.sram_bytes if memory is not None else None
    shown, of = size_and_limit(needed, limit)
    if not exact:
        shown = f"{'more than' if arena.bytes is None else 'at least'} {shown}"
    region = f" of {of} in {printable(memory.region or 'SRAM')}" if memory is not None and limit is not None else ""
    lines = fact("Arena", shown + region, bold=shown)
    if native:
        lines += fact("", "inputs, outputs, activations, scratch and state; native code has no tail")
    elif arena.used_bytes is not None:
        text = f"head {grouped(arena.head_bytes, 'B')} + tail {grouped(arena.tail_bytes, 'B')}"
        lines += fact("", f"{text} = {grouped(arena.used_bytes, 'B')} used{_above_used(arena)}")
    lines += saved_fact(arena) + fact("Layout", f"{grouped(arena.layout_bytes, 'B')}, {layout_proof(arena)}")
    return lines + overlap_fact(plan)


def places_facts(report: Report) -> list[str]:
    """Show the bytes of each part in its memory, and how the placement compares with others."""
    is_lower_bound = report.arena is not None and report.arena.is_lower_bound
    lines = placed_facts(report.places, report.placements, is_lower_bound=is_lower_bound)
    return lines if report.arena_placement is None else lines + _arena_placement_facts(report.arena_placement)


def _arena_placement_facts(placement: ArenaPlacementInfo) -> list[str]:
    """Show how long the core waits for buffers in these memories, and whether another placement is better."""
    lines, among = [], "no placement of these buffers"
    if placement.minimized is not None:
        name, bound = printable(placement.minimized), placement.minimized_lower_bound
        proven = f"optimal: no placement takes fewer bytes of {name}"
        if placement.minimized_bytes != bound:
            proven = f"a placement may take fewer bytes of {name}, but at least {bound:,}"
        lines += fact("", proven)
        among = "no other with as few"
    if placement.waiting_cycles is None:
        lines += fact("", "times are not compared: the profile lacks the speeds of these memories")
    elif placement.waiting_cycles:
        lines += fact("", f"{significant(placement.waiting_cycles)} cycles of waiting for buffers")
    if placement.copied:
        count = len(placement.copied)
        text = "operators read copies in RAM of their" if count > 1 else "operator reads a copy in RAM of its"
        by_dma = ", copied with DMA" if placement.copies_begin else ""
        lines += fact("", f"{count} {text} constants: {placement.copied_bytes:,} B in all{by_dma}")
    moved = "moves fewer bytes through slow memories" if placement.waiting_cycles is None else "waits less"
    if placement.optimal:
        return lines + fact("", f"optimal: {among} {moved}")
    waiting = placement.waiting_lower_bound_cycles
    least = "" if waiting is None else f": it waits at least {significant(waiting)} cycles"
    return lines + fact("", f"a better placement may exist{least}")


def placed_facts(
    places: Sequence[PlacedInfo], placements: Sequence[PlacementInfo], *, is_lower_bound: bool
) -> list[str]:
    """Show the bytes of each part in its memory, the time there, and the best other placement."""
    lines: list[str] = []
    for item in places:
        bound = "at least " if item.part in ("head", "tail") and is_lower_bound else ""
        text = f"{item.part} {bound}{item.bytes:,} B of {item.memory_bytes:,} B in {printable(item.memory)}"
        lines += fact("" if lines else "Places", text, style={"fg": "red"} if item.fits is False else None)
    if not placements:
        return lines
    chosen, *others = placements
    if chosen.latency_ms is None:
        lines += fact("", "times are not compared: the profile lacks the speeds of these memories")
    else:
        lines += fact("", f"time {duration(chosen.latency_ms.value)}")
    for other in others[:1]:
        time = "" if other.latency_ms is None else f", {duration(other.latency_ms.value)}"
        model = "" if other.model in (None, chosen.model) else f", model in {printable(other.model or '')}"
        lines += fact("", f"next best: head in {printable(other.head)}, tail in {printable(other.tail)}{model}{time}")
    return lines


def overlap_fact(plan: PlanInfo | None) -> list[str]:
    """Show how many outputs overlap inputs of their operators, and whether one of those is an input of the model."""
    if plan is None or not plan.overlaps:
        return []
    one = len(plan.overlaps) == 1
    text = f"{grouped(len(plan.overlaps))} output{'' if one else 's'} share{'s' if one else ''} bytes with an input"
    if any(pair.model_input for pair in plan.overlaps):
        text += "; Invoke overwrites the model's input"
    return fact("Overlap", text)


def saved_fact(arena: ArenaInfo) -> list[str]:
    """Show how much smaller the plan makes the arena; nothing if TFLM's own planner needs the same."""
    if arena.bytes is None or arena.stock_bytes is None or arena.stock_bytes == arena.bytes:
        return []
    saved = arena.stock_bytes - arena.bytes
    if saved < 0:
        return fact("Saved", f"nothing: TFLM's own planner needs {-saved:,} B less", style={"fg": "yellow"})
    shown = f"{saved:,} B ({100 * saved / arena.stock_bytes:.0f} %)"
    return fact("Saved", f"{shown} against TFLM's own planner", bold=shown)


def _above_used(arena: ArenaInfo) -> str:
    """Explain why the arena is larger than the bytes in use once the model runs."""
    moments = [entry for entry in arena.breakdown if entry.part == "transient"]
    if arena.bytes == arena.used_bytes or not moments:
        return ""
    top = max(moments, key=lambda entry: entry.bytes)
    if top.where == "Invoke":
        return ", rounded up to 16 B"
    moment = f"Prepare of operator {top.operator}" if top.operator is not None else top.where
    return f"; {moment} takes {top.bytes:,} B"


def layout_proof(arena: ArenaInfo) -> str:
    """Show how good the layout is known to be."""
    if arena.optimal:
        return f"optimal ({PROOFS[arena.proof]})" if arena.layout_bytes else "empty"
    above = grouped(arena.layout_bytes - arena.lower_bound_bytes, "B")
    return f"{above} above the lower bound of {grouped(arena.lower_bound_bytes, 'B')}"


def order_facts(plan: PlanInfo, arena: ArenaInfo) -> list[str]:
    """Show which order was chosen and how good it is known to be; nothing if no order was searched."""
    bound = plan.live_lower_bound_bytes
    if plan.live_bytes is None or (bound is None and not plan.moved):
        return []
    moved = f"{grouped(plan.moved)} of {grouped(len(plan.order))} operators moved" if plan.moved else "as in the file"
    text = f"{moved}; {grouped(plan.live_bytes, 'B')} live at the peak"
    if plan.order_proof != "none":
        basis = " based on the known allocations" if arena.is_lower_bound and not plan.constants_in_ram else ""
        text += f", which is minimal{basis}"
    elif bound is not None:
        text += f"; no order needs less than {grouped(bound, 'B')}"
    return fact("Order", text)


def sharing_facts(sharing: SharingInfo) -> list[str]:
    """Show what shared whole buffers need, compared with a buffer per tensor."""
    count = f"{len(sharing.buffers):,} buffer{'' if len(sharing.buffers) == 1 else 's'}"
    text = f"{count}, {grouped(sharing.optimized_bytes, 'B')} in total; unshared {grouped(sharing.baseline_bytes, 'B')}"
    if sharing.proof != "none":
        text += "; no assignment needs less"
    else:
        cut = "search cut short, " if sharing.cut_short else ""
        text += f"; {cut}lower bound {grouped(sharing.lower_bound_bytes, 'B')}"
    return fact("Sharing", text)


def constants_fact(report: Report) -> list[str]:
    """Show what native code takes in flash besides its code."""
    if report.flash is None or not report.is_native:
        return []
    memory = report.memory
    size, limit = size_and_limit(report.flash.model_bytes, memory.flash_bytes if memory is not None else None)
    return fact("Constants", f"{size}{f' of {limit} flash' if limit else ' in flash'}, instead of the model's file")


def code_fact(report: Report, *, everything: bool) -> list[str]:
    """Show what the code takes in flash, with its band and build, and with `everything` what would change it."""
    flash = report.flash
    if flash is None or flash.code_bytes is None:
        return []
    code = flash.code_bytes
    band = "" if code.low == code.high else f" ({grouped(round(code.low))} to {grouped(round(code.high))})"
    lower, what = "at least " if flash.uncounted else "", "constants" if report.is_native else "model"
    basis = printable(flash.code_basis or "", BASIS_LENGTH)
    text = f"{lower}{grouped(round(code.value), 'B')}{band} of flash besides the {what}: {basis}"
    lines = fact("Code", text)
    if flash.uncounted:
        lines += fact("", f"not counted: the kernels of {', '.join(map(printable, flash.uncounted))}")
    if not everything:
        return lines
    if flash.alternatives:
        others = [f"{grouped(size, 'B')} with {name}" for name, size in flash.alternatives.items()]
        lines += fact("", ", ".join(others))
    largest = [
        f"{printable(item.operator)} {grouped(item.bytes, 'B')}" for item in flash.operators[:CODE_NAMED] if item.bytes
    ]
    if largest:
        lines += fact("", f"only for one operator: {', '.join(largest)}")
    if flash.log_bytes:
        lines += fact("", f"TFLM's own log, which uses printf, would add {grouped(flash.log_bytes, 'B')}")
    return lines


CODE_NAMED = 3  # operators
BASIS_LENGTH = 300  # characters, with the names of libraries


def stack_fact(report: Report) -> list[str]:
    """Show the stack that native code needs on the target's core, for each compiler that was measured."""
    if report.target is None or not report.stack:
        return []
    texts = [f"{grouped(item.bytes, 'B')} with {item.compiler} {item.level}" for item in report.stack]
    return fact("Stack", f"at most {', '.join(texts)}")


def kernels_fact(report: Report) -> list[str]:
    """Show what faster kernels of native code need, for each choice between lean and tuned kernels."""
    lines: list[str] = []
    for choice in report.kernel_choices:
        budget = choice.arena_bytes - report.kernel_choices[0].arena_bytes
        text = f"arena {grouped(choice.arena_bytes, 'B')}{' by rows' if choice.rows else ''}"
        if choice.extra_macs:
            text += f" with {choice.extra_macs / 1e6:.2f} M extra multiply-accumulates"
        if choice.instructions is not None:
            text += f", {choice.instructions / 1e6:.2f} M instructions"
        text += " (this plan)" if choice.chosen else f" with --scratch-budget {budget}"
        lines += fact("" if lines else "Kernels", text)
    return lines


def _model_size(report: Report) -> str:
    memory = None if report.is_native else report.memory
    size, limit = size_and_limit(model_bytes(report), memory.flash_bytes if memory is not None else None)
    flash = f" of {limit} flash" if limit else ""
    return f"{size}{flash}; {grouped(report.model.parameters)} parameters, {grouped(report.model.operators)} operators"


def quantization_facts(quantization: QuantizationInfo) -> list[str]:
    """Show scheme, calibration, and how far the outputs are from the float original."""
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
    """Describe how far one output is from the float model's."""
    if output.sqnr_db is None:
        return "equal to the float model" if output.cosine is not None else "nothing to compare: the output is zero"
    cosine = "" if output.cosine is None else f", cosine {floor(output.cosine * 1e4) / 1e4:.4f}"
    top1 = "" if output.top1_agreement is None else f", same top-1 class in {100 * output.top1_agreement:.1f} %"
    return f"SQNR {output.sqnr_db:.1f} dB{cosine}{top1}"


def without_shared(reports: Sequence[Report]) -> tuple[list[Report], list[FindingInfo]]:
    """Separate the warnings and notes that several reports contain from the reports; each is returned once."""
    counts = Counter(item for report in reports for item in dict.fromkeys(report.findings) if item.level != "error")
    shared = [item for item, count in counts.items() if count > 1]
    rest = [replace(report, findings=tuple(item for item in report.findings if counts[item] < 2)) for report in reports]
    return rest, shared


def finding_lines(findings: Sequence[FindingInfo], *, everything: bool = False) -> list[str]:
    """Show findings after a blank line, the most severe first; with `everything` minor notes too."""
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


def drift_lines(drift: DriftInfo, *, everything: bool = False, judged: bool = False) -> list[str]:
    """Show what another runtime changes: figures with their causes, and what it breaks or repairs.

    everything: show every figure, not only those that may not grow. judged: leave out those that failed a judgement.
    """
    from edgetool.gate.lock_judgement import GUARDED

    heading = f"With {drift.after} instead of {drift.before}"
    changes = [item for item in drift.changes if everything or item.figure in GUARDED]
    changes = [item for item in changes if item.allowed or not judged]
    if not (changes or drift.introduced or drift.fixed):
        return (
            []
            if judged
            else ["", *wrapped(f"{heading}: arena, model, latency, faults and refusals are the same", "  ")]
        )
    lines = ["", f"  {heading}"]
    for change in changes:
        values = ["unknown" if value is None else exact(value, change.unit) for value in (change.before, change.after)]
        lines += wrapped(f"{change.figure}: {values[0]} to {values[1]}", "      ", "    ")
        for cause in change.causes:
            lines += wrapped(printable(cause, 400), "        ", "      ")
    for word, color, findings in (("new", "red", drift.introduced), ("fixed", "green", drift.fixed)):
        for finding in findings:
            text = wrapped(printable(finding.message, 400), " " * 11, f"    {word + ':':<7}")
            lines += [text[0].replace(f"{word}:", click.style(f"{word}:", fg=color, bold=True), 1), *text[1:]]
    return lines


def written(files: tuple[Path, ...]) -> list[str]:
    """Show where the files are: the directory, then the names."""
    if not files:
        return []
    names = "  ".join(printable(path.name) for path in files)
    return ["", f"  Wrote {printable(str(files[0].parent))}/", *wrapped(names, "    ")]
