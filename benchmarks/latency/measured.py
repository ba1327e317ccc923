"""The published rows: what was measured, on which board and runtime, and whether it counts.

Two sources: the tables that lie beside this checkout (`data`, whose columns name the file of each figure), and
`rows.csv` here, with rows found since; each of its rows names its source and its role.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

OWN = Path(__file__).parent / "rows.csv"

Role = Literal["calibration", "test", "shown"]

# Models of MLPerf Tiny by the name of the benchmark, as files below data/models.
MLPERF_FILES = {
    ("ic", "int8"): "mlperf/pretrainedResnet_quant",
    ("ic", "float32"): "mlperf/pretrainedResnet",
    ("vww", "int8"): "mlperf/vww_96_int8",
    ("vww", "float32"): "mlperf/vww_96_float",
    ("kws", "int8"): "mlperf/kws_ref_model",
    ("ad", "int8"): "mlperf/ad01_int8",
    ("ad", "float32"): "mlperf/ad01_fp32",
    ("mcunet-vww1", "int8"): "tinyengine/tinyengine_vww",
}
# The board's profile by a word in the name that the submission gave it.
BOARDS = {
    "L4R5ZI-P": "nucleo-l4r5zi-p",
    "L4R5ZI": "nucleo-l4r5zi",
    "U575ZI": "nucleo-u575zi-q",
    "U585I": "b-u585i-iot02a",
    "H7A3ZI": "nucleo-h7a3zi-q",
    "F746NG": "disco-f746ng",
    "G0B1RE": "nucleo-g0b1re",
    "NRF5340": "nrf5340-dk",
    "RA8D1": "ek-ra8d1",
    "062-4343W": "cy8cproto-062-4343w",
    "M467HJ": "numaker-m467hj",
    "XG24": "xg24-dk2601b",
    "H747I": "stm32h747i-disco",
    "H743": "nucleo-h743zi2",
    "RASPBERRY PI PICO": "rpi-pico",
    "ESP32-S3": "esp32-s3",
    "ESP32-C3": "esp32-c3",
    "ESP32-P4": "esp32-p4",
    "ESP32": "esp32",
}
CORES = ("Cortex-M0+", "Cortex-M33", "Cortex-M4", "Cortex-M7", "Cortex-M85")

# Why a row is shown and not counted, by a word in its core, runtime or note; the first that applies.
UNCOUNTED = (
    ("+MVP", "inference runs on an accelerator"),
    ("+HSP", "inference runs on an accelerator"),
    ("NDP9120", "inference runs on an accelerator"),
    ("Syntiant", "inference runs on an accelerator"),
    ("GAP9", "inference runs on an accelerator"),
    ("FPGA", "inference runs on an accelerator"),
    ("ANPU", "inference runs on an accelerator"),
    ("Neural-ART", "inference runs on an accelerator"),
    ("Hexagon", "runs on an application processor"),
    ("Cortex-A", "runs on an application processor"),
    ("-O0", "built without optimisation"),
    ("TFLM 2.3.1", "kernels from 2020, built for size with GCC 6"),
    ("microTVM native", "TVM's own kernels"),
    ("RV32", "no instruction tables for this core"),
    ("RV64", "no instruction tables for this core"),
    ("RISC-V", "no instruction tables for this core"),
    ("Andes", "no instruction tables for this core"),
    ("XuanTie", "no instruction tables for this core"),
    ("RXv2", "no instruction tables for this core"),
    ("RH850", "no instruction tables for this core"),
    ("Xtensa", "no instruction tables for this core"),
)
# Runtimes that leave out channels which are zero in vww_96_int8, by the first version that does.
SKIPS_DEAD_CHANNELS = ("8.1", "v9", "9.0", "10.2", "2023.05", "ONNC")


@dataclass(frozen=True, slots=True)
class Row:
    """One published measurement. board is a profile's name, "" where there is none; operator its index, or None.

    model: a benchmark's name, the path of a file below data, or a structure of benchmarks.latency.structures.
    """

    model: str
    dtype: str
    operator: int | None
    board: str
    core: str
    mhz: float
    runtime: str
    ms: float
    energy_uj: float | None
    role: Role
    reason: str
    source: str
    setup: str = ""
    family: str = ""
    arena_kib: float = 0.0
    note: str = ""

    @property
    def cycles(self) -> float:
        """The time at the board's clock."""
        return self.ms * self.mhz * 1e3


def rows(data: Path) -> list[Row]:
    """Every row of both sources."""
    return [*_mlperf(data), *_zoo(data), *_others(data), *own_rows()]


def own_rows() -> Iterator[Row]:
    """The rows of rows.csv."""
    with OWN.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            yield Row(
                model=line["model"],
                dtype=line["dtype"],
                operator=int(line["operator"]) if line["operator"] else None,
                board=line["board"],
                core="",
                mhz=float(line["mhz"]),
                runtime=line["runtime"],
                ms=float(line["ms"]),
                energy_uj=_number(line["energy_uj"]),
                role=_role(line["role"]),
                reason=line["reason"],
                source=line["source"],
                setup=line["board"],
            )


def _role(word: str) -> Role:
    if word == "calibration":
        return "calibration"
    return "test" if word == "test" else "shown"


def _mlperf(data: Path) -> Iterator[Row]:
    for line in _lines(data, "mlperf_tiny.csv"):
        if not line["latency_ms"]:
            continue
        model, core, runtime = line["benchmark"], line["core"], line["runtime"]
        reason = _why_not(f"{core} {runtime}")
        if model == "sww":
            reason = "a streaming task: its time is a fraction of each second of input, not the time of one inference"
        elif (model, line["dtype"]) not in MLPERF_FILES:
            reason = reason or f"no {line['dtype']} model of this task here"
        elif "version not stated" in runtime:
            reason = reason or "core or version of the runtime not given"
        elif line["dtype"] != "int8" and not reason:
            reason = "float32 with another runtime"
        elif model == "vww" and any(word in runtime for word in SKIPS_DEAD_CHANNELS):
            reason = reason or "the runtime skips the model's dead channels"
        yield Row(
            model=model,
            dtype=line["dtype"],
            operator=None,
            board=_board(line["board"]),
            core=core,
            mhz=float(line["mhz"] or 0),
            runtime=runtime.split(" | ")[0].split(", ")[0].split(" (-D")[0],
            ms=float(line["latency_ms"]),
            energy_uj=_number(line["energy_uJ"]),
            role="shown" if reason else "test",
            reason=reason,
            source=line["src_perf"],
            setup=" ".join((line["round"], line["submitter"], line["system"])),
        )


def _zoo(data: Path) -> Iterator[Row]:
    for line in _lines(data, "stm32_zoo.csv"):
        reason = _why_not(line["core"])
        if not line["file"]:
            reason = "the model is not available"
        elif not reason and (not line["core"] or not line["version"]):
            reason = "core or version of the runtime not given"
        if not line["ms"]:
            continue
        yield Row(
            model=f"latency/{line['file']}",
            dtype=line["format"],
            operator=None,
            board=_board(line["mcu"] + line["board"]),
            core=line["core"],
            mhz=float(line["mhz"] or 0),
            runtime=f"X-CUBE-AI {line['version']}" if line["version"] else line["engine"] or "unknown",
            ms=float(line["ms"]),
            energy_uj=None,
            role="shown" if reason else "test",
            reason=reason,
            source=f"{line['snapshot']}: {line['readme']}",
            family=family(line["file"]),
            arena_kib=float(line["act_ram_kib"] or 0),
        )


def _others(data: Path) -> Iterator[Row]:
    for line in _lines(data, "other_measured.csv"):
        mhz = float(line["mhz"] or 0)
        ms = float(line["ms"]) if line["ms"] else float(line["cycles"]) / mhz / 1e3 if line["cycles"] and mhz else 0.0
        if not ms:
            continue
        index = re.match(r"op #(\d+)", line["note"])
        named = f"{line['op']} {line['model']}" if line["runtime"].startswith("ESP-NN") else line["model"]
        model = named.removesuffix(".tflite")
        espressif = "ESP-NN" in line["runtime"] and line["kind"] == "model"  # a factor on their own estimate
        reason = "" if espressif else _why_not(f"{line['core']} {line['runtime']} {line['device']}")
        reason = reason or _why_not_other(line, model)
        yield Row(
            model=model,
            dtype="int8",
            operator=int(index[1]) if index else None,
            board=_board(line["device"]),
            core=line["core"],
            mhz=mhz,
            runtime=line["runtime"],
            ms=ms,
            energy_uj=None,
            role="shown" if reason else "test",
            reason=reason,
            source=line["source"],
            note=line["note"],
        )


def _why_not_other(line: dict[str, str], model: str) -> str:
    if line["kind"].endswith("-unverified") or line["kind"] in ("op-estimate", "op-fvp-ticks"):
        return "not measured on hardware, or not verified"
    if "reference kernels" in line["runtime"]:
        return "reference kernels of another version"
    if "dual-core" in line["runtime"]:
        return "uses both cores of the chip"
    if "single core" in line["runtime"]:
        return "the complete run is in rows.csv"
    known = (model, "int8") in MLPERF_FILES or model == "person_detect"
    return "" if known else "the model is not available"


def _why_not(words: str) -> str:
    return next((reason for word, reason in UNCOUNTED if word in words), "")


def _board(words: str) -> str:
    upper = words.upper().replace("_", "-")
    return next((name for word, name in BOARDS.items() if word in upper), "")


def family(file: str) -> str:
    """The family of a file of ST's model zoo: the same architecture at other widths and resolutions."""
    stem = Path(file).stem.removeprefix("st_")
    for word in ("mobilenet_v1", "mobilenet_v2", "squeezenet", "fdmobilenet", "miniresnet", "resnet", "mnist", "yolo"):
        if word in stem:
            return f"ssd {word}" if stem.startswith("ssd") else word
    return stem.split("_")[0]


def _number(text: str) -> float | None:
    return float(text) if text else None


def _lines(data: Path, name: str) -> Iterator[dict[str, str]]:
    with (data / "latency" / name).open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)
