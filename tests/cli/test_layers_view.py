"""The loss of each layer as it is printed: a table, and histograms of the worst."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest

from edgetool.cli.layers_view import LEVELS, bars, layer_lines
from edgetool.report.document import Histogram, LayerLoss

BINS = Histogram(-114.0, 135.25, (1, 3, 0, 5) * 7 + (10000, 0, 1, 2))
LAYER = LayerLoss("block/bad", "Conv2D", "DEPTHWISE_CONV_2D", 0.04, 0.16, 0.97, -113.6, 134.9, 8, 0, 455.0, BINS)


def test_nothing_is_shown_if_nothing_was_measured() -> None:
    assert layer_lines(()) == []


def test_the_table_and_the_histograms_of_the_worst() -> None:
    layers = [LAYER, *(replace(LAYER, name=f"layer_{i}", sqnr_db=30.0 + i, layer_class="") for i in range(4))]
    lines = [click.unstyle(line) for line in layer_lines(layers)]
    text = "\n".join(lines)
    assert "  SQNR dB  error in steps" in text
    first = next(line for line in lines if "block/bad" in line)
    assert first.split()[:2] == ["0.0", "0.16"]
    assert "-114 to 135" in first
    assert text.count("(256 steps):") == 3
    assert "  Values of block/bad (Conv2D) by quantization step (256 steps):" in lines
    assert all(len(line) <= 80 and line.isascii() for line in lines)


def test_bars_are_dark_for_frequent_values() -> None:
    (line,) = bars(BINS)
    shades = line[line.index("|") + 1 : line.rindex("|")]
    assert line.startswith("  -114 |")
    assert line.endswith("| 135.2")
    assert len(shades) == len(BINS.counts)
    for shade, count in zip(shades, BINS.counts, strict=True):
        assert (shade == LEVELS[0]) == (count == 0)
    assert shades[BINS.counts.index(10000)] == LEVELS[-1]
    assert bars(Histogram(0.0, 1.0, (0, 0))) == ["  0 |  | 1"]


def test_many_layers_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    layers = [replace(LAYER, name="a_name_that_is_much_too_long_for_any_terminal_" * 2)] * 20
    lines = [click.unstyle(line) for line in layer_lines(layers)]
    assert "  and 8 more layers in the JSON report" in lines
    assert max(map(len, lines)) <= 80


def test_a_layer_without_loss_or_name() -> None:
    lines = layer_lines([replace(LAYER, name="", sqnr_db=None)])
    assert any(" exact " in line and line.endswith("?") for line in lines)
    assert any("Values of DEPTHWISE_CONV_2D (Conv2D)" in line for line in lines)
