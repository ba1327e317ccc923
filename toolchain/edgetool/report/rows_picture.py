"""Rows of a plan over time: how many of each tensor are in memory, and a picture of where they are."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate, pairwise

from edgetool.memory.streaming.planner import segments_of
from edgetool.memory.streaming.problem import RowPlan, RowProblem, steps_of
from edgetool.memory.streaming.schedule import row_lives

PARTS = 120  # of a schedule in reports

WIDTH, HEIGHT = 900, 420  # of the area of the rows, in pixels
LEFT, TOP, RIGHT, BOTTOM = 80, 44, 20, 64  # of its margins
SEGMENT_HEIGHT = 14
TICKS = 5  # at least, on the axis of bytes
COLOURS = (  # of tensors, light and dark
    ("#4e79a7", "#7ba7d7"),
    ("#f28e2b", "#ffb366"),
    ("#59a14f", "#86c97d"),
    ("#e15759", "#f58a8b"),
    ("#b07aa1", "#d3a4c6"),
    ("#76b7b2", "#a0d8d3"),
    ("#edc948", "#f4dc80"),
    ("#9c755f", "#c29f8b"),
)

PAGE = ("#ffffff", "#222222", "#cccccc"), ("#16181d", "#e6e6e6", "#444850")  # page, ink and grid, light and dark

# (first step, step behind the last one, offset, end)
Box = tuple[int, int, int, int]


def rows_live(problem: RowProblem, plan: RowPlan) -> list[list[int]]:
    """Return how many rows of each tensor are in memory at each step."""
    count = len(plan.schedule)
    first, last = row_lives(problem, plan.schedule)
    result = []
    for index in range(len(problem.tensors)):
        change = [0] * (count + 1)
        for row in problem.rows_of(index):
            if first[row] <= last[row] and last[row] >= 0:
                change[max(0, first[row])] += 1
                change[min(last[row] + 1, count)] -= 1
        result.append(list(accumulate(change[:count])))
    return result


def in_parts(values: Sequence[int], parts: int = PARTS) -> tuple[int, ...]:
    """Return the largest value in each of at most `parts` parts of about the same length."""
    count = min(parts, len(values))
    bounds = [len(values) * i // count for i in range(count + 1)] if count else []
    return tuple(max(values[start:end]) for start, end in pairwise(bounds))


def rows_svg(problem: RowProblem, plan: RowPlan, cuts: Sequence[int], *, title: str) -> str:
    """Return a picture as SVG: time to the right, addresses upwards, and a rectangle for each row.

    Rows of a tensor have the same colour, and scratch is hatched. Colours follow the reader's preference for light or
    dark. Neighbours that live equally long are one rectangle.

    Args:
        problem: The rows.
        plan: Where they are, and when.
        cuts: The first operator of each segment.
        title: The heading.
    """
    steps, memory = max(1, len(plan.schedule)), max(1, plan.memory_bytes)
    x, y = WIDTH / steps, HEIGHT / memory
    right, bottom = LEFT + WIDTH, TOP + HEIGHT
    bound = f"; no schedule takes less than {plan.lower_bound:,} B" if plan.lower_bound else ""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + RIGHT} {bottom + BOTTOM}" '
        f'font-family="sans-serif" font-size="13">',
        f"<style>{_style()}</style>",
        '<defs><pattern id="scratch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M0 0V6"/></pattern></defs>',
        '<rect class="page" width="100%" height="100%"/>',
        f'<text x="{LEFT}" y="26" font-weight="bold">{text_of(title)}: {plan.memory_bytes:,} B{bound}</text>',
    ]
    for value in ticks(memory):
        height = f"{bottom - value * y:.1f}"
        lines.append(f'<path class="grid" d="M{LEFT} {height}H{right}"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{height}" dy="4" text-anchor="end">{value:,}</text>')
    # Steps and bytes are the units of paths, so that all coordinates are whole numbers.
    lines.append(f'<g transform="translate({LEFT} {bottom}) scale({x:.6g} {-y:.6g})">')
    for index, boxes in enumerate(row_boxes(problem, plan)):
        tensor = problem.tensors[index]
        if boxes:
            name = f"{tensor.name}: {tensor.rows} row{'s' * (tensor.rows != 1)} of {tensor.row_bytes:,} B"
            lines.append(f'<path class="row c{index % len(COLOURS)}" d="{_path(boxes)}">{title_of(name)}</path>')
    lines.append("</g>")
    lines += _scratch(problem, plan, x, y, bottom)
    lines += _segments(problem, plan, cuts, x, bottom + 8)
    lines.append(f'<text x="{right}" y="{bottom + 48}" text-anchor="end">{steps:,} steps</text>')
    lines.append(f'<text x="{LEFT}" y="{bottom + 48}">segments of operators; offsets in bytes upwards</text>')
    lines.append("</svg>\n")
    return "\n".join(lines)


def row_boxes(problem: RowProblem, plan: RowPlan) -> list[list[Box]]:
    """Return when and where the rows of each tensor are in memory; neighbours that live equally long are one box."""
    count = len(plan.schedule)
    first, last = row_lives(problem, plan.schedule)
    result = []
    for index, tensor in enumerate(problem.tensors):
        boxes: list[Box] = []
        for row in sorted(problem.rows_of(index), key=lambda row: (first[row], last[row], plan.offsets[row])):
            if first[row] > last[row] or last[row] < 0 or not tensor.row_bytes:
                continue
            start, end, offset = max(0, first[row]), min(last[row] + 1, count), plan.offsets[row]
            if boxes and boxes[-1][:2] == (start, end) and boxes[-1][3] == offset:
                boxes[-1] = (start, end, boxes[-1][2], offset + tensor.row_bytes)
            else:
                boxes.append((start, end, offset, offset + tensor.row_bytes))
        result.append(boxes)
    return result


def scratch_runs(problem: RowProblem, plan: RowPlan) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return the first steps and ends of the runs of steps at which an operator's scratch is at an offset."""
    runs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    fired = [0] * len(problem.operators)
    for step, (number, firing) in enumerate(steps_of(problem, plan.schedule)):
        if firing.scratch_bytes:
            found = runs.setdefault((number, plan.scratch[number][fired[number]]), [])
            start = found.pop()[0] if found and found[-1][1] == step else step
            found.append((start, step + 1))
        fired[number] += 1
    return dict(sorted(runs.items()))


def _scratch(problem: RowProblem, plan: RowPlan, x: float, y: float, bottom: int) -> list[str]:
    """Return the scratch of each operator: a path in pixels, because a scale would distort the pattern."""
    lines = []
    for (number, offset), found in scratch_runs(problem, plan).items():
        size = problem.operators[number].scratch_bytes
        top, height = bottom - (offset + size) * y, size * y
        path = "".join(
            f"M{LEFT + start * x:.1f} {top:.1f}h{(end - start) * x:.1f}v{height:.1f}h{-(end - start) * x:.1f}z"
            for start, end in found
        )
        name = f"{problem.operators[number].name}: {size:,} B of scratch"
        lines.append(f'<path class="scratch" d="{path}">{title_of(name)}</path>')
    return lines


def _segments(problem: RowProblem, plan: RowPlan, cuts: Sequence[int], x: float, top: int) -> list[str]:
    segment = segments_of(cuts, len(problem.operators))
    spans: dict[int, tuple[int, int]] = {}
    for step, number in enumerate(plan.schedule):
        spans[segment[number]] = (spans.get(segment[number], (step, 0))[0], step + 1)
    lines = []
    for number, (start, end) in sorted(spans.items()):
        count = segment.count(number)
        name = f"{count} operators, row by row" if count > 1 else "1 operator"
        lines.append(
            f'<rect class="segment{number % 2}" x="{LEFT + start * x:.1f}" y="{top}" width="{(end - start) * x:.1f}" '
            f'height="{SEGMENT_HEIGHT}">{title_of(f"segment of {name}")}</rect>'
        )
    return lines


def _path(boxes: Sequence[Box]) -> str:
    return "".join(f"M{start} {low}H{end}V{high}H{start}z" for start, end, low, high in boxes)


def ticks(most: int, least: int = 0) -> range:
    """Return round numbers of bytes from `least` to `most`, at least TICKS of them if that many bytes differ."""
    unit = 1
    while (most - least) // (unit * 2) >= TICKS:
        unit *= 2
    return range(-(-least // unit) * unit, most + 1, unit)


def _style() -> str:
    light, dark = _rules(0), _rules(1)
    fixed = ".row,.scratch{vector-effect:non-scaling-stroke;stroke-width:.4}.grid{stroke-width:.5}"
    return f"{fixed}.scratch{{fill:url(#scratch)}}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(theme: int) -> str:
    page, ink, grid = PAGE[theme]
    colours = "".join(f".c{number}{{fill:{pair[theme]}}}" for number, pair in enumerate(COLOURS))
    return (
        f"{page_rules(theme)}.row{{stroke:{page}}}.scratch,.hatch{{stroke:{ink}}}.segment0{{fill:{ink}}}"
        f".segment1{{fill:{grid}}}{colours}"
    )


def page_rules(theme: int) -> str:
    """Return the style of a page, of text, axes and grid. theme: 0 for light, 1 for dark."""
    page, ink, grid = PAGE[theme]
    return f".page{{fill:{page}}}text{{fill:{ink}}}.axis{{stroke:{ink};fill:none}}.grid{{stroke:{grid}}}"


def title_of(text: str) -> str:
    """Return a title, which browsers show beside the pointer."""
    return f"<title>{text_of(text)}</title>"


def text_of(text: str) -> str:
    """Return text for XML, which has no control characters."""
    return escape("".join(character if character.isprintable() else "?" for character in text), quote=False)
