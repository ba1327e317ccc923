"""Judge a planned model whose head, tail and model data are in memories that the user chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgetool.finding import Finding
from edgetool.memory.account import account_separate
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.planning import planned_for
from edgetool.pipeline.source import Source
from edgetool.report.document import PlacedInfo
from edgetool.target.places import Part, Places
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

# The findings on a single arena, and on a model in the board's usual flash.
REPLACED_RULES = frozenset({"arena-too-large", "model-too-large"})


def in_places(
    source: Source,
    analysis: Analysis,
    target: Target,
    places: Places,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> tuple[Analysis, tuple[PlacedInfo, ...]]:
    """Return the analysis with the fit and the findings for these places, and the bytes of each part.

    A memory that holds several parts must have room for their sum.
    """
    planned = planned_for(source, target, plan=analysis.plan, custom=custom)
    separate = account_separate(
        planned.source.model, platform_of(target), offsets=planned.analysis.plan.offsets, custom=custom
    )
    assert analysis.fit is not None
    sizes: dict[Part, int] = {
        "head": separate.head_arena_bytes,
        "tail": separate.tail_arena_bytes,
        "model": analysis.fit.model_bytes + analysis.fit.exact_code_bytes,
    }
    by_part, exact = places.by_part, not separate.account.is_lower_bound
    used: dict[str, int] = {}
    for part, region in by_part.items():
        used[region.name] = used.get(region.name, 0) + sizes[part]
    findings = [finding for finding in analysis.findings if finding.rule not in REPLACED_RULES]
    fits: dict[str, bool | None] = {}
    for region in dict.fromkeys(by_part.values()):
        too_many = used[region.name] - region.size_bytes
        has_arena = region in (places.head, places.tail)
        fits[region.name] = False if too_many > 0 else None if has_arena and not exact else True
        if too_many > 0:
            parts = [f"{part} {sizes[part]:,}" for part, other in by_part.items() if other == region]
            text = (
                f"{region.name} has {region.size_bytes:,} bytes, {too_many:,} fewer than are placed there "
                f"({' + '.join(parts)}{'' if exact or not has_arena else ', at least'})"
            )
            findings.append(Finding("memory-too-small", text, where=target.name))
    arenas = [fits[places.head.name], fits[places.tail.name]]
    fit = replace(
        analysis.fit,
        region=places.head.name,
        sram_bytes=places.head.size_bytes,
        flash_bytes=None if places.model is None else places.model.size_bytes,
        arena_fits=False if False in arenas else None if None in arenas else True,
        model_fits=None if places.model is None else fits[places.model.name] is not False,
    )
    placed = tuple(
        PlacedInfo(part, region.name, sizes[part], region.size_bytes, fits[region.name])
        for part, region in by_part.items()
    )
    return replace(analysis, fit=fit, findings=tuple(findings)), placed
