"""Networks that stream over time compute what TFLM computes of the whole window, from what a hop changes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from edgetool.codegen.native.incremental import MAX_EXTRA, incremental_program
from edgetool.codegen.native.lower import Stream, lower
from edgetool.errors import UnsupportedModelError
from edgetool.execute.cores import BARE
from edgetool.model.types import Model
from edgetool.passes.time_axis import time_as_rows
from tests.codegen.c_compilers import compile_in
from tests.codegen.native.host import ROOT, Trial, differences, with_stream
from tests.codegen.native.models import delays
from tests.codegen.native.row_plans import stream_texts
from tests.codegen.native.stream_models import Layers, random_stream, spotter, tcn
from tests.memory.account_net import Net

KERAS = "tests.codegen.native.keras_streams"
WINDOWS, MANY = 80, 120  # more than two windows without a common row


def stream_of(model: Model, hop: int) -> Stream:
    program = incremental_program(lower(time_as_rows(model), row_wise=True), hop)
    assert program.stream is not None
    return program.stream


def flat(dims: tuple[int, ...]) -> Model:
    """Return a network whose input has frames of six values, in a shape without rows of them."""
    net = Net(seed=6)
    source = net.arena(*dims, zero_point=3)
    layers = Layers(net, 20, 6, 1)
    layers.x = net.op("RESHAPE", [source, net.constant([1, 20, 6, 1])], 1, 20, 6, 1, zero_point=3, scale=1 / 16)
    layers.source = source
    layers.conv(4, 3, 3)
    return _with(layers)


def test_each_step_computes_what_tflm_computes_of_the_whole_window() -> None:
    trials = {
        "spotter": with_stream(spotter(), 2, WINDOWS),
        "tcn": with_stream(tcn(dilations=(1, 3)), 1, 2 * WINDOWS, lean=True),
        "flat": with_stream(flat((1, 120)), 4, 40, lean=True),
    }
    assert differences(trials) == []


def test_a_step_computes_only_what_new_rows_touch() -> None:
    found = stream_of(spotter(), 2)
    # One row of each convolution; the dense layer as a whole.
    expected = 4 * 8 * 5 * 3 + 2 * (4 * 8 * 9 + 4 * 8 * 8) + 8 * 4
    assert (found.step_macs, found.touched_macs) == (expected, expected)
    assert (found.window_rows, found.window_hops) == (30, 15)
    # As many rows as the windows that overlap it need, without the first ones, of 13, 11, and 9 rows.
    assert sorted(ring.kept_bytes for ring in found.rings.values()) == [24, 2 * 32, 2 * 32, 8 * 32]
    found = stream_of(tcn(), 1)
    # One row of six convolutions and of that beside the first block; the last row of all.
    expected = 8 * 3 * 3 + 5 * 8 * 3 * 8 + 3 * 8 + 3 * 8
    assert found.step_macs == found.touched_macs == expected
    assert found.window_macs > 30 * expected
    assert sorted(ring.kept_bytes for ring in found.rings.values()) == [6, 16, 32, 32, 64, 64]


@pytest.mark.parametrize("dims", [(1, 120), (1, 20, 6), (20, 6), (1, 1, 20, 6)])
def test_a_row_is_what_the_first_layer_reads_whatever_the_shape_of_the_input(dims: tuple[int, ...]) -> None:
    found = stream_of(flat(dims), 2)
    assert (found.window_rows, found.row_bytes, found.window_hops) == (20, 6, 10)


def test_a_larger_hop_computes_more_rows() -> None:
    one, three = stream_of(spotter(), 2), stream_of(spotter(), 6)
    dense = 8 * 4
    assert three.step_macs - dense == 3 * (one.step_macs - dense)
    assert three.window_hops == 5


def _with(layers: Layers) -> Model:
    layers.mean()
    layers.dense(2)
    return layers.model()


def padded() -> Model:
    return spotter(padding="SAME")


def whole() -> Model:
    layers = Layers(Net(), 20, 1, 4)
    layers.dense(2)
    return layers.model()


def resized() -> Model:
    layers = Layers(Net(), 20, 2, 4)
    layers.append(
        "RESIZE_BILINEAR", [layers.net.constant([40, 4])], 1, 40, 4, 4, align_corners=False, half_pixel_centers=False
    )
    layers.conv(4, 3, 1)
    return _with(layers)


def with_constants() -> Model:
    layers = Layers(Net(), 20, 2, 4)
    layers.conv(4, 3, 1)
    layers.append("ADD", [layers.net.noise(*layers.shape, scale=1 / 9)], scale=1 / 5)
    layers.conv(4, 3, 1)
    return _with(layers)


def mixed() -> Model:
    layers = Layers(Net(), 20, 2, 4)
    x = layers.x
    layers.pool("MAX_POOL_2D", 2, 2)
    layers.append("ADD", [layers.crop(x, 0, layers.shape[1])], scale=1 / 5)
    layers.conv(4, 3, 1)
    return _with(layers)


def with_first_row() -> Model:
    """Return a network that adds the first row, which changes with every hop, to all rows."""
    layers = Layers(Net(), 20, 2, 4)
    layers.conv(4, 3, 1)
    layers.append("ADD", [layers.crop(layers.x, 0, 1)], scale=1 / 5)
    return _with(layers)


def resized_at_the_end() -> Model:
    """Return a network whose output needs only the last row of an image that was enlarged."""
    layers = Layers(Net(), 20, 2, 4)
    layers.conv(4, 3, 1)
    sizes = layers.net.constant([36, 3])
    layers.append(
        "RESIZE_BILINEAR", [sizes], 1, 36, 3, 4, align_corners=False, half_pixel_centers=True, **layers.scaling
    )
    layers.x = layers.crop(layers.x, 33, 2)
    layers.dense(3)
    return layers.model()


def excited() -> Model:
    """Return a network that multiplies all rows with a mean of them."""
    layers = Layers(Net(), 20, 2, 4)
    layers.conv(4, 3, 1)
    x = layers.x
    axes = layers.net.constant([1, 2])
    layers.append("MEAN", [axes], 1, 1, 1, 4, keep_dims=True, scale=1 / 16)
    layers.append("LOGISTIC", scale=1 / 256, zero_point=-128)
    layers.append("MUL", [x], *layers.net.tensors[x].shape, scale=1 / 8)
    layers.conv(4, 3, 1)
    return _with(layers)


def parts() -> Model:
    """Return a network whose output has some channels of the last row, from the end."""
    layers = Layers(Net(), 20, 2, 4)
    layers.conv(6, 3, 1)
    numbers = [layers.net.constant(values) for values in ([0, -1, 0, 1], [0, 0, 0, 5], [1, 1, 1, 2])]
    layers.append("STRIDED_SLICE", numbers, 1, 2, 2, begin_mask=5, end_mask=7, shrink_axis_mask=2, **layers.scaling)
    layers.append("REVERSE_V2", [layers.net.constant([1])], **layers.scaling)
    return layers.model()


@pytest.mark.slow
def test_rows_that_change_with_every_hop_are_computed_again() -> None:
    models = {"first row": with_first_row, "resized": resized_at_the_end, "excited": excited, "parts": parts}
    assert differences({name: with_stream(make(), 2, 50) for name, make in models.items()}) == []


def two_inputs() -> Model:
    net = Net()
    inputs = [net.arena(1, 20, 1, 4), net.arena(1, 20, 1, 4, scale=1 / 9)]
    net.end_graph(inputs, [net.op("ADD", inputs, scale=1 / 5)])
    return net.whole()


@pytest.mark.parametrize(
    ("model", "hop", "message"),
    [
        (padded, 2, r"operator 0: --incremental does not support CONV_2D here: it reads padding above the window"),
        (spotter, 3, r"operator 0: --incremental 3 is not a multiple of 2, and the rows of CONV_2D move by whole ones"),
        (spotter, 30, r"--incremental 30 is no hop within a window of 30 rows"),
        (
            whole,
            1,
            r"operator 1: .*FULLY_CONNECTED here: it needs the whole window at once, and no rows before it stay",
        ),
        (resized, 2, r"operator 0: .*RESIZE_BILINEAR here: it interpolates rows by their place in the window"),
        (with_constants, 1, r"operator 1: .*ADD here: it has a constant for each row"),
        (mixed, 2, r"operator 2: .*ADD here: it reads inputs that move by different numbers of rows"),
        (two_inputs, 1, r"models with one input, and this one has 2"),
        (delays, 1, r"models with one input"),
    ],
)
def test_networks_that_do_not_stream_are_refused_by_name(model: object, hop: int, message: str) -> None:
    assert callable(model)
    with pytest.raises(UnsupportedModelError, match=message):
        stream_of(model(), hop)


def test_a_causal_network_whose_outputs_need_padding_is_refused() -> None:
    layers = Layers(Net(), 20, 1, 4)
    layers.pad(2, 0)
    layers.conv(4, 3, 1)
    with pytest.raises(UnsupportedModelError, match=r"operator 1: .*CONV_2D here: it reads padding above the window"):
        stream_of(_with(layers), 1)


CALLS = """
#include "net.h"
#include <stdio.h>
#include <string.h>

static int8_t rows[200][NET_INPUT_0_ROW_ELEMENTS];

/* Feeds hops from a row on until the window is full, and copies the output. */
static int fill(net_context *context, uint32_t first, int8_t *output)
{
    for (uint32_t hop = 0; hop < NET_WINDOW_HOPS; hop++) {
        if (net_hops_missing(context) != NET_WINDOW_HOPS - hop || net_begin(context) != net_ok) {
            return 0;
        }
        for (uint32_t i = 0; i < NET_HOP_ROWS; i++) {
            if (net_feed_row_0(context, rows[first++]) != net_ok) {
                return 0;
            }
        }
    }
    memcpy(output, net_output_0(context), NET_OUTPUT_0_BYTES);
    return net_hops_missing(context) == 0;
}

static const void *fetch(void *user, uint32_t input, uint32_t row)
{
    (void)input;
    return row == 1 ? user : rows[0];
}

int main(void)
{
    static net_memory memory;
    net_context context = {NULL, 0, 0, {0}};
    int8_t first[NET_OUTPUT_0_BYTES], again[NET_OUTPUT_0_BYTES];
    memset(&memory, 0x5A, sizeof memory);
    for (uint32_t i = 0; i < sizeof rows; i++) {
        rows[0][i] = (int8_t)(i * i % 251);
    }
    printf("%d", NET_WINDOW_ROWS == 30 && NET_HOP_ROWS == 2 && NET_WINDOW_HOPS == 15 && NET_INPUT_0_ROWS == 2);
    printf("%d", net_reset(NULL) == net_error_null && net_reset(&context) == net_error_order);
    printf("%d", net_hops_missing(NULL) == NET_WINDOW_HOPS && net_hops_missing(&context) == NET_WINDOW_HOPS);
    printf("%d", net_begin(&context) == net_error_order && net_init(&context, &memory, sizeof memory) == net_ok);
    printf("%d", net_feed_row_0(&context, rows[0]) == net_error_order);
    printf("%d", fill(&context, 0, first));
    /* A hop has no more rows than it needs, and the next one begins when it is complete. */
    printf("%d", net_rows_left_0(&context) == 0 && net_feed_row_0(&context, rows[0]) == net_error_order);
    printf("%d", memcmp(first, net_output_0(&context), sizeof first) == 0);
    printf("%d", net_begin(&context) == net_ok && net_begin(&context) == net_ok + net_error_order);
    printf("%d", net_rows_left_0(&context) == 2 && net_feed_row_0(&context, rows[90]) == net_ok);
    printf("%d", net_begin(&context) == net_error_order && net_rows_left_0(&context) == 1);
    /* Without the row that is missing, what came before does not count. */
    printf("%d", net_reset(&context) == net_ok && net_next_input(&context) == NET_INPUT_COUNT);
    printf("%d", fill(&context, 100, again) && memcmp(first, again, sizeof first) != 0);
    printf("%d", net_reset(&context) == net_ok && fill(&context, 0, again) && memcmp(first, again, sizeof first) == 0);
    /* A hop that could not be fetched can be completed. */
    printf("%d", net_invoke_rows(&context, fetch, NULL) == net_error_null && net_rows_left_0(&context) == 1);
    printf("%d", net_invoke_rows(&context, fetch, rows[1]) == net_error_order);
    printf("%d", net_feed_row_0(&context, rows[1]) == net_ok && net_invoke_rows(&context, fetch, rows[1]) == net_ok);
    printf("%d", net_hops_missing(&context) == 0);
    return 0;
}
"""


def test_reset_and_calls_out_of_order(tmp_path: Path) -> None:
    files = {**stream_texts("net", spotter(), 2), "calls.c": CALLS}
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="ascii")
    sources = [file for file in files if file.endswith(".c") and file not in ("main.c", "run.c")]
    done = compile_in(tmp_path, "gcc", "c99", *sources, "-o", "program")
    assert (done.returncode, done.stderr) == (0, "")
    found = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert found == "1" * 18


def test_files_compile_without_warnings_as_cpp(tmp_path: Path) -> None:
    files = stream_texts("net", spotter(), 2)
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="ascii")
    sources = [file for file in ("net.c", "net_weights.c", "main.c", "run.c") if file in files]
    done = compile_in(tmp_path, "g++", "c++11", f"-I{BARE}", "-fsyntax-only", *sources)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_networks_compute_what_tflm_computes_of_the_whole_window(part: int) -> None:
    refused: Counter[str] = Counter()
    trials: dict[str, Trial] = {}
    for number in range(MANY // 4 * part, MANY // 4 * (part + 1)):
        model, hop = random_stream(Random(f"stream/{number}"))
        try:
            trials[f"stream {number}"] = with_stream(model, hop, 40, number, lean=number % 2 == 0, passes=4)
        except UnsupportedModelError as error:
            refused[error.what.partition(";")[0]] += 1
    streams = [trial.program.stream for trial in trials.values()]
    assert all(stream is not None and stream.step_macs <= MAX_EXTRA * stream.touched_macs for stream in streams)
    assert differences(trials) == []
    assert refused.total() < MANY // 8, refused


@pytest.mark.slow
def test_networks_of_keras_compute_what_tflm_computes_of_the_whole_window(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    command = [sys.executable, "-m", KERAS, tmp_path]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=300)
    hops = {"spotter": (2, 6), "tcn": (1, 3), "convolutions": (2, 4)}
    trials = {
        f"{name} by {hop}": with_stream((tmp_path / f"{name}.tflite").read_bytes(), hop, WINDOWS, lean=hop == 2)
        for name, both in hops.items()
        for hop in both
    }
    for trial in trials.values():
        stream = trial.program.stream
        assert stream is not None
        assert stream.step_macs <= MAX_EXTRA * stream.touched_macs < 0.5 * stream.window_macs
    assert differences(trials) == []
