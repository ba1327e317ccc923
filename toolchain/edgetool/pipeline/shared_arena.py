"""Several models in one arena: its account, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetool.errors import UnsupportedModelError
from edgetool.finding import Finding
from edgetool.gate.judge import judge_fit
from edgetool.memory.planner import MemoryPlan
from edgetool.memory.shared_account import SharedAccount, Tenant, account_shared
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.reporting import finding_infos
from edgetool.pipeline.source import Source
from edgetool.report.document import SharedArenaInfo, SharedModelInfo
from edgetool.target.platform import platform_of
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class SharedModel:
    """One of the models: its C name, its file and the plan in that file."""

    name: str
    source: Source
    plan: MemoryPlan


@dataclass(frozen=True, slots=True)
class SharedArena:
    """The arena: its account, None without a target, and what the document says of it.

    known_head_bytes: what the heads are known to take without a target.
    """

    account: SharedAccount | None
    known_head_bytes: int
    info: SharedArenaInfo


def shared_arena(
    name: str, models: Sequence[SharedModel], target: Target | None, custom: Mapping[str, OperatorEntry]
) -> SharedArena:
    """The arena of these models, initialised in this order, each with the plan in its file.

    name: the arena's C name; custom: operators that the user describes, by custom code. Raises UnsupportedModelError
    where a plan puts what a model must remember to where the others write.
    """
    for model in models:
        _refuse_state_in_head(model)
    account = None
    if target is not None:
        tenants = [Tenant(model.source.model, model.plan.offsets) for model in models]
        account = account_shared(tenants, platform_of(target), custom=custom)
    height = max(model.plan.layout.height for model in models)
    return SharedArena(account, height, _info(name, models, target, account, height))


def _refuse_state_in_head(model: SharedModel) -> None:
    graphs = model.source.model.subgraphs
    for subgraph, index in model.plan.offsets or ():
        tensor = graphs[subgraph].tensors[index]
        if tensor.is_variable:
            raise UnsupportedModelError(
                f"the memory plan in the file places the variable tensor {index} ({tensor.name!r}) in the memory that "
                "the models share: the other models would overwrite its state",
                where=model.source.name,
                fix="replan the model with 'edgetool plan --replan'",
            )


def _info(
    name: str, models: Sequence[SharedModel], target: Target | None, account: SharedAccount | None, height: int
) -> SharedArenaInfo:
    names = tuple(model.name for model in models)
    exact = account is not None and not account.is_lower_bound
    separate = [model.plan.account.bytes for model in models if model.plan.account is not None]
    fits, findings = _judged(models, target, account, height)
    if account is None:
        parts = [SharedModelInfo(each, None, None) for each in names]
    else:
        parts = [
            SharedModelInfo(each, part.head_bytes, part.tail_bytes)
            for each, part in zip(names, account.parts, strict=True)
        ]
    return SharedArenaInfo(
        name=name,
        bytes=account.bytes if account is not None else None,
        used_bytes=account.used_bytes if account is not None else None,
        head_bytes=account.head_bytes if account is not None else None,
        tail_bytes=account.tail_bytes if account is not None else None,
        is_lower_bound=not exact,
        fits=fits,
        separate_bytes=sum(separate) if len(separate) == len(models) else None,
        order=names,
        best_order=tuple(names[position] for position in account.best_order) if account is not None and exact else None,
        best_order_bytes=account.best_bytes if account is not None and exact else None,
        models=tuple(parts),
        findings=finding_infos(tuple(findings)),
    )


def _judged(
    models: Sequence[SharedModel], target: Target | None, account: SharedAccount | None, height: int
) -> tuple[bool | None, list[Finding]]:
    """Whether the arena fits the region, and the findings: memory, a lower bound, a better order."""
    if target is None or account is None:
        text = (
            f"the exact size of the shared arena depends on the core and its kernels: without a target, only a lower "
            f"bound of {height:,} bytes is known; specify one with --target"
        )
        return None, [Finding("shared-arena-lower-bound", "note", text)]
    model_bytes = sum(len(model.source.blob) for model in models)
    fit, _ = judge_fit(
        target,
        model_bytes=model_bytes,
        arena_bytes=None if account.is_lower_bound else account.bytes,
        arena_lower_bound_bytes=account.bytes,
    )
    findings = []
    if fit.arena_fits is False:
        least = "at least " if account.is_lower_bound else ""
        text = f"the shared arena needs {least}{account.bytes:,} bytes; {fit.region} has {fit.sram_bytes:,}"
        findings.append(Finding("shared-arena-too-large", "error", text, target.name))
    if fit.model_fits is False:
        text = f"the models take {model_bytes:,} bytes in total; the flash has {fit.flash_bytes:,}"
        findings.append(Finding("models-too-large", "error", text, target.name))
    if account.is_lower_bound:
        text = (
            f"some of the models' allocations are unknown: the shared arena of {account.bytes:,} bytes is a lower bound"
        )
        findings.append(Finding("shared-arena-lower-bound", "warning", text))
    elif account.best_bytes < account.bytes:
        order = ", ".join(models[position].name for position in account.best_order)
        text = (
            f"if initialised in the order {order}, the models need an arena of {account.best_bytes:,} bytes instead of "
            f"{account.bytes:,}: specify them in that order"
        )
        findings.append(Finding("shared-arena-order", "note", text))
    return fit.arena_fits, findings
