"""What several commands print about a report: the verdict in one sentence, arena, plan, quantization and findings.

Its lines on time, energy and loop counts come from the estimate alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil, floor, log2
from typing import TYPE_CHECKING, Any, Literal

import click

from edgetool.cli.output import (
    duration,
    durations,
    energy,
    fact,
    grouped,
    mac_rate,
    printable,
    short_size,
    size_and_limit,
    size_of_limit,
    size_with_unit,
    table,
    width,
    wrapped,
)
from edgetool.figure import significant
from edgetool.gate.text import exact
from edgetool.target.quantity import format_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgetool.report.document import (
        ArenaInfo,
        ArenaPlacementInfo,
        Band,
        DriftInfo,
        EstimateInfo,
        FindingInfo,
        Histogram,
        LayerLoss,
        MemoryInfo,
        OperatorInfo,
        OutputQuality,
        PlacedInfo,
        PlacementInfo,
        PlanInfo,
        QuantizationInfo,
        Report,
        SharingInfo,
    )


MAX_LAYERS = 12
DRAWN = 3  # layers whose histogram is drawn
EXACT_DB = 100.0  # beyond it, only the rounding of float32 differs
LEVELS = " .:-=+*#%@"
NAME_COLUMNS = 40
MIN_NAME_COLUMNS = 12


def layer_lines(layers: Sequence[LayerLoss]) -> list[str]:
    """Show the worst layers in a table, and histograms of the very worst; nothing if no layer was measured."""
    if not layers:
        return []
    shown = layers[:MAX_LAYERS]
    rows = [
        (_db(layer.sqnr_db), f"{layer.rmse_over_scale:.2f}", _range(layer), layer.operator, _name(layer, shown))
        for layer in shown
    ]
    header = ("SQNR dB", "error in steps", "range", "operator", "layer")
    lines = [
        "",
        *wrapped(
            "Loss per layer, worst first (30 to 45 dB is usual; an error of 0.3 steps is due to rounding alone):",
            "  ",
        ),
        *_indented(table(header, rows, ">>>" + "<<")),
    ]
    if len(layers) > len(shown):
        lines.append(f"  and {len(layers) - len(shown):,} more layers in the JSON report")
    for layer in shown[:DRAWN]:
        lines += [
            "",
            *wrapped(f"Values of {_called(layer)} by quantization step (256 steps):", "  "),
            *bars(layer.histogram),
        ]
    return lines


def bars(histogram: Histogram) -> list[str]:
    """Return the histogram as one line of shades, on a logarithmic scale, between the ends of its range."""
    most = max(histogram.counts, default=0)
    shades = "".join(_shade(count, most) for count in histogram.counts)
    low, high = (f"{value:.4g}" for value in (histogram.low, histogram.high))
    return [f"  {low} |{shades}| {high}"]


def _shade(count: int, most: int) -> str:
    """Return a shade: the darkest for the fullest bin, a visible one for any value above 0."""
    if count == 0:
        return LEVELS[0]
    top = len(LEVELS) - 1
    return LEVELS[max(1, ceil(top * log2(1 + count) / log2(1 + most)))]


def _name(layer: LayerLoss, shown: Sequence[LayerLoss]) -> str:
    others = (
        2
        + 7
        + 2
        + 14
        + 2
        + max(len(_range(item)) for item in shown)
        + 2
        + max(len(item.operator) for item in shown)
        + 2
    )
    columns = min(NAME_COLUMNS, max(MIN_NAME_COLUMNS, width() - others))
    return printable(layer.name or "?", columns)


def _called(layer: LayerLoss) -> str:
    kind = f" ({printable(layer.layer_class, 30)})" if layer.layer_class else ""
    return f"{printable(layer.name or layer.operator, 40)}{kind}"


def _range(layer: LayerLoss) -> str:
    return f"{layer.minimum:.3g} to {layer.maximum:.3g}"


def _db(value: float | None) -> str:
    return "exact" if value is None or value > EXACT_DB else f"{value:.1f}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


SCREEN_LINES = 24  # a longer output repeats its verdict at the end
LONGEST = 400
# The part of a finding's message, split at its first colon, that completes the sentence "Does not run: ...".
RUNS: dict[str, Literal["before", "after", "whole"]] = {
    "operator-not-in-runtime": "before",
    "kernel-refuses": "after",
    "operator-type-not-in-runtime": "before",
    "operator-limit-in-runtime": "before",
    "unsettled-shapes": "whole",
    "written-constants": "whole",
}
# How messages about other problems begin; these do not keep the model from running.
OTHERS = {
    "operator-scales-in-runtime": "Wrong results",
    "kernel-fault": "Wrong results",
    "kernel-gives-up": "Wrong results",
    "conversion-differs": "Wrong results",
    "interval-too-short": "Too slow",
    "program-not-written": "Incomplete",
}
TOO_LARGE = ("arena-too-large", "model-too-large", "memory-too-small")


@dataclass(frozen=True, slots=True)
class Summary:
    """A sentence without a full stop. Negative: the model does not fit, does not run or computes something else."""

    text: str
    negative: bool


def verdict_of(report: Report) -> Summary:
    """Return the most severe problem; without one, what fits or why that is not known."""
    problems = [*_problems(report.findings), *_misfits(report)]
    if problems:
        first, *rest = problems
        return Summary("; ".join([first, *(item[0].lower() + item[1:] for item in rest)]), negative=True)
    return Summary(_favourable(report), negative=False)


def runs_fact(report: Report) -> list[str]:
    """Show in red why the model does not run or computes something else; nothing if it runs."""
    lines: list[str] = []
    for text in _problems(report.findings):
        kind, _, reason = text.partition(": ")
        label, shown = ("Runs", f"no: {reason}") if kind == "Does not run" else ("Problem", text)
        lines += fact(label, shown, style={"fg": "red", "bold": True})
    return lines


def fits_fact(report: Report) -> list[str]:
    """Show whether arena and model fit, or what is missing to judge that; nothing without a target."""
    memory = report.memory
    if memory is None:
        return []
    too_small = dict.fromkeys(printable(item.memory) for item in report.places if item.fits is False)
    if too_small:
        verb = "is" if len(too_small) == 1 else "are"
        return fact("Fits", f"no: {' and '.join(too_small)} {verb} too small", style={"fg": "red", "bold": True})
    too_large = _too_large(memory)
    if too_large:
        verb = "is" if len(too_large) == 1 else "are"
        text = f"no: the {' and the '.join(too_large)} {verb} too large"
        return fact("Fits", text, style={"fg": "red", "bold": True})
    if memory.arena_fits and memory.model_fits:
        return fact("Fits", "yes", style={"fg": "green", "bold": True})
    if memory.sram_bytes is None and memory.flash_bytes is None:
        return fact("Fits", f"not checked: {NO_LIMITS}")
    return fact("Fits", _partly(memory), style={"fg": "yellow"})


NO_LIMITS = "no memory limits are known (use --sram and --flash, or a board)"


def closing(verdict: Summary, printed: Sequence[str]) -> list[str]:
    """Return the verdict as the last lines of the output; nothing if it is favourable and still on the screen."""
    rows = sum(line.count("\n") + 1 for line in printed)
    if not verdict.negative and rows <= SCREEN_LINES:
        return []
    lines = wrapped(printable(verdict.text, LONGEST), "    ", "  ")
    colour = "red" if verdict.negative else None
    return ["", *(click.style(line, fg=colour, bold=True) for line in lines)]


def joint_verdict(reports: Sequence[Report]) -> Summary:
    """Return the verdict on several targets: the problem of each, or that the model fits all."""
    if len(reports) == 1:
        return verdict_of(reports[0])
    verdicts = [(report.target.name if report.target else "?", verdict_of(report)) for report in reports]
    negative = [(printable(name), verdict.text) for name, verdict in verdicts if verdict.negative]
    if negative:
        listed = ". ".join(f"{name}: {text[0].lower()}{text[1:]}" for name, text in negative)
        return Summary(f"{len(negative)} of {len(reports)} targets fail. {listed}", negative=True)
    judged = [report.memory for report in reports if report.memory is not None]
    fitting = sum(bool(memory.arena_fits and memory.model_fits) for memory in judged)
    text = (
        f"Fits all {len(reports)} targets" if fitting == len(reports) else f"Fits {fitting} of {len(reports)} targets"
    )
    return Summary(text if fitting == len(reports) else f"{text}; not checked on the others", negative=False)


def _problems(findings: Sequence[FindingInfo]) -> list[str]:
    """Return a sentence for each problem except a lack of memory, which the fit describes in more detail."""
    errors = [item for item in findings if item.level == "error" and item.rule not in TOO_LARGE]
    sentences = []
    for item in sorted(errors, key=lambda item: item.rule not in RUNS):
        before, _, after = printable(item.message, LONGEST).partition(": ")
        if item.rule in RUNS:
            text = {"before": before, "after": after or before, "whole": item.message}[RUNS[item.rule]]
            sentences.append(f"Does not run: {printable(text, LONGEST)}")
        else:
            sentences.append(f"{OTHERS.get(item.rule, 'Problem')}: {before}")
    return list(dict.fromkeys(sentences))


def _misfits(report: Report) -> list[str]:
    memory, arena = report.memory, report.arena
    if memory is None or arena is None:
        planner_limit = [item.message for item in report.findings if item.rule == "arena-too-large"]
        return [f"Does not fit: {printable(text, LONGEST)}" for text in planner_limit]
    if report.places:
        messages = [item.message for item in report.findings if item.rule == "memory-too-small"]
        return [f"Does not fit: {printable(text, LONGEST)}" for text in messages]
    parts = []
    if memory.arena_fits is False and memory.sram_bytes is not None:
        needed = arena.bytes if arena.bytes is not None else arena.layout_bytes
        qualifier = "at least " if arena.is_lower_bound else ""
        region = printable(memory.region or "SRAM", 30)
        parts.append(f"arena {qualifier}{size_of_limit(needed, memory.sram_bytes)} in {region}")
    if memory.model_fits is False and memory.flash_bytes is not None:
        parts.append(f"{in_flash(report)} {size_of_limit(flash_bytes(report), memory.flash_bytes)} in flash")
    return [f"Does not fit: {', '.join(parts)}"] if parts else []


def _favourable(report: Report) -> str:
    memory, arena = report.memory, report.arena
    latency = report.estimate.latency_ms if report.estimate is not None else None
    time = "" if latency is None else f"; about {duration(latency.value)}".replace("about under", "under")
    if arena is None:
        return f"No problem found{time}"
    size = arena.bytes if arena.bytes is not None else arena.layout_bytes
    qualifier = "more than " if arena.bytes is None else "at least " if arena.is_lower_bound else ""
    if memory is None or (memory.sram_bytes is None and memory.flash_bytes is None):
        why = "its exact size depends on the target (--target)" if memory is None else "no memory limits are known"
        return f"Arena {qualifier}{size_with_unit(size)}: {why}{time}"
    parts = [
        f"{item.part} {_share(item.bytes, item.memory_bytes)} in {printable(item.memory, 30)}" for item in report.places
    ]
    if memory.sram_bytes is not None and not report.places:
        parts.append(f"arena {qualifier}{_share(size, memory.sram_bytes)}")
    if memory.flash_bytes is not None and not report.places:
        parts.append(f"{in_flash(report)} {_share(flash_bytes(report), memory.flash_bytes)}")
    judged = "Fits" if memory.arena_fits and memory.model_fits else _partly(memory).capitalize()
    return f"{judged}: {', '.join(parts)}{time}"


def flash_bytes(report: Report) -> int:
    """Return what the model takes in flash: its .tflite, or the constants of native code."""
    return report.flash.model_bytes if report.is_native and report.flash is not None else model_bytes(report)


def in_flash(report: Report) -> str:
    """Return the name of what flash_bytes counts."""
    return "constants" if report.is_native else "model"


def model_bytes(report: Report) -> int:
    """Return the size of the .tflite that goes into flash: the converted one if there is one."""
    return report.model.output.bytes if report.model.output is not None else report.model.bytes


def _share(size_bytes: int, limit_bytes: int) -> str:
    share = f" ({percent(size_bytes / limit_bytes)})" if limit_bytes else ""
    return f"{size_of_limit(size_bytes, limit_bytes)}{share}"


def _too_large(memory: MemoryInfo) -> list[str]:
    judged = (("arena", memory.arena_fits), ("model", memory.model_fits))
    return [name for name, fits in judged if fits is False]


def _partly(memory: MemoryInfo) -> str:
    model = "the model fits in flash" if memory.model_fits else "no flash limit is known"
    if memory.sram_bytes is None:
        return f"{model}; no SRAM limit is known"
    return f"{model}; {'the arena fits' if memory.arena_fits else 'only a lower bound on the arena size is known'}"


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


SLOWEST_SHOWN = 3
ADVICE_SHOWN = 2
# Colours that mark figures not based on measurements of this core and these kernels.
UNMODELLED = "unmodelled"
STATUS_STYLES: dict[str, dict[str, Any]] = {"unvalidated": {"fg": "yellow"}, UNMODELLED: {"fg": "yellow"}}


def latency_facts(estimate: EstimateInfo) -> list[str]:
    """Show the time with its band and its basis."""
    latency, basis = estimate.latency_ms, printable(estimate.basis, 400)
    if latency is None:
        moving = duration(sum(item.ms.value for item in estimate.operators))
        return fact("Inference", f"not estimated; memory traffic alone takes {moving}") + fact("Basis", basis)
    basis_status = status(estimate)
    lines = fact("Inference", f"{banded(latency, duration)}, {basis_status}", style={"bold": True})
    return lines + fact("Basis", basis, style=STATUS_STYLES.get(basis_status))


def status(estimate: EstimateInfo) -> str:
    """Return the status of the timing, or that most of the time may be in operators that are not modelled."""
    latency = estimate.latency_ms
    if latency is None:
        return "-"
    unknown = sum(item.ms.high for item in estimate.operators if item.basis != "instructions")
    return UNMODELLED if 2 * unknown > latency.high else estimate.validation


def banded(band: Band, shown: Callable[[float], str]) -> str:
    """Return "about 24 ms (22 ms to 28 ms)"; the value alone if the band would look the same."""
    value, low, high = shown(band.value), shown(band.low), shown(band.high)
    text = value if value.startswith("under ") else f"about {value}"
    return text if low == value == high else f"{text} ({low} to {high})"


def slowest_facts(estimate: EstimateInfo) -> list[str]:
    """Show the operators that take longest; those that move the most bytes if no time is known."""
    label = "Slowest" if estimate.latency_ms is not None else "Most bytes"
    total = total_ms(estimate.operators)
    lines: list[str] = []
    for item in by_time(estimate.operators)[:SLOWEST_SHOWN]:
        share = percent(item.ms.value / total)
        text = f"{duration(item.ms.value)}, {share}: op {place(item)} {printable(item.operator, 30)}"
        lines += fact("" if lines else label, text)
    return lines


def limit_facts(estimate: EstimateInfo, *, everything: bool = False) -> list[str]:
    """Show what limits the time, and what would help; nothing if that is not known."""
    if estimate.verdict is None:
        return []
    lines = fact("Limit", printable(estimate.verdict.text, 400))
    advice = estimate.verdict.advice if everything else estimate.verdict.advice[:ADVICE_SHOWN]
    for number, text in enumerate(advice):
        lines += fact("" if number else "Suggestion", printable(text, 400))
    return lines


def energy_facts(estimate: EstimateInfo) -> list[str]:
    """Show the energy with its band, and the basis of the power; nothing if the energy is not known."""
    energy_uj = estimate.energy_uj
    if energy_uj is None:
        return []
    power = (estimate.energy_basis or "").partition("; time: ")[0]  # the basis of the time is already shown above
    return fact("Energy", f"{banded(energy_uj, energy)}{f'; {printable(power, 400)}' if power else ''}")


def work_facts(estimate: EstimateInfo, clock_hz: object = None) -> list[str]:
    """Show MACs, instructions, cycles at a clock, and bytes."""
    from edgetool.estimate.memory_speed import rates

    parts = [f"{grouped(estimate.macs)} MACs"]
    if estimate.instructions:
        parts.append(f"{counted(estimate.instructions)} instructions")
    if estimate.cycles is not None:
        clock = f" at {format_clock(clock_hz)}" if isinstance(clock_hz, int) else ""
        parts.append(f"{counted(estimate.cycles)} cycles{clock}")
    rate = f"; {mac_rate(estimate.gmacs_per_s)}" if estimate.gmacs_per_s is not None else ""
    lines = fact("Work", ", ".join(parts) + rate)
    traffic = (
        f"{short_size(estimate.parameter_bytes)} of constants + {short_size(estimate.activation_bytes)} of activations "
        f"= {short_size(estimate.bytes_moved)}"
    )
    if estimate.bandwidth_gbps is None:  # otherwise the limit names both bandwidths
        traffic += f"; memory bandwidth {rates(estimate.configured_bandwidth_gbps)[0]}"
    return lines + fact("Traffic", traffic)


def unmodelled_fact(estimate: EstimateInfo) -> list[str]:
    """Show the operators whose time is not modelled; nothing if there are none."""
    if not estimate.not_modelled or estimate.latency_ms is None:
        return []
    names = (
        f"{printable(name, 30)}{f' x{count}' if count > 1 else ''}"
        for name, count in Counter(estimate.not_modelled).items()
    )
    text = f"{', '.join(names)}: instruction counts are unknown; only memory traffic is counted, so the band is wide"
    return fact("Unmodelled", text, style={"fg": "yellow"})


def by_time(operators: Sequence[OperatorInfo]) -> list[OperatorInfo]:
    """Return the operators, slowest first; equally slow ones keep their order."""
    return sorted(operators, key=lambda item: -item.ms.value)


def operator_table(operators: Sequence[OperatorInfo], shown: int) -> list[str]:
    """Show the first operators with their share of the total time."""
    total = total_ms(operators)
    rows = [
        (
            time,
            percent(item.ms.value / total),
            f"{item.macs:,}",
            f"{item.memory_bytes:,}",
            item.bound if item.basis == "instructions" else UNMODELLED,
        )
        for item, time in zip(operators, durations([item.ms.value for item in operators[:shown]]), strict=False)
    ]
    header = ("time", "share", "MACs", "bytes", "bound by")
    places = [place(item) for item in operators[:shown]]
    cells = [header, *rows]
    used = sum(2 + max(len(row[column]) for row in cells) for column in range(len(header)))
    used += 2 + max(len(name) for name in ["op", *places])
    columns = max(MIN_NAME_COLUMNS, width() - 2 - used)
    named = [
        (where, printable(f"{item.operator}{f' x{item.runs}' if item.runs > 1 else ''}", columns), *row)
        for where, item, row in zip(places, operators, rows, strict=False)
    ]
    lines = [f"  {line}" for line in table(("op", "operator", *header), named, "><>>>><")]
    left = operators[shown:]
    if left:
        share = percent(total_ms(left) / total)
        lines.append(f"  ... and {grouped(len(left))} more, {share} of the time (-v shows all)")
    return lines


def counted(number: int) -> str:
    """Return a large count to three digits: 35.1 M."""
    for scale, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= scale:
            return f"{significant(number / scale)}{unit}"
    return str(number)


def place(item: OperatorInfo) -> str:
    """Return the operator's index in the file, with its subgraph unless that is the main one."""
    return f"{item.subgraph}:{item.index}" if item.subgraph else str(item.index)


def total_ms(operators: Sequence[OperatorInfo]) -> float:
    """Return the time of these operators, for computing shares."""
    return sum(item.ms.value for item in operators) or 1.0


def percent(share: float) -> str:
    """Return a share in percent to at most two significant digits: 5.4 %, 31 %, 0.1 %."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"
