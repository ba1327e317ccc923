"""Draw the memory map of a model as SVG, from the JSON document of `edgetool plan --json`.

    edgetool plan MODEL.tflite --target BOARD --json > plan.json
    python draw.py plan.json map.svg

Operators run from left to right and addresses grow upwards. Each rectangle is a tensor: its width shows when the tensor
is alive, its height how many bytes it takes. Needs only Python; the same document always gives the same picture.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 470
LEFT, RIGHT, TOP, BOTTOM = 92, 24, 64, 78
COLORS = ("#2f6db3", "#3f9b8f", "#7a62b0", "#c27a2c", "#5b8f3c", "#b0527a")
INK, FAINT, PAPER, TAIL, PEAK = "#1f2933", "#5f6b78", "#ffffff", "#d5dae1", "#c62828"
LABEL_HEIGHT, LABEL_WIDTH = 13, 58  # pixels that a label needs


def text(x: float, y: float, content: str, *, anchor: str = "start", size: int = 13, color: str = INK) -> str:
    """Return one line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def rectangle(x: float, y: float, width: float, height: float, color: str, title: str = "") -> str:
    """Return a filled rectangle; browsers show its title when the pointer is over it."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}" stroke="{PAPER}">'
        f"<title>{escape(title)}</title></rect>"
    )


def draw(document: dict[str, Any]) -> str:
    """Return the SVG of a document with the sections model, target, arena and plan."""
    arena, target = document["arena"], document["target"]
    tensors = [tensor for tensor in document["plan"]["tensors"] if tensor["subgraph"] == 0]
    steps = len(document["plan"]["order"])
    column = (WIDTH - LEFT - RIGHT) / steps
    scale = (HEIGHT - TOP - BOTTOM) / arena["bytes"]

    def x(step: int) -> float:
        return LEFT + step * column

    def y(offset: int) -> float:
        return HEIGHT - BOTTOM - offset * scale

    live = [
        sum(tensor["bytes"] for tensor in tensors if tensor["first_op"] <= step <= tensor["last_op"])
        for step in range(steps)
    ]
    peak = live.index(max(live))
    board = target["board"] or target["name"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img">',
        f"<title>Memory map of {escape(document['model']['name'])}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}" stroke="{FAINT}"/>',
        text(LEFT, 28, f"{document['model']['name']} on {board}: arena of {arena['bytes']:,} bytes", size=17),
        text(LEFT, 49, "Each rectangle is a tensor; tensors that are never alive together share bytes.", color=FAINT),
        rectangle(LEFT, y(arena["bytes"]), steps * column, arena["tail_bytes"] * scale, TAIL, "tail"),
        text(
            LEFT + steps * column / 2,
            y(arena["bytes"]) + arena["tail_bytes"] * scale / 2 + 5,
            f"tail: {arena['tail_bytes']:,} B of TFLM's own data and persistent buffers",
            anchor="middle",
        ),
    ]
    for number, tensor in enumerate(tensors):
        left, top = x(tensor["first_op"]), y(tensor["offset"] + tensor["bytes"])
        width, height = x(tensor["last_op"] + 1) - left, tensor["bytes"] * scale
        title = f"{tensor['name']}: {tensor['bytes']:,} B at {tensor['offset']:,}"
        parts.append(rectangle(left, top, width, height, COLORS[number % len(COLORS)], title))
        if height >= LABEL_HEIGHT and width >= LABEL_WIDTH:
            label = f"{tensor['bytes']:,} B"
            parts.append(text(left + width / 2, top + height / 2 + 5, label, anchor="middle", color=PAPER))
    for offset in sorted({0, arena["layout_bytes"], arena["bytes"]}):
        parts.append(text(LEFT - 8, y(offset) + 4, f"{offset:,}", anchor="end", size=12))
        parts.append(f'<path d="M{LEFT - 4} {y(offset):.1f}h{steps * column + 4:.1f}" stroke="{INK}" fill="none"/>')
    base = HEIGHT - BOTTOM
    parts.append(
        f'<rect x="{x(peak):.1f}" y="{y(arena["layout_bytes"]):.1f}" width="{column:.1f}" '
        f'height="{base - y(arena["layout_bytes"]):.1f}" fill="none" stroke="{PEAK}" stroke-width="3"/>'
    )
    for step, operator in enumerate(document["plan"]["order"]):
        color = PEAK if step == peak else INK
        parts.append(text(x(step) + column / 2, base + 18, str(operator), anchor="middle", size=12, color=color))
    parts.append(text(LEFT, base + 40, "operators in the order in which they run"))
    parts.append(text(LEFT, base + 60, f"peak: operator {document['plan']['order'][peak]}", color=PEAK))
    proof = "no layout is smaller" if arena["optimal"] else f"lower bound {arena['lower_bound_bytes']:,} B"
    head = f"head: {arena['layout_bytes']:,} B of tensors and scratch buffers; {proof}"
    parts.append(text(WIDTH - RIGHT, base + 40, head, anchor="end"))
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    source, output = (Path(argument) for argument in sys.argv[1:3])
    output.write_text(draw(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
