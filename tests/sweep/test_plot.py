"""The plots: what they say, that they always say it the same way, and that no name breaks them."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import MissingExtraError, UsageError
from edgetool.gate.limits import parse_budget
from edgetool.report.document import Band
from edgetool.sweep.judge import judge
from edgetool.sweep.metrics import PRECISIONS, Row, Variant
from edgetool.sweep.plot import (
    COLOURS,
    LIMIT,
    MEMORY,
    TRACKED,
    ReferenceLine,
    boxes_around,
    place_along,
    place_near,
    plot,
    reference_lines,
    scale_of,
    wrapped,
)
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import SweepRecord
from tests.conftest import examples
from tests.sweep.made_rows import metrics

pytest.importorskip("matplotlib")

LIMITS = SweepLimits(
    budgets=(parse_budget("16KiB"), parse_budget("24KiB:ram"), parse_budget("40KiB:flash")),
    active_budget=parse_budget("64KiB:ram"),
    reserve_bytes=4096,
    reserve_flash_bytes=8192,
    max_latency_ms=30.0,
    min_accuracy=0.8,
)
BYTES = {"float32": 4, "float16": 4, "int16x8": 2, "int8": 1}


def record(*targets: str, limits: SweepLimits = LIMITS, name: str = "keyword spotting") -> SweepRecord:
    specs = tuple(TargetSpec(target, target) for target in targets)
    return SweepRecord(name, "model.h5", (), specs, limits, "grid", ("accuracy", "latency_ms"), {})


def made(
    *targets: str,
    limits: SweepLimits = LIMITS,
    levels: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75),
    precisions: tuple[str, ...] = ("float32", "int16x8", "int8"),
    **changes: Any,
) -> list[Row]:
    """All combinations; the more is removed and the fewer bytes, the smaller, the faster and the worse."""
    rows: list[Row] = []
    for number, target in enumerate(targets, 1):
        for level in levels:
            for precision in precisions:
                share, byte = 1 - level, BYTES[precision]
                ms = 2.0 * number * byte * share + 1
                found = metrics(
                    quality={"accuracy": 0.93 - 0.3 * level**3 + 0.01 * byte, "float_accuracy": 0.97},
                    **{
                        "arena_bytes": int(20_000 * byte * share),
                        "model_bytes": int(30_000 * byte * share),
                        "latency_ms": Band(ms, 0.8 * ms, 1.3 * ms),
                        "sram_bytes": 128 * 1024,
                        "errors": ("no kernel",) if precision == "float16" else (),
                        **changes,
                    },
                )
                of = Variant((), level, precision, target)
                rows.append(Row(len(rows) + 1, of, "done", metrics=found, judged=judge(found, limits)))
    return rows


def texts(svg: bytes) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def beats(one: Row, other: Row) -> bool:
    if one.metrics is None or other.metrics is None or one.variant.target != other.variant.target:
        return False
    faster = one.metrics.cost.latency_ms.value - other.metrics.cost.latency_ms.value
    better = other.metrics.quality.accuracy - one.metrics.quality.accuracy
    return max(faster, better) <= 0 and min(faster, better) < 0


def test_an_svg_shows_the_front_and_the_rejected_variants_with_reasons() -> None:
    rows = made("one", "other", precisions=("float32", "float16", "int8"))
    rows[0] = replace(rows[0], status="failed", reason="its process died", metrics=None, judged=None)
    rows[1] = replace(rows[1], status="pending", metrics=None, judged=None)
    said = texts(plot(record("one", "other"), rows, "latency_ms", "accuracy", format="svg"))
    for expected in (
        "keyword spotting", "one", "other", "Latency, ms", "Accuracy, %", "at most 30 ms", "at least 80 %",
        "1 failed; 1 not run yet", "float32", "float16", "int8", "0 %", "25 %", "50 %", "75 %",
        "accepted, on the front", "accepted", "rejected: does not run", "rejected: memory", "band of the estimate",
        "limit or active budget",
    ):  # fmt: skip
        assert any(expected in text for text in said), expected
    accepted = [row for row in rows if row.judged is not None and row.judged.accepted]
    best = {
        f"{100 * row.variant.level:g} %, {row.variant.precision}"
        for row in accepted
        if not any(beats(other, row) for other in accepted)
    }
    labelled = [text for text in said if ", " in text and text.split(", ")[1] in PRECISIONS]
    assert set(labelled) <= best
    assert len(labelled) >= 6
    assert "rejected: time or energy" not in said


@pytest.mark.slow
@pytest.mark.parametrize("format", ["svg", "png"])
def test_the_same_rows_give_the_same_bytes_whatever_the_settings_of_the_machine(format: str) -> None:
    import matplotlib

    rows = made("one")
    first = plot(record("one"), rows, "arena_bytes", "accuracy", format=format)
    assert first.startswith({"svg": b"<?xml", "png": b"\x89PNG\r\n\x1a\n"}[format])
    with matplotlib.rc_context({"font.size": 20, "axes.grid": False, "svg.hashsalt": None, "savefig.dpi": 30}):
        before = dict(matplotlib.rcParams)
        assert plot(record("one"), rows, "arena_bytes", "accuracy", format=format) == first
        assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_no_name_is_markup() -> None:
    names = ('$x_1$ & <b>"é漢\n%s', "]]>\x00\x1b[0m" + "a" * 300)
    rows, title = made(*names, levels=(0.0,)), "<$\\frac{$ &>"
    said = texts(plot(record(*names, name=title), rows, "latency_ms", "accuracy", format="svg"))
    assert {title, '$x_1$ & <b>"é漢 %s'} <= set(said)
    assert any(text.startswith("]]> [0m" + "a" * 20) and text.endswith("a…") and len(text) <= 40 for text in said)
    assert plot(record(*names, name=title), rows, "latency_ms", "accuracy", format="png")


@pytest.mark.slow
@pytest.mark.parametrize(("count", "name"), [(1, "b"), (1, "W" * 40), (2, "b"), (3, "W" * 40), (4, "b")])
def test_every_text_is_inside_the_picture_and_no_panel_is_too_small(
    count: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    kept: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *given, **how: kept.append(self))
    names = [f"{number}{name}" for number in range(count)]
    budgets = tuple(parse_budget(f"{size}MiB") for size in range(100, 103))
    levels = tuple(number / 20 for number in range(11))
    precisions = ("float32", "float16", "int16x8", "int8")
    for limits in (replace(LIMITS, budgets=budgets), SweepLimits()):
        rows = made(*names, limits=limits, levels=levels, precisions=precisions)
        rows[0] = replace(rows[0], status="failed", reason="it died", metrics=None, judged=None)
        plot(record(*names, limits=limits, name=name), rows, "arena_bytes", "latency_ms", format="png")
    widths = []
    for figure in kept:
        figure.draw_without_rendering()
        renderer = figure.canvas.get_renderer()
        written = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
        for axes in figure.axes:
            written += [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title]
        boxes = {text.get_text(): text.get_window_extent(renderer) for text in written if text.get_text()}
        boxes |= {f"axes {place}": axes.get_tightbbox(renderer) for place, axes in enumerate(figure.axes)}
        assert len(boxes) > 10
        for said, box in boxes.items():
            assert min(box.x0, box.y0) >= 0, said
            assert box.x1 <= figure.bbox.x1, said
            assert box.y1 <= figure.bbox.y1, said
        widths.append([axes.get_position().width * figure.get_figwidth() for axes in figure.axes])
    long, short = (np.array(found) for found in widths)
    assert len(long) == count
    assert long == pytest.approx(short)  # long notes, many entries of the legend: the panels keep their width
    assert np.all(long > 3.5)
    head = [text.get_text() for axes in kept[0].axes for text in axes.texts if "outside the plot" in text.get_text()]
    assert len(head) == count
    assert "\n" in head[0]


def test_texts_are_wrapped_at_spaces_and_cut_if_there_is_no_room() -> None:
    def lines(text: str, width: int, most: int) -> list[str]:
        return wrapped(text, width, len, max_lines=most)

    assert lines("one two three", 7, 2) == ["one two", "three"]
    assert lines("one two three", 13, 1) == ["one two three"]
    assert lines("one two, three four", 9, 1) == ["one two…"]
    assert lines("one two three four", 8, 2) == ["one two", "three f…"]
    assert lines("abcdefgh ij", 4, 2) == ["abc…", "ij"]
    assert lines("", 4, 2) == []


def test_every_precision_has_a_colour_of_its_own() -> None:
    assert COLOURS.keys() == PRECISIONS.keys()
    assert len(set(COLOURS.values())) == len(COLOURS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "x", "y", "expected"),
    [
        (made("one")[4:5], "latency_ms", "accuracy", "accepted, on the front"),
        (made("one", errors=("no kernel",)), "latency_ms", "accuracy", "none is accepted"),
        (made("one", macs=5), "macs", "model_parameters", "MACs"),  # all are equal
        (made("one", macs=0, parameters=0), "macs", "model_parameters", "Parameters"),
    ],
    ids=["one point", "none accepted", "all equal", "all zero"],
)
def test_little_to_show_is_shown(rows: list[Row], x: str, y: str, expected: str) -> None:
    said = texts(plot(record("one"), rows, x, y, format="svg"))
    assert any(expected in text for text in said)


def test_equal_outputs_lie_above_all_others_and_unknown_figures_are_counted() -> None:
    rows = [
        replace(
            row, metrics=replace(row.metrics, quality=replace(row.metrics.quality, sqnr_db=value, equal=value is None))
        )
        for row, value in zip(made("one"), [None, 10.0, 30.0] * 4, strict=True)
        if row.metrics is not None
    ]
    scale = scale_of("sqnr_db", [rows])
    assert scale.to_unit(math.inf) == 33.0
    assert scale.label == "SQNR, dB"
    rows[1] = replace(rows[1], metrics=replace(rows[1].metrics, cost=replace(rows[1].metrics.cost, energy_uj=None)))
    said = texts(plot(record("one"), rows, "energy_uj", "sqnr_db", format="svg"))
    assert "infinite: outputs are equal" in said
    assert "1 missing one or both values" in said
    assert "tracked budget" not in said


def test_without_labels_the_axis_says_agreement() -> None:
    rows = [
        replace(row, metrics=replace(row.metrics, quality=replace(row.metrics.quality, accuracy=None)))
        for row in made("one")
    ]
    assert scale_of("accuracy", [rows]).label == "Agreement with the original float model, %"


def test_a_wide_range_is_logarithmic_and_a_unit_suits_most() -> None:
    def scale(*values: float) -> Any:
        return scale_of("latency_ms", [[made("one", latency_ms=Band(value, value, value))[0] for value in values]])

    assert [scale(1, 29).is_log, scale(1, 31).is_log, scale(0, 31).is_log] == [False, True, False]
    assert [scale(0.001, 0.01, 5).label, scale(2, 5000, 3).label, scale(2000).label] == [
        "Latency, µs", "Latency, ms", "Latency, s",
    ]  # fmt: skip
    assert scale(2, 4).limits((2, 4), (5, 60)) == pytest.approx((1.76, 5.24))
    assert scale(2, 4).limits((0.1, 4), ()) == pytest.approx((0.0, 4.312))


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (
            "arena_bytes",
            [
                ReferenceLine(16_384, "budget 16KiB", TRACKED),
                ReferenceLine(20_480, "budget 24KiB:ram less 4 KiB", TRACKED),
                ReferenceLine(61_440, "active budget 64KiB:ram less 4 KiB", LIMIT),
                ReferenceLine(126_976, "sram 128 KiB less 4 KiB", MEMORY),
            ],
        ),
        (
            "model_bytes",
            [
                ReferenceLine(32_768, "budget 40KiB:flash less 8 KiB", TRACKED),
                ReferenceLine(253_952, "flash 256 KiB less 8 KiB", MEMORY),
            ],
        ),
        ("latency_ms", [ReferenceLine(30.0, "at most 30 ms", LIMIT)]),
        ("energy_uj", []),
        (
            "accuracy",
            [ReferenceLine(0.8, "at least 80 %", LIMIT), ReferenceLine(0.95, "at most 2 points below 97 %", LIMIT)],
        ),
        ("macs", []),
    ],
)
def test_lines_are_at_the_limits_of_the_judgement(axis: str, expected: list[ReferenceLine]) -> None:
    found = reference_lines(axis, replace(LIMITS, max_accuracy_loss=2.0), made("one"))
    assert [(line.label, line.kind) for line in found] == [
        (line.label.replace(":ram", "").replace(":flash", ""), line.kind) for line in expected
    ]
    assert [line.value for line in found] == pytest.approx([line.value for line in expected])


def test_of_lines_that_coincide_the_one_that_rejects_is_shown() -> None:
    limits = SweepLimits(budgets=(parse_budget("128KiB"),), active_budget=parse_budget("128KiB"))
    assert [line.kind for line in reference_lines("arena_bytes", limits, made("one"))] == [LIMIT]
    # A reserve that leaves nothing: no line, nothing fits.
    assert reference_lines("arena_bytes", SweepLimits(reserve_bytes=128 * 1024), made("one")) == ()


def scattered(count: int, spread: float) -> list[Row]:
    """Variants of one target near a line from bottom left to top right, with latencies up to 10**spread ms."""
    random = np.random.default_rng(count)
    limits, rows = SweepLimits(), []
    for number in range(count):
        ms = 10 ** random.uniform(0, spread)
        found = metrics(
            quality={"accuracy": 0.7 + 0.2 * math.log10(ms) / spread + random.normal(0, 0.01), "float_accuracy": 0.99},
            latency_ms=Band(ms, 0.9 * ms, 1.15 * ms),
            sram_bytes=None,
        )
        of = Variant((), random.choice([0, 0.1, 0.25, 0.4, 0.5, 0.75]).item(), list(BYTES)[random.integers(4)], "one")
        rows.append(Row(number + 1, of, "done", metrics=found, judged=judge(found, limits)))
    return rows


@pytest.mark.parametrize("spread", [0.7, 2.2], ids=["linear", "logarithmic"])
@pytest.mark.parametrize(
    "count", [pytest.param(5, marks=pytest.mark.slow), 10, pytest.param(20, marks=pytest.mark.slow), 40]
)
def test_in_a_picture_no_label_covers_a_point_a_line_or_a_label(
    count: int, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.cbook import STEP_LOOKUP_MAP
    from matplotlib.figure import Figure

    kept: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *given, **how: kept.append(self))
    rows = scattered(count, spread)
    limits = SweepLimits(max_latency_ms=10**spread / 2, min_accuracy=0.75)
    plot(record("one", limits=limits), rows, "latency_ms", "accuracy", format="png")
    (axes,) = kept[0].axes
    assert axes.get_xscale() == ("linear" if spread < 1 else "log")
    labels = [text.get_window_extent() for text in axes.texts if "%, " in text.get_text()]
    on_front = [row for row in rows if not any(beats(other, row) for other in rows)]
    assert len(labels) >= 0.7 * len(on_front)  # only those without room are left out
    points = [axes.transData.transform(offset) for drawn in axes.collections for offset in drawn.get_offsets()]
    strokes = []
    for line in axes.lines:
        xs, ys = STEP_LOOKUP_MAP[line.get_drawstyle()](*line.get_data())
        strokes += list(pairwise(line.get_transform().transform(np.column_stack((xs, ys)))))
    assert len(strokes) > count
    radius = 3.0
    for place, label in enumerate(labels):
        assert axes.bbox.x0 <= label.x0 < label.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= label.y0 < label.y1 <= axes.bbox.y1
        assert not any(label.overlaps(other) for other in labels[:place])
        assert not any(label.padded(radius).contains(*point) for point in points)
        for ends in strokes:  # all are horizontal or vertical
            (low_x, low_y), (high_x, high_y) = np.min(ends, axis=0), np.max(ends, axis=0)
            assert low_x >= label.x1 or high_x <= label.x0 or low_y >= label.y1 or high_y <= label.y0


numbers = st.floats(0, 200, allow_subnormal=False)


@examples(200)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), st.tuples(numbers, numbers), st.booleans())
def test_a_label_covers_nothing(points: list[tuple[float, float]], size: tuple[float, float], upright: bool) -> None:
    inside = (0.0, 0.0, 200.0, 200.0)
    obstacles = boxes_around(points, 3.0)

    def is_free(box: tuple[float, float, float, float]) -> bool:
        covers = [o[0] < box[2] and o[2] > box[0] and o[1] < box[3] and o[3] > box[1] for o in obstacles.tolist()]
        return min(box) >= 0 and max(box) <= 200 and not any(covers)

    found = place_near(points[0], size, 4.0, (-1, 1), inside, obstacles)
    assert found is None or is_free(found)
    assert place_near(points[0], (201.0, 1.0), 4.0, (-1, 1), inside, obstacles) is None
    start = (100.0, 0.0) if upright else (200.0, 100.0)
    first = place_along(start, (10.0, 20.0), inside, np.empty((0, 4)), upright=upright)
    assert first == ((102.0, 2.0, 112.0, 22.0) if upright else (188.0, 102.0, 198.0, 122.0))
    along = place_along(start, (10.0, 20.0), inside, obstacles, upright=upright)
    assert along == first or is_free(along)


@pytest.mark.parametrize(
    ("x", "y", "format", "message"),
    [
        ("latency_ms", "latency_ms", "svg", "both axes are latency_ms"),
        ("speed", "accuracy", "svg", "no axis 'speed'"),
        ("latency_ms", "accuracy", "gif", "unknown plot format 'gif': use svg or png"),
        ("energy_uj", "accuracy", "svg", "no variant has both energy_uj and accuracy"),
    ],
)
def test_what_cannot_be_plotted_is_refused(x: str, y: str, format: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plot(record("one"), made("one", energy_uj=None), x, y, format=format)


@pytest.mark.slow
def test_more_targets_than_panels_are_refused_and_twelve_are_not() -> None:
    names = [f"board {number}" for number in range(13)]
    rows = made(*names, levels=(0.0,), precisions=("int8",))
    with pytest.raises(UsageError, match="13 targets are too many"):
        plot(record(*names), rows, "latency_ms", "accuracy", format="svg")
    said = texts(plot(record(*names), rows[:12], "latency_ms", "accuracy", format="svg"))
    assert set(names[:12]) <= set(said)
    assert names[12] not in said


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'edgetool\[sweep\]'"):
        plot(record("one"), made("one"), "latency_ms", "accuracy", format="svg")
