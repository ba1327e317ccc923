"""A sample of benchmarks/layout_soundness.py: what is proven is the best, as CP-SAT judges it."""

from __future__ import annotations

import pytest

pytest.importorskip("ortools", reason="needs the extra 'cp-sat'")

from benchmarks.layout_soundness import KINDS, KNOTS, best_height, blocks_of, judge, max_live

from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime

COUNT = 160


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_proofs_hold(kind: str) -> None:
    verdicts = [judge(index, seed=2) for index in range(COUNT) if KINDS[index % len(KINDS)] == kind]
    assert [verdict for verdict in verdicts if verdict.wrong] == []
    # Problems of these kinds are there to have no layout as low as max-live.
    if kind in ("knots", "alignments", "all"):
        assert any(verdict.best > verdict.live for verdict in verdicts)


def test_hard_instances_are_above_max_live() -> None:
    for knot in KNOTS:
        problem = LayoutProblem(
            tuple(
                Buffer(0, i, "", size, Lifetime(first, last), alignment=1, granule=1)
                for i, (first, last, size) in enumerate(knot)
            )
        )
        best = best_height(problem)
        assert best is not None
        assert best > max_live(blocks_of(problem))
