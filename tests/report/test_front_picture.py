"""Pictures of fronts: every point is where its figures are, whatever they and the names are."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from edgetool.report.document import Band, FrontPoint, RegionInfo
from edgetool.report.front_picture import HEIGHT, LEFT, TOP, WIDTH, front_svg


def point(arena_bytes: int, percent: float, ms: float | None = None) -> FrontPoint:
    latency = None if ms is None else Band(ms, ms, ms)
    return FrontPoint(arena_bytes, "stripes", (RegionInfo(0, 1, 2),), 8, percent, 5, 4000, latency)


def parsed(svg: str, tag: str) -> list[ElementTree.Element]:
    return [item for item in ElementTree.fromstring(svg).iter() if item.tag.endswith("}" + tag)]


@given(st.lists(st.tuples(st.integers(1, 2**31), st.floats(0, 400)), min_size=1, max_size=9), st.text(max_size=9))
def test_smaller_arenas_are_to_the_left_and_dearer_ones_above(figures: list[tuple[int, float]], name: str) -> None:
    circles = parsed(front_svg([point(*item) for item in figures], title=name), "circle")
    places = [(float(item.attrib["cx"]), -float(item.attrib["cy"])) for item in circles]
    assert all(LEFT <= x <= LEFT + WIDTH and TOP <= -y <= TOP + HEIGHT for x, y in places)
    for axis in range(2):
        order = sorted(range(len(figures)), key=lambda place: figures[place][axis])
        assert [places[i][axis] for i in order] == sorted(place[axis] for place in places)


def test_times_are_drawn_if_all_are_known() -> None:
    timed = front_svg([point(200, 0, 5.0), point(100, 8, 5.5)], title="x")
    assert "ms per inference" in timed
    assert ">5.5<" in timed
    untimed = front_svg([point(200, 0, 5.0), point(100, 8)], title="x")
    assert "extra multiply-accumulates, %" in untimed
    assert ">8<" in untimed


def test_the_memory_of_the_target_is_a_line_between_the_points() -> None:
    points = [point(200, 0), point(100, 8)]
    (line,) = [item for item in parsed(front_svg(points, title="x", limit=150), "path") if item.get("class") == "limit"]
    left, right = sorted(float(item.attrib["cx"]) for item in parsed(front_svg(points, title="x"), "circle"))
    assert left < float(line.attrib["d"][1:].partition(" ")[0]) < right
    assert 'class="limit"' not in front_svg(points, title="x", limit=4_000)


def test_large_arenas_that_hardly_differ_have_few_ticks() -> None:
    svg = front_svg([point(2**40 + 16, 0), point(2**40, 8)], title="x")
    assert 4 < len([item for item in parsed(svg, "path") if item.get("class") == "grid"]) < 20


def test_labels_do_not_cover_each_other() -> None:
    near = [point(1000 - i, i / 1000) for i in range(50)]
    heights = sorted(
        float(item.attrib["y"]) for item in parsed(front_svg(near, title="x"), "text") if "dy" in item.attrib
    )
    assert 1 < len(heights) < 50
    assert all(other - one >= 15 for one, other in pairwise(heights))
