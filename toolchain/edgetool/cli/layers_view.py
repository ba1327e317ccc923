"""What is printed about the loss of each layer: a table, and histograms of the worst."""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

from edgetool.cli.output import printable, table, width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetool.report.document import Histogram, LayerLoss

MAX_LAYERS = 12
DRAWN = 3  # layers whose histogram is drawn
EXACT_DB = 100.0  # beyond it, only the rounding of float32 differs
LEVELS = " .:-=+*#%@"
NAME_COLUMNS = 40
MIN_NAME_COLUMNS = 12


def layer_lines(layers: Sequence[LayerLoss]) -> list[str]:
    """Show the worst layers in a table, and histograms of the very worst; nothing if no layer was measured."""
    if not layers:
        return []
    shown = layers[:MAX_LAYERS]
    rows = [
        (_db(layer.sqnr_db), f"{layer.rmse_over_scale:.2f}", _range(layer), layer.operator, _name(layer, shown))
        for layer in shown
    ]
    header = ("SQNR dB", "error in steps", "range", "operator", "layer")
    lines = [
        "",
        *wrapped(
            "Loss per layer, worst first (30 to 45 dB is usual; an error of 0.3 steps is due to rounding alone):",
            "  ",
        ),
        *_indented(table(header, rows, ">>>" + "<<")),
    ]
    if len(layers) > len(shown):
        lines.append(f"  and {len(layers) - len(shown):,} more layers in the JSON report")
    for layer in shown[:DRAWN]:
        lines += [
            "",
            *wrapped(f"Values of {_called(layer)} by quantization step (256 steps):", "  "),
            *bars(layer.histogram),
        ]
    return lines


def bars(histogram: Histogram) -> list[str]:
    """Return the histogram as one line of shades, on a logarithmic scale, between the ends of its range."""
    most = max(histogram.counts, default=0)
    shades = "".join(_shade(count, most) for count in histogram.counts)
    low, high = (f"{value:.4g}" for value in (histogram.low, histogram.high))
    return [f"  {low} |{shades}| {high}"]


def _shade(count: int, most: int) -> str:
    """Return a shade: the darkest for the fullest bin, a visible one for any value above 0."""
    if count == 0:
        return LEVELS[0]
    top = len(LEVELS) - 1
    return LEVELS[max(1, ceil(top * log2(1 + count) / log2(1 + most)))]


def _name(layer: LayerLoss, shown: Sequence[LayerLoss]) -> str:
    others = (
        2
        + 7
        + 2
        + 14
        + 2
        + max(len(_range(item)) for item in shown)
        + 2
        + max(len(item.operator) for item in shown)
        + 2
    )
    columns = min(NAME_COLUMNS, max(MIN_NAME_COLUMNS, width() - others))
    return printable(layer.name or "?", columns)


def _called(layer: LayerLoss) -> str:
    kind = f" ({printable(layer.layer_class, 30)})" if layer.layer_class else ""
    return f"{printable(layer.name or layer.operator, 40)}{kind}"


def _range(layer: LayerLoss) -> str:
    return f"{layer.minimum:.3g} to {layer.maximum:.3g}"


def _db(value: float | None) -> str:
    return "exact" if value is None or value > EXACT_DB else f"{value:.1f}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
