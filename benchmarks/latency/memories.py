"""Rows whose arena is in SDRAM or PSRAM, or whose constants are in serial flash, predicted without these rows.

Whatever the profiles derive from such a row is derived again without the rows of the board that is predicted, or, if
no other board has any, of the build. Bands are those that edgetool prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.latency.counts import Book
from benchmarks.latency.measured import Row
from benchmarks.latency.runtimes import LARGE_ARENA_KIB, Share
from benchmarks.latency.spread import quantile

from edgetool.estimate.latency import estimate_model
from edgetool.estimate.memory_speed import Traffic, speeds_of
from edgetool.figure import Figure
from edgetool.model.types import Model
from edgetool.operators.registry import operator_costs
from edgetool.target.load import load_target
from edgetool.target.types import EspNNLibrary, MemoryRegion, Target

PICO, PICO2 = "rpi-pico", "rpi-pico2"
ZOO = "stm32h747i-disco"
F767 = "nucleo-f767zi"
# Boards whose reference kernels were timed with the same model: the cycles per instruction of one predict the other.
PAIRS = {"esp32": "esp32-s3", "esp32-s3": "esp32", "esp32-c3": "esp32-p4", "esp32-p4": "esp32-c3"}
PERSON = "person_detect"
LARGE = "MobileNetV3-Small 224 int8 1000cls"
MODELS = {LARGE: "mobilenet_v3_small"}
NOT_IN_TFLM = ("hard_swish size: 12544",)  # Espressif's TFLM does not call this kernel
INTERNAL_S3_MS = 47.0  # the run with internal RAM, which the README names beside that with PSRAM
# The module that ESP-NN's README describes: PSRAM with four data lines at 80 MHz. A cache line of 32 bytes takes 64
# clocks to transfer, 14 for command and address and 6 of latency, at three cycles of the core each (240 MHz).
S3_PSRAM = MemoryRegion(
    "psram",
    "external-ram",
    2**21,
    cache_bytes=64 * 1024,
    stall_cycles_per_byte=84 * 3 / 32,
    write_stall_cycles_per_byte=2 * 84 * 3 / 32,
)


@dataclass(frozen=True, slots=True)
class Held:
    """A row and its estimate without it, in milliseconds. group: rows that are predicted from the same data."""

    group: str
    row: Row
    time: Figure

    @property
    def error(self) -> float:
        """Estimated over measured, less 1."""
        return self.time.value / self.row.ms - 1

    @property
    def inside(self) -> bool:
        """Whether the measurement is within the band."""
        return self.time.low <= self.row.ms <= self.time.high

    @property
    def half_width(self) -> float:
        """Half the width of the band, relative to the estimate."""
        return (self.time.high - self.time.low) / 2 / self.time.value


def held_out(rows: Sequence[Row], found: Sequence[Share], book: Book) -> list[Held]:
    """Every row in such a memory for which edgetool has an estimate."""
    return [
        *_pico(rows, book),
        *_pico2(rows, book),
        *_zoo(found, book),
        *_sdram(rows, book),
        *_reference(rows, book),
        *_esp_nn(rows, book),
        *_large(rows, book),
        *_kernels(rows, book),
    ]


def _pico(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """The operators of the RP2040: cycles per instruction and wait are fitted to the other build of TFLM."""
    builds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.board == PICO and row.operator is not None and row.role != "shown" and book.counts(row).macs:
            builds[row.runtime].append(row)
    target = load_target(PICO)
    timing, cold_cycles = target.timing, speeds_of(target).cold_cycles
    assert timing is not None
    for runtime, own in builds.items():
        cpi, stall = _fitted([row for other, group in builds.items() if other != runtime for row in group], book)
        for row in own:
            ms, cold_ms = (cycles / row.mhz / 1e3 for cycles in (book.counts(row).cycles(cpi, stall), cold_cycles))
            time = Figure(ms, ms * timing.operator_low, ms * timing.operator_high + cold_ms, "ms", "")
            yield Held("RP2040, operators with flash in place", row, time)


def _fitted(rows: Sequence[Row], book: Book) -> tuple[float, float]:
    """The cycles per instruction and per byte with the smallest sum of squared relative errors."""
    aa = ab = bb = a1 = b1 = 0.0
    for row in rows:
        counts, cycles = book.counts(row), row.cycles
        a, b, one = counts.instructions / cycles, counts.streamed / cycles, 1 - counts.rest / cycles
        aa, ab, bb, a1, b1 = aa + a * a, ab + a * b, bb + b * b, a1 + a * one, b1 + b * one
    determinant = aa * bb - ab * ab
    return (a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant


def _pico2(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """The RP2350: the wait of the RP2040's flash, the cycles per instruction of the nRF5340."""
    for row in rows:
        if row.board == PICO2:
            yield Held("RP2350, flash in place", row, _time(book.model(row.model, "int8"), PICO2))


@dataclass(frozen=True, slots=True)
class _InSdram:
    """A model of ST's zoo in SDRAM: the cycles estimated for TFLM in on-chip RAM, and those of waiting for SDRAM.

    factors: of the same runtime on other families in on-chip RAM.
    """

    row: Row
    inside: float
    waits: float
    factors: tuple[float, ...]

    @property
    def wait_factor(self) -> float:
        """The wait that the measurement implies, relative to that by the SDRAM's timing."""
        return (self.row.cycles - median(self.factors) * self.inside) / self.waits


def zoo_in_sdram(found: Sequence[Share], book: Book) -> list[_InSdram]:
    """The models of ST's zoo whose arena exceeds the on-chip RAM.

    How often X-CUBE-AI's kernels read their inputs is not public: once is assumed.
    """
    speeds = speeds_of(load_target(ZOO).with_overrides(arena_region="sdram"))
    items = []
    for item in found:
        if item.row.board != ZOO or item.row.arena_kib <= LARGE_ARENA_KIB:
            continue
        factors = tuple(
            other.factor
            for other in found
            if (other.runtime, other.core) == (item.runtime, item.core)
            and other.row.family not in ("", item.row.family)
            and other.row.arena_kib <= LARGE_ARENA_KIB
        )
        costs = operator_costs(book.model(item.row.model, "int8"))
        moved = (Traffic(c.parameter_bytes, c.activation_bytes - c.output_bytes, c.output_bytes) for c in costs)
        waits = sum(speeds.stall(traffic).arena for traffic in moved)
        items.append(_InSdram(item.row, item.row.cycles / item.factor, waits, factors))
    return items


def _zoo(found: Sequence[Share], book: Book) -> Iterator[Held]:
    """Models of ST's zoo in SDRAM; the range of the wait is that of the other families in SDRAM."""
    items = zoo_in_sdram(found, book)
    for item in items:
        ranges = [1.0, *(other.wait_factor for other in items if other.row.family != item.row.family)]
        low, value, high = quantile(item.factors, 0.05), median(item.factors), quantile(item.factors, 0.95)
        cycles = (
            value * item.inside + item.waits,
            low * item.inside + min(ranges) * item.waits,
            high * item.inside + max(ranges) * item.waits,
        )
        yield Held("STM32H747, SDRAM, X-CUBE-AI", item.row, Figure(*(c / item.row.mhz / 1e3 for c in cycles), "ms", ""))


def _sdram(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """The STM32F767 with an arena in SDRAM: as on the board with SDRAM and the same core and clock."""
    for row in rows:
        if row.board == F767 and "SDRAM" in row.reason:
            target = load_target("stm32f769i-disco").with_overrides(arena_region="sdram")
            yield Held("STM32F767, SDRAM", row, _time(book.model(row.model, "int8"), target))


def _reference(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """Espressif's chips with the reference kernels: the cycles per instruction of another chip."""
    for row in _on_espressif(rows, PERSON, "reference"):
        target, other = load_target(row.board), load_target(PAIRS[row.board])
        assert other.timing is not None
        cpi = other.timing.cpi
        held = replace(target, timings=tuple(replace(timing, cpi=cpi) for timing in target.timings))
        yield Held("Espressif, serial flash, reference kernels", row, _time(book.model(PERSON, "int8"), held))


def _esp_nn(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """Espressif's chips with ESP-NN: the factor of another chip."""
    reference = {row.board: row.ms for row in _on_espressif(rows, PERSON, "reference")}
    found = list(_on_espressif(rows, PERSON, "ESP-NN"))
    for row in found:
        other = median(each.ms / reference[each.board] for each in found if each.board == PAIRS[row.board])
        target = _with_esp_nn(load_target(row.board), other)
        if row.board == "esp32-s3" and row.ms != INTERNAL_S3_MS:
            target = _in_psram(target)
        yield Held("Espressif, serial flash, ESP-NN", row, _time(book.model(PERSON, "int8"), target))


def _large(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """MobileNetV3 in PSRAM: the profile, which is calibrated on person_detect."""
    for kernels in ("reference", "ESP-NN"):
        for row in _on_espressif(rows, LARGE, kernels):
            target = load_target(row.board)
            placed = _in_psram(target if kernels == "reference" else _with_esp_nn(target))
            model = book.model(MODELS[LARGE], "int8")
            yield Held("Espressif, PSRAM, MobileNetV3", row, _time(model, placed))


def _kernels(rows: Sequence[Row], book: Book) -> Iterator[Held]:
    """ESP-NN's kernels in PSRAM, one by one: the profile and the factor of whole models."""
    for row in rows:
        if row.runtime != "ESP-NN optimized" or row.note != "memory External" or row.model in NOT_IN_TFLM:
            continue
        target = _in_psram(_with_esp_nn(load_target(row.board)))
        time = estimate_model(book.model(row.model, "int8"), target).operators[0].ms
        yield Held("Espressif, PSRAM, single kernels of ESP-NN", row, time)


def _on_espressif(rows: Iterable[Row], model: str, kernels: str) -> Iterator[Row]:
    for row in rows:
        if row.board in PAIRS and row.model == model and row.runtime.startswith("TFLM"):
            is_esp_nn = "+ ESP-NN" in row.runtime
            if is_esp_nn == (kernels == "ESP-NN"):
                yield row


def _with_esp_nn(target: Target, factor: float | None = None) -> Target:
    """The target with the kernels of ESP-NN; factor replaces that of the table."""
    runtime = replace(target.runtime, esp_nn=EspNNLibrary((1, 2, 1), "", ""))
    factors = tuple(
        item if factor is None else replace(item, factor=factor, low=factor, high=factor)
        for item in target.factors
        if item.runtime == "ESP-NN"
    )
    return replace(target, runtime=runtime, kernels="esp-nn", factors=factors)


def _in_psram(target: Target) -> Target:
    """The target with its arena in PSRAM; the module of the ESP32-S3's profile has none."""
    if all(region.kind != "external-ram" for region in target.regions):
        target = replace(target, regions=(*target.regions, S3_PSRAM))
    return target.with_overrides(arena_region="psram")


def _time(model: Model, target: Target | str) -> Figure:
    latency = estimate_model(model, load_target(target) if isinstance(target, str) else target).latency_ms
    assert latency is not None
    return latency


# What each group is predicted from, instead of its own rows.
PREDICTED_FROM = {
    "RP2040, operators with flash in place": "cycles per instruction and wait of the other build of TFLM",
    "RP2350, flash in place": "the wait of the RP2040, cycles per instruction of the nRF5340",
    "STM32H747, SDRAM, X-CUBE-AI": "factor of other families in on-chip RAM; wait by the SDRAM's timing",
    "STM32F767, SDRAM": "cycles per instruction of the STM32H743; wait by the SDRAM's timing",
    "Espressif, serial flash, reference kernels": "cycles per instruction of another chip",
    "Espressif, serial flash, ESP-NN": "factor of another chip",
    "Espressif, PSRAM, MobileNetV3": "person_detect on the same chip; wait by the PSRAM's timing",
    "Espressif, PSRAM, single kernels of ESP-NN": "person_detect on these chips",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """What the rows of a group come to: how many, the share inside their bands, and medians."""

    group: str
    n: int
    inside: int
    error: float
    half_width: float


def summaries(found: Sequence[Held]) -> list[Summary]:
    """One per group, and all rows."""
    groups: dict[str, list[Held]] = defaultdict(list)
    for item in found:
        groups[item.group].append(item)
    return [*(_summary(group, items) for group, items in groups.items()), _summary("all", found)]


def _summary(group: str, found: Sequence[Held]) -> Summary:
    def middle(value: Callable[[Held], float]) -> float:
        return median(value(item) for item in found)

    return Summary(
        group,
        len(found),
        sum(item.inside for item in found),
        middle(lambda item: abs(item.error)),
        middle(lambda item: item.half_width),
    )
