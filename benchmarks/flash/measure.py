"""Build the firmware of a model for a Cortex-M7 with and without type-specific kernels, and compare flash and outputs.

The flash is that of program.py. The same object files, with check.cc instead of main.cc, run on QEMU.
"""

from __future__ import annotations

import csv
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.flash.program import CXX_FLAGS, KERNEL_FLAGS, LINK_FLAGS, PREFIX, SECONDS, Sources, firmware
from benchmarks.flash.program import output as command_output

from edgetool.execute.cores import MACHINES
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.model.types import Model
from edgetool.pipeline.source import open_tflite

HERE = Path(__file__).parent
MEASURED = HERE / "measured" / "registrations.csv"
CORE = "cortex-m7"
KERNELS = "cmsis-nn"
SAMPLES, SEED = 8, 1
# How the emitted files are compiled, by the name in the table.
REGISTRATIONS: Mapping[str, tuple[str, ...]] = {"general": ("-DNET_GENERAL_KERNELS",), "typed": ()}
OUTCOMES = {0: "equal", 1: "different", 2: "error"}


@dataclass(frozen=True, slots=True)
class Row:
    """A firmware. registrations: a key of REGISTRATIONS. functions: the type-specific kernels that it registers.

    outputs: how its outputs for random inputs compare with those of TFLM's reference kernels on this machine.
    """

    model: str
    sha256: str
    registrations: str
    functions: str
    flash_bytes: int
    model_bytes: int
    outputs: str


def measure(path: Path, sources: Sources, library: Path) -> list[Row]:
    """Return the rows of a model with one input and one output. library: what TFLM's Makefile has built."""
    source = open_tflite(path)
    with tempfile.TemporaryDirectory() as name:
        build = firmware(path, CORE, KERNELS, sources, Path(name))
        _write_samples(build.folder, source.model, source.blob)
        rows = []
        for registrations, definitions in REGISTRATIONS.items():
            flags = [*definitions, f"-DSAMPLES={SAMPLES}"]
            build.compile("net_runner.cc", str(HERE / "check.cc"), flags=flags)
            flash = build.flash_bytes(build.link(library, "newlib"))
            status = _emulate(build.link(library, "newlib", main="check"))
            functions = "" if definitions else " ".join(_functions((build.folder / "net_ops.h").read_text()))
            outputs = OUTCOMES.get(status, f"status {status}")
            rows.append(Row(path.stem, source.sha256, registrations, functions, flash, len(source.blob), outputs))
    return rows


def _write_samples(folder: Path, model: Model, blob: bytes) -> None:
    inputs = random_inputs(model, SAMPLES, SEED)
    outputs = run_model(blob, inputs, engine="tflm")
    if len(inputs) != 1 or len(outputs) != 1:
        raise ValueError("the model must have one input and one output")
    (folder / "inputs.bin").write_bytes(inputs[0].tobytes())
    (folder / "outputs.bin").write_bytes(outputs[0].tobytes())


def _functions(ops_header: str) -> list[str]:
    """Return the functions that register type-specific kernels."""
    return re.findall(r"NET_KERNEL\((Register_\w+)\)", ops_header)


def _emulate(program: Path) -> int:
    command = MACHINES[CORE].emulate(program)
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=SECONDS).returncode


def conditions(tflm_commit: str, cmsis_nn_commit: str, library_flags: str) -> dict[str, str]:
    """Return what the figures depend on, by name."""
    version = command_output([f"{PREFIX}gcc", "-dumpfullversion"])
    return {
        "tflm": tflm_commit,
        "cmsis-nn": cmsis_nn_commit,
        "compiler": f"{PREFIX}gcc {version}",
        "cpu": " ".join(MACHINES[CORE].flags),
        "emitted": " ".join((*CXX_FLAGS, *KERNEL_FLAGS[KERNELS])),
        "library": library_flags,
        "link": " ".join(LINK_FLAGS),
        "samples": f"{SAMPLES} per model, seed {SEED}",
    }


def write(path: Path, conditions: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Write the table behind its conditions, each of which is a comment."""
    path.parent.mkdir(exist_ok=True)
    names = [field.name for field in fields(Row)]
    with path.open("w", newline="", encoding="ascii") as file:
        file.writelines(f"# {name}: {value}\n" for name, value in conditions.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([[getattr(row, name) for name in names] for row in rows])


def read(path: Path = MEASURED) -> tuple[dict[str, str], list[Row]]:
    """Return the conditions and the rows of the table."""
    lines = path.read_text(encoding="ascii").splitlines()
    comments = [line.removeprefix("# ").partition(": ") for line in lines if line.startswith("# ")]
    table = csv.DictReader(line for line in lines if not line.startswith("# "))
    rows = [
        Row(
            *(row["model"], row["sha256"], row["registrations"], row["functions"]),
            flash_bytes=int(row["flash_bytes"]),
            model_bytes=int(row["model_bytes"]),
            outputs=row["outputs"],
        )
        for row in table
    ]
    return {name: value for name, _, value in comments}, rows
