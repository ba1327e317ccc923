"""The published measurements: the page that shows them, the figures made of them, and what they must come to."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.latency.counts import Book
from benchmarks.latency.fit import core_cpi
from benchmarks.latency.kernels import kernel_rows
from benchmarks.latency.measured import MLPERF_FILES, family, own_rows, rows
from benchmarks.latency.memories import summaries, zoo_in_sdram
from benchmarks.latency.page import FACTORS, PAGE, PLOTS, tables_of, with_tables
from benchmarks.latency.plots import plot_name, points
from benchmarks.latency.report import Results, compare, markdown, other_boards, submitted, tables
from benchmarks.latency.runtimes import factors_csv, runtime_name
from benchmarks.latency.spread import quantile, spread
from benchmarks.latency.structures import STRUCTURES, built

from edgetool.estimate.latency import EXTERNAL_STALL_BAND, estimate_model
from edgetool.model.types import DType
from edgetool.operators.registry import operator_costs
from edgetool.target.load import load_target

# Multiply-accumulates as their authors give them; the MicroNets' in operations, to four digits, softmax and all.
MACS = {
    "person_detect": 7157888,
    "micronet-kws-l": 129e6 / 2,
    "micronet-kws-m": 30.6e6 / 2,
    "micronet-kws-s": 16.4e6 / 2,
    "micronet-ad-l": 129e6 / 2,
    "micronet-ad-m": 124.7e6 / 2,
    "micronet-ad-s": 37.5e6 / 2,
    "mobilenet_v3_small": 56e6,
    "edgemark-cnn-1": 25329,
    "edgemark-cnn-4": 744574,
    "edgemark-cnn-7": 11129598,
    "edgemark-fc-10": 199414,
}


pytestmark = pytest.mark.slow  # all boards and models are estimated first


@pytest.fixture(scope="module")
def results(shared: Path) -> Results:
    return compare(shared / "data")


def test_the_page_carries_the_tables(results: Results) -> None:
    assert tables_of(PAGE.read_text(encoding="utf-8")) == markdown(tables(results))


def test_the_factors_are_those_of_the_rows(results: Results) -> None:
    assert FACTORS.read_text(encoding="utf-8") == factors_csv(results.shares)


def test_every_plot_is_there(results: Results) -> None:
    drawn = {path.stem for path in PLOTS.glob("*.svg")}
    assert drawn == {plot_name(runtime, core) for runtime, core in points(results)}
    assert all(path.stat().st_size < 60_000 for path in PLOTS.glob("*.svg"))


def test_every_core_has_the_cycles_per_instruction_of_its_rows(shared: Path) -> None:
    found = core_cpi(kernel_rows(rows(shared / "data")), Book(shared / "data"))
    assert found.keys() == {"cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55", "cortex-m7", "cortex-m85"}
    for core, known in found.items():
        timing = load_target(core).timing
        assert timing is not None
        assert timing.cpi == pytest.approx(quantile(list(known.values()), 0.5), rel=0.03)


def test_every_row_counts_somewhere_or_says_why_not(shared: Path, results: Results) -> None:
    found = rows(shared / "data")
    kernels = {(row.board, row.model) for row in kernel_rows(found)}
    others = {share.row for share in results.shares}
    silent = [
        row for row in found if row.role != "shown" and row not in others and (row.board, row.model) not in kernels
    ]
    assert silent == []
    assert all(bool(row.reason) is (row.role == "shown") for row in found)
    assert sum(n for _, n in results.uncounted) == sum(row.role == "shown" for row in found)


def test_a_board_calibrated_on_one_model_predicts_its_others(results: Results) -> None:
    found = spread([item.error for test in submitted(results) for item in test.predictions])
    macs = spread([item.macs_error for test in submitted(results) for item in test.predictions])
    assert found.n >= 10
    assert found.median <= 0.05
    assert found.p90 <= 0.15
    assert macs.median >= 2 * found.median


def test_another_board_of_a_core_is_predicted_without_a_measurement(results: Results) -> None:
    others = other_boards(results)
    found = spread([item.error for test in others for item in test.predictions])
    macs = spread([item.macs_error for test in others for item in test.predictions])
    assert found.n >= 5
    assert found.median <= 0.10
    assert found.largest <= 0.30
    assert macs.median >= 2 * found.median


def test_float32_takes_longer_on_a_core_whose_unit_does(results: Results) -> None:
    floats = [test for test in results.shipped if test.title.endswith("float32")]
    assert [test.core for test in floats] == ["cortex-m4"]
    assert floats[0].estimate.n >= 13
    assert floats[0].estimate.median <= 0.15
    assert load_target("cortex-m4").core.float_factor > 1 == load_target("cortex-m7").core.float_factor


def test_single_operators_are_predicted(results: Results) -> None:
    for test in results.operators:
        if test.core == "cortex-m0plus":
            assert test.estimate.n >= 26
            assert test.estimate.median <= 0.08
            assert test.macs.median >= 2 * test.estimate.median


def test_one_factor_predicts_families_that_it_was_not_made_of(results: Results) -> None:
    every, small = results.zoo
    assert every.estimate.median <= 0.11
    assert small.estimate.median <= 0.08
    assert every.macs.median >= 2 * every.estimate.median
    assert small.macs.median >= 2 * small.estimate.median


def test_energy_follows_from_power_and_time(results: Results) -> None:
    by_title = {item.title: item.errors for item in results.energy}
    assert by_title["power of the same setup on its other models x measured time"].median <= 0.05
    assert by_title["power of the same setup x estimated time"].median <= 0.12


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_is_a_model_of_each_type(name: str) -> None:
    for dtype in (DType.INT8, DType.FLOAT32):
        costs = operator_costs(built(name, dtype))
        macs = sum(cost.macs for cost in costs)
        assert macs == pytest.approx(MACS.get(name, macs), rel=0.03)
        assert all(cost.known for cost in costs)


def test_every_row_of_ours_has_a_model_a_board_and_a_source() -> None:
    found = list(own_rows())
    assert len(found) > 150
    for row in found:
        assert row.model in STRUCTURES or (row.model, row.dtype) in MLPERF_FILES
        assert load_target(row.board).board is not None
        assert row.ms > 0
        assert row.mhz > 0
        assert row.source
        assert (row.role == "shown") is bool(row.reason)
        assert row.operator is None or 0 <= row.operator < len(STRUCTURES[row.model].split()) + 20


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("X-CUBE-AI v8.1.0", "X-CUBE-AI 8.1"),
        ("X-CUBE-AI 7.3.0 (balanced)", "X-CUBE-AI 7.3"),
        ("X-CUBE-AI (version not stated in repo text; 7.1-era)", ""),
        ("Bosch Hardware-Aware Lowering Engine (HALE) version 1.0.175", "HALE 1.0.175"),
        ("Plumerai Inference Engine 2023.05", "Plumerai 2023.05"),
        ("Plumerai Inference Engine", "Plumerai 2022"),
        ("microTVM + CMSIS-NN", ""),
    ],
)
def test_a_runtime_is_known_by_its_version(words: str, name: str) -> None:
    assert runtime_name(words) == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("zoo/st_ssd_mobilenet_v1_025_192_int8.tflite", "ssd mobilenet_v1"),
        ("zoo/ssd_mobilenet_v2_fpnlite_035_416_int8.tflite", "ssd mobilenet_v2"),
        ("zoo/miniresnetv2_1stacks_64x50_int8.tflite", "miniresnet"),
        ("zoo/resnet_v1_8_32_int8.tflite", "resnet"),
        ("zoo/st_mnist_v1_28_tfs_int8.tflite", "mnist"),
    ],
)
def test_the_family_of_a_file_is_its_architecture(file: str, name: str) -> None:
    assert family(file) == name


def test_the_spread_of_errors() -> None:
    assert quantile([1, 2, 3, 4, 5], 0.9) == pytest.approx(4.6)
    assert quantile([7], 0.9) == 7
    found = spread([-0.3, 0.1, 0.2])
    assert (found.n, found.median, found.largest) == (3, 0.2, 0.3)
    assert spread([]).n == 0


def test_tables_replace_those_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    changed = with_tables(page, "nothing\n")
    assert tables_of(changed) == "nothing\n"
    assert with_tables(changed, tables_of(page)) == page
    with pytest.raises(ValueError, match="the page has no"):
        tables_of("a page without marks")


def test_nine_of_ten_models_of_each_type_lie_in_their_band(shared: Path) -> None:
    book, held = Book(shared / "data"), dict[str, list[bool]]()
    for row in kernel_rows(rows(shared / "data")):
        if row.operator is None:
            target = load_target(row.board).with_overrides(clock_hz=round(row.mhz * 1e6))
            latency = estimate_model(book.model(row.model, row.dtype), target).latency_ms
            assert latency is not None
            held.setdefault(row.dtype, []).append(latency.low <= row.ms <= latency.high)
    assert held.keys() == {"int8", "int16", "float32"}
    for dtype, inside in held.items():
        assert len(inside) >= 10
        assert sum(inside) >= 0.9 * len(inside), dtype


def test_small_networks_lie_within_the_band_that_cold_code_widens() -> None:
    """The int8 networks below half a millisecond, which the tables leave out."""
    small = [row for row in own_rows() if row.model.startswith("edgemark-fc") and row.dtype == "int8" and row.ms < 0.5]
    assert len(small) >= 5
    for row in small:
        latency = estimate_model(built(row.model), load_target(row.board)).latency_ms
        assert latency is not None
        assert latency.low <= row.ms <= latency.high, row.model


def test_external_memories_are_within_the_bands(results: Results) -> None:
    *groups, whole = summaries(results.memories)
    assert whole.n == len(results.memories) > 90
    assert whole.inside >= 0.9 * whole.n
    assert whole.half_width <= 0.3
    assert whole.error <= 0.25
    by_name = {group.group: group for group in groups}
    sdram = by_name["STM32H747, SDRAM, X-CUBE-AI"]
    assert (sdram.n, sdram.inside) == (8, 8)
    assert sdram.error <= 0.15
    assert sdram.half_width <= 0.3


def test_the_range_of_waits_for_external_memories_is_that_of_the_rows(shared: Path, results: Results) -> None:
    waits = [item.wait_factor for item in zoo_in_sdram(results.shares, Book(shared / "data"))]
    least, most = EXTERNAL_STALL_BAND
    assert least <= min(waits) < 1.1 * least
    assert most / 1.1 < max(waits) <= most
