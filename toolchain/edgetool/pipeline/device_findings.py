"""What a run on the device says beside its time: its arena, its operators, and how steady it was."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from edgetool.codegen.c_names import model_macro
from edgetool.codegen.profile_program import word
from edgetool.estimate.latency import estimate_model
from edgetool.figure import in_text
from edgetool.finding import Finding
from edgetool.memory.planner import plan_memory
from edgetool.pipeline.device_runs import ANY, DeviceRun, run_ms
from edgetool.report.calibration import DeviceInfo, MeasuredModel, MeasuredOperator
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

# The slowest inference against the fastest: beyond this something else ran as well.
UNSTEADY = 1.1


def on_device_too(model: MeasuredModel, run: DeviceRun, target: Target) -> tuple[MeasuredModel, tuple[Finding, ...]]:
    """The measured model with what the device said of it, and what makes that doubtful; target: calibrated."""
    info = _device_info(run, target)
    return replace(model, device=info, operators=_operators(run, target)), _findings(run, info, target)


def _device_info(run: DeviceRun, target: Target) -> DeviceInfo:
    """What the device said, with edgetool's account of the arena beside it.

    The account is None where edgetool has a bound only, and of an arena that several models share.
    """
    profile = run.profile
    account = plan_memory(run.source.model, platform_of(target), wanted="as in file").account
    known = account is not None and not account.is_lower_bound and not profile.arena_shared
    return DeviceInfo(
        log=run.log.name,
        counter=profile.source,
        runs=profile.runs,
        min_ms=run_ms(run, profile.min_ticks, target),
        max_ms=run_ms(run, profile.max_ticks, target),
        arena_used_bytes=profile.arena_used_bytes,
        account_used_bytes=account.used_bytes if account is not None and known else None,
    )


def _findings(run: DeviceRun, info: DeviceInfo, target: Target) -> tuple[Finding, ...]:
    """What makes a run doubtful: another arena than its build has, another TFLM, and times that differ."""
    profile, findings = run.profile, []
    expected = info.account_used_bytes
    if expected is not None and expected != info.arena_used_bytes:
        text = (
            f"the device uses {info.arena_used_bytes:,} bytes of the arena, but {target.core.name} with "
            f"{target.kernels} kernels of {target.runtime.name} uses {expected:,}: the firmware links different "
            "kernels or a different TFLM version, and its times do not apply to this target"
        )
        findings.append(Finding("arena-differs", "error", text, run.source.name))
    if profile.runtime not in (ANY, "-", word(target.runtime.name)):
        text = f"the firmware was built for {profile.runtime}, but the target uses {target.runtime.name}"
        findings.append(Finding("runtime-differs", "warning", text, run.source.name))
    if profile.max_ticks > UNSTEADY * profile.min_ticks:
        text = (
            f"inference times vary from {in_text(info.min_ms, 4)} to {in_text(info.max_ms, 4)} ms, perhaps because of "
            "interrupts or another task; the mean is used"
        )
        findings.append(Finding("runs-differ", "warning", text, run.source.name))
    if not _comparable(run):
        if profile.varies:
            text = "its inferences ran different operators: only the total is used"
        elif profile.dropped:
            text = (
                f"{profile.dropped} operators did not fit in the profile: build with "
                f"-D{model_macro(profile.model)}_PROFILE_EVENTS={len(profile.events) + profile.dropped}"
            )
        else:
            text = "the operators that ran are not those of the model: only the total is used"
        findings.append(Finding("operators-not-compared", "note", text, run.source.name))
    return tuple(findings)


def _operators(run: DeviceRun, target: Target) -> tuple[MeasuredOperator, ...]:
    """Each operator of the main subgraph, measured and estimated by the target; none where the log has others.

    One that encloses others, as WHILE does, has no estimate of its own to compare with.
    """
    if not _comparable(run):
        return ()
    estimates = {item.index: item for item in estimate_model(run.source.model, target).operators if item.subgraph == 0}
    events = run.profile.events
    encloses = [following.depth > event.depth for event, following in pairwise(events)] + [False]
    main = [(event, inner) for event, inner in zip(events, encloses, strict=True) if event.depth == 0]
    operators = []
    for operator, (event, inner) in zip(run.source.model.main.operators, main, strict=True):
        measured = run_ms(run, event.mean_ticks, target)
        estimate = None if inner else estimates[operator.index]
        ms = None if estimate is None else estimate.ms.value
        ratio = None if not ms else measured / ms
        operators.append(MeasuredOperator(operator.index, operator.label, measured, ms, ratio))
    return tuple(operators)


def _comparable(run: DeviceRun) -> bool:
    """Whether the operators that ran are the main subgraph's, one for one."""
    ran = [event.name for event in run.profile.events if event.depth == 0]
    expected = [word(operator.label) for operator in run.source.model.main.operators]
    return not run.profile.varies and not run.profile.dropped and ran == expected
