from __future__ import annotations

import pytest

from edgetool.gate.judge import judge_fit
from edgetool.target.load import load_target


def test_a_bare_core_is_not_judged() -> None:
    fit, findings = judge_fit(load_target("cortex-m7"), model_bytes=10, arena_bytes=100, arena_lower_bound_bytes=50)
    assert (fit.region, fit.sram_bytes, fit.flash_bytes, fit.arena_fits, fit.model_fits) == (None,) * 5
    assert findings == ()


@pytest.mark.parametrize(
    ("arena", "bound", "fits"),
    [(1024, 0, True), (1025, 0, False), (None, 1024, None), (None, 1025, False)],
)
def test_an_arena_known_only_from_below_never_fits_for_sure(arena: int | None, bound: int, fits: bool | None) -> None:
    target = load_target("cortex-m7").with_overrides(sram_bytes=1024, flash_bytes=2048)
    fit, findings = judge_fit(target, model_bytes=2048, arena_bytes=arena, arena_lower_bound_bytes=bound)
    assert (fit.arena_fits, fit.model_fits) == (fits, True)
    assert [finding.rule for finding in findings] == (["arena-too-large"] if fits is False else [])


def test_a_model_beyond_the_flash_is_an_error() -> None:
    target = load_target("cortex-m7").with_overrides(flash_bytes=2048)
    fit, findings = judge_fit(target, model_bytes=2049, arena_bytes=None, arena_lower_bound_bytes=0)
    assert fit.model_fits is False
    assert [(finding.rule, finding.level) for finding in findings] == [("model-too-large", "error")]
    assert "2,049" in findings[0].message
