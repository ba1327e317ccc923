"""Which two files `verify` runs, whose plan is in the planned one, and the arena that it should take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgetool.errors import InvalidModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.account import ArenaAccount, account_model
from edgetool.memory.planner import Planner, plan_memory
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME, decode_plan, unjudged_offsets
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.planned import planned_source
from edgetool.pipeline.source import Source, open_tflite
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.platform import Platform, make_platform, platform_of
from edgetool.target.types import Target

# What the tflite-micro wheel is built for: TFLM's reference kernels on this processor's ABI.
HOST_ABI = "x86-64"


@dataclass(frozen=True, slots=True)
class Files:
    """The input file, the two that are run, and the account of the planned one on the machine that runs it.

    findings: why the plan is unsafe, where it is run all the same.
    """

    source: Source
    original: Source
    planned: Source
    planner: Planner
    account: ArenaAccount
    findings: tuple[Finding, ...]


def host_platform(target: Target | None) -> Platform:
    """The build that the wheel is: reference kernels for x86-64, of the target's runtime version."""
    runtime = load_runtime(DEFAULT_RUNTIME) if target is None else target.runtime
    return make_platform(runtime, HOST_ABI, "reference")


def choose_files(path: Path, target: Target | None, *, original: Path | None, run_unsafe_plan: bool) -> Files:
    """The files for a model, as verify_model describes. A file named as original leaves the model as it is.

    Raises InvalidModelError for an unsafe plan unless run_unsafe_plan, UsageError when `original` has other inputs
    or outputs.
    """
    source = open_tflite(path)
    planned = source
    if original is not None:
        first = open_tflite(original)
        _check_same_interface(first, source)
    elif decode_plan(source.model) is not None:
        bare = without_metadata(source.model, METADATA_NAME)
        first = Source(source.name, write_model(bare), bare)
    else:
        first = source
        plan = plan_memory(source.model, host_platform(None) if target is None else platform_of(target))
        planned = planned_source(source, plan, target)
    account, findings = _account(planned.model, host_platform(target), run_unsafe_plan=run_unsafe_plan)
    return Files(source, first, planned, _planner(source, planned), account, findings)


def _planner(source: Source, planned: Source) -> Planner:
    if decode_plan(planned.model) is None:
        return "runtime"
    return "file" if planned is source else "edgetool"


def _account(model: Model, host: Platform, *, run_unsafe_plan: bool) -> tuple[ArenaAccount, tuple[Finding, ...]]:
    """The account of a file as it is; its plan has passed the checker, or is followed as TFLM would."""
    try:
        account = plan_memory(model, host, wanted="as in file").account
        assert account is not None
        return account, ()
    except InvalidModelError as error:
        if not run_unsafe_plan:
            raise InvalidModelError(
                error.what,
                where=error.where,
                fix="create a new one with 'edgetool plan --replan -o', or run it anyway with --run-unsafe-plan",
                details=error.details,
            ) from error
        finding = Finding("unsafe-plan", "warning", f"{error.what}; it was run as requested", error.where)
    return account_model(model, host, offsets=unjudged_offsets(model)), (finding,)


def _check_same_interface(original: Source, source: Source) -> None:
    for what in ("inputs", "outputs"):
        kinds = [
            [(tensors[i].shape, tensors[i].dtype.name) for i in getattr(item.model.main, what)]
            for item in (original, source)
            for tensors in (item.model.main.tensors,)
        ]
        if kinds[0] != kinds[1]:
            told = (", ".join(f"{dtype} {list(shape)}" for shape, dtype in kind) or "none" for kind in kinds)
            raise UsageError(
                "the {} are {} here but {} in the model".format(what, *told),
                where=original.name,
                fix="use --original only with another version of the same model",
            )
