from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edgetool.sweep.metrics import PRECISIONS, Variant
from edgetool.sweep.search import grid
from edgetool.sweep.spec import Builder, Pruning, SweepSpec, TargetSpec

TARGETS = tuple(TargetSpec(name, name) for name in ("cortex-m4", "cortex-m0plus"))


def test_the_target_changes_fastest_and_parameters_slowest() -> None:
    builder = Builder(Path("model.py"), "model", "build", (), (("width", (1, 2)), ("wide", (True, False))))
    spec = SweepSpec("s", None, builder, ("int8", "float32"), TARGETS, Pruning((0.0, 0.5)))
    variants = grid(spec)
    assert len(variants) == len(set(variants)) == 2 * 2 * 2 * 2 * 2
    assert variants[0] == Variant((("width", 1), ("wide", True)), 0.0, "int8", "cortex-m4")
    assert [variant.target for variant in variants[:2]] == ["cortex-m4", "cortex-m0plus"]
    assert [variant.precision for variant in variants[::2][:2]] == ["int8", "float32"]
    assert [variant.level for variant in variants[::4][:2]] == [0.0, 0.5]
    assert [dict(variant.parameters) for variant in variants[::8]] == [
        {"width": width, "wide": wide} for width in (1, 2) for wide in (True, False)
    ]


@given(
    st.lists(st.sampled_from(sorted(PRECISIONS)), min_size=1, unique=True),
    st.lists(st.floats(0, 0.99), min_size=1, unique=True),
    st.integers(1, 2),
)
def test_a_model_file_has_every_combination_once(precisions: list[str], levels: list[float], targets: int) -> None:
    spec = SweepSpec("s", Path("m.h5"), None, tuple(precisions), TARGETS[:targets], Pruning(tuple(sorted(levels))))
    variants = grid(spec)
    assert len(set(variants)) == len(variants) == len(precisions) * len(levels) * targets
    assert all(variant.parameters == () for variant in variants)
