"""What a report says in one sentence: whether the model runs and fits, or what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from edgetool.cli.output import duration, fact, percent, printable, size_of_limit, size_with_unit, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetool.report.document import FindingInfo, MemoryInfo, Report

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
